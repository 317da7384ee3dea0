"""Check that requests send the entries of ``auth`` only to the hosts that the entries name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access.grants import rule_of
from covalt_git.hosts import Reach
from covalt_git.problems import codes
from covalt_git.templating.references import references
from covalt_git.templating.url_templates import BadTemplateError, origin_of_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.model_errors import Loc
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.toolset_manifest import ToolsetManifest


def check_sign_ins(reading: Reading[ToolsetManifest]) -> Iterator[Problem]:
    """Find requests of HTTP tools and of MCP servers to hosts that an entry of ``auth`` does not name.

    The host of a URL that begins with a reference is known to calls only, which check it too.
    """
    manifest = reading.valid
    entries = {entry.reference_name: entry for entry in manifest.auth if entry.is_sign_in}
    if not entries:
        return
    urls: list[tuple[Loc, str, JsonObject]] = [
        (("tools", position, "http"), tool.http.url, tool.http.model_dump(mode="json"))
        for position, tool in enumerate(manifest.tools)
        if tool.http is not None
    ]
    urls += [
        (("mcp_servers", position), server.url, {"headers": server.headers})
        for position, server in enumerate(manifest.mcp_servers)
        if server.url is not None
    ]
    for loc, url, request in urls:
        try:
            origin = origin_of_template(url)
        except BadTemplateError:  # another check reports it
            continue
        if origin is None:
            continue
        for place, reference in references(request):
            entry = entries.get(reference.name)
            if entry is None or Reach.of(*entry.effective_hosts).covers(origin):
                continue
            message = f"the entry {entry.id!r} of auth may not be sent to {origin}"
            hint = f"add {rule_of(origin)} to the hosts of the entry"
            yield reading.problem(codes.BAD_REFERENCE, (*loc, *place), message, hint=hint)
