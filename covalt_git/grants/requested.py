"""Permissions that a toolset requests in its manifest, and whether they are granted.

They are hosts and secrets only: MCP servers are in the manifest as they would be granted.  No manifest
says what Python code reaches, so that a toolset may need more than it requests.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.access.grants import Granted, granted, rule_of
from covalt_git.hosts import BadHostError, Origin, origin_of
from covalt_git.models.http_placement import secrets_of
from covalt_git.templating.url_templates import BadTemplateError, UrlTemplate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.models.tool_properties import HttpRequest
    from covalt_git.models.toolset_manifest import ToolsetManifest
    from covalt_git.toolsets.toolset import Toolset


class RequestedGrant(NamedTuple):
    """A host to reach, or a secret to send: ``host`` as a grant names it, None if it is unknown."""

    kind: Literal["network", "secret"]
    name: str | None
    host: str | None
    granted: bool


def requested(toolset: Toolset) -> list[RequestedGrant]:
    """Return the hosts that a toolset's HTTP tools would reach and the secrets it declares, sorted.

    A secret is named once for each host that a tool sends it to.
    """
    if toolset.manifest is None:
        return []
    may = granted(toolset.id, toolset.state, toolset.digest)
    found = {*_hosts(toolset.manifest, may), *_secrets(toolset.manifest, may)}
    return sorted(found, key=lambda one: (one.kind, one.name or "", one.host or ""))


def addresses_elsewhere(toolset: Toolset) -> list[str]:
    """Return the references that stand for an address of its HTTP tools, as they are written, sorted.

    Whoever sets their values says where the requests go.
    """
    found = set()
    for tool in toolset.manifest.tools if toolset.manifest else ():
        with contextlib.suppress(BadTemplateError):
            base = UrlTemplate.parse(tool.http.url).base if tool.http else None
            found |= {base.text} if base else set()
    return sorted(found)


def receivers(toolset: Toolset, name: str) -> dict[str, str]:
    """Return the HTTP tools that send a secret, and to which host each, as a grant names that.

    It is empty where only the value of a variable tells the host.
    """
    tools = toolset.manifest.tools if toolset.manifest else ()
    found = {}
    for tool in tools:
        if tool.http is not None and any(one.name == name for one in secrets_of(tool.http)):
            origin = _origin(tool.http)
            found[tool.id] = rule_of(origin) if origin else ""
    return found


def _hosts(manifest: ToolsetManifest, may: Granted) -> Iterator[RequestedGrant]:
    for tool in manifest.tools:
        if tool.http is not None and (origin := _origin(tool.http)):
            yield RequestedGrant("network", None, rule_of(origin), may.reach.covers(origin))


def _secrets(manifest: ToolsetManifest, may: Granted) -> Iterator[RequestedGrant]:
    sent = set()
    for tool in manifest.tools:
        if tool.http is None or (origin := _origin(tool.http)) is None:
            continue
        for reference in secrets_of(tool.http):
            reach = may.secrets.get(reference.name)
            sent.add(reference.name)
            covered = reach is not None and reach.covers(origin)
            yield RequestedGrant("secret", reference.name, rule_of(origin), covered)
    for name in manifest.secrets:
        if name not in sent:
            yield RequestedGrant("secret", name, None, name in may.secrets)


def _origin(http: HttpRequest) -> Origin | None:
    """Return whom a request goes to; None where that stands outside the project, or nowhere."""
    try:
        template = UrlTemplate.parse(http.url)
        return None if template.base is not None else origin_of(template.begins)[0]
    except (BadTemplateError, BadHostError):  # of a toolset with errors, which are told elsewhere
        return None
