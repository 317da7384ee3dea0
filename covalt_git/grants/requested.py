"""Hosts and secrets that a toolset requests in its manifest, and whether they are granted.

MCP servers are not included, because the manifest already lists them.  The hosts that Python code needs are
not included, because no manifest lists them.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from covalt_git.access.grants import granted, rule_of
from covalt_git.hosts import BadHostError, Reach, origin_of
from covalt_git.models.http_placement import secrets_of
from covalt_git.models.sources.server_definition import references_of
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.templating.references import secret_words
from covalt_git.templating.url_templates import BadTemplateError, UrlTemplate, origin_of_template

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from covalt_git.access.grants import Granted
    from covalt_git.models.auth_entries import Auth
    from covalt_git.models.tool import Tool
    from covalt_git.toolsets.toolset import Toolset


@dataclass(frozen=True, slots=True)
class GrantAsked:
    """A requested host or secret; ``host`` has the form of a grant, and is null if it is unknown.

    A secret is not ``needed`` if the request has a default for it, or if only MCP servers use it, because
    their grants cover it.
    """

    kind: Literal["network", "secret"]
    name: str | None
    host: str | None
    granted: bool
    needed: bool = True

    @property
    def what(self) -> str:
        """The permission, as a phrase that follows "may not"."""
        if self.kind == "network":
            return f"reach {self.host}"
        secret = secret_words(self.name or "", quoted=True)
        return f"send {secret} to {self.host}" if self.host else f"use {secret}"


def requested(toolset: Toolset) -> list[GrantAsked]:
    """Return the hosts of a toolset's HTTP tools and the secrets that it declares, sorted.

    Registered tools are not included, because each has a grant of its own.

    A secret is listed once for each host to which a tool sends it.
    """
    if toolset.manifest is None or toolset.id == REGISTRY_NAMESPACE:
        return []
    requests = {request for tool in toolset.tools for request in _of_tool(toolset, tool)}
    may = granted(toolset.id, toolset.state, toolset.digest)
    sent = {request.name for request in requests}
    of_servers = {
        reference.name
        for server in toolset.manifest.mcp_servers
        for reference in references_of(server)
    }
    requests |= {
        GrantAsked(
            "secret",
            name,
            None,
            name in may.secrets,
            needed=toolset.has_python_tools and name not in of_servers,
        )
        for name in toolset.manifest.secrets
        if name not in sent
    }
    for entry in toolset.manifest.auth:
        requests |= set(_of_entry(toolset, entry, may, sent))
    return sorted(
        requests, key=lambda request: (request.kind, request.name or "", request.host or "")
    )


def variable_base_urls(toolset: Toolset) -> list[str]:
    """Return the references that are base URLs of HTTP tools, as in the manifest, sorted.

    The hosts of these requests depend on values that the toolset does not contain.
    """
    references = set()
    for tool in toolset.manifest.tools if toolset.manifest else ():
        with contextlib.suppress(BadTemplateError):
            base = UrlTemplate.parse(tool.http.url).base if tool.http else None
            references |= {base.text} if base else set()
    return sorted(references)


def receivers(toolset: Toolset, name: str) -> dict[str, str]:
    """Return the HTTP tools that send a secret, each with its host in the form of a grant.

    The host is empty if a variable determines it.
    """
    hosts = {}
    for tool in toolset.tools:
        if tool.http is not None and any(secret.name == name for secret in secrets_of(tool.http)):
            origin = origin_of_template(tool.http.url)
            hosts[tool.name_in_state] = rule_of(origin) if origin else ""
    return hosts


def _of_entry(
    toolset: Toolset, entry: Auth, may: Granted, sent: Collection[str | None]
) -> Iterator[GrantAsked]:
    """Yield what a sign-in needs: the secret of its client at the provider, and for Python tools the token's hosts."""
    if not entry.is_sign_in:
        return
    url = entry.url("token_url")
    client_secret = entry.client_secret_name
    if client_secret is not None and url is not None:
        with contextlib.suppress(BadHostError):
            origin, _ = origin_of(url)
            covered = may.secrets.get(client_secret, Reach()).covers(origin)
            yield GrantAsked("secret", client_secret, rule_of(origin), covered)
    hosts = [rule_of(origin_of(url)[0]) for url in entry.other_token_urls]
    for server in toolset.manifest.mcp_servers if toolset.manifest else ():
        if any(piece.name == entry.reference_name for piece in references_of(server)):
            at = origin_of_template(server.url or "")
            hosts += [] if at is None else [rule_of(at)]
    if toolset.has_python_tools and entry.reference_name not in sent:
        hosts += entry.effective_hosts
    rules = may.secrets.get(entry.reference_name, Reach()).rules
    granted_hosts = {rule.text for rule in rules}
    for host in dict.fromkeys(hosts):
        yield GrantAsked("secret", entry.reference_name, host, host in granted_hosts)


def _of_tool(toolset: Toolset, tool: Tool) -> Iterator[GrantAsked]:
    if tool.http is None or (origin := origin_of_template(tool.http.url)) is None:
        return
    # What the user has not accepted cannot be called, so it needs nothing.
    if tool.source is not None and tool.held_back is not None:
        return
    may = granted(toolset.id, toolset.state, toolset.digest, tool)
    host = rule_of(origin)
    yield GrantAsked("network", None, host, may.reach.covers(origin))
    for secret in secrets_of(tool.http):
        covered = may.secrets.get(secret.name, Reach()).covers(origin)
        yield GrantAsked("secret", secret.name, host, covered, needed=secret.default is None)
