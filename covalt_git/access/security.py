"""Check of a call against the ``security`` block of its tool: protocols, and requirements on tokens.

covalt-git does not check the content of tokens yet, and must not ignore a requirement.  A tool that requires a
token therefore cannot be called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.access.subject import Subject
    from covalt_git.models.tool_properties import Security

Protocol = Literal["mcp", "http"]
"""The protocol of a call: ``mcp`` through the gateway, ``http`` through the server's API and pages."""


def security_refusal(tool: Subject, protocol: Protocol | None) -> CovaltError | None:
    """Return the error of all calls of a tool over ``protocol``; None if its ``security`` block permits them.

    ``protocol`` is None for commands and the Python API.
    """
    security = tool.security
    if security is None:
        return None
    required = ", ".join(_token_requirements(security, tool))
    if required:
        return CovaltError(
            f"{tool.tool_id} requires an access token ({required}),"
            " and this version of covalt-git does not check such tokens",
            hint=f"remove the requirements from the security block of {tool.tool_id}",
            code="token_needed",
            http_status=403,
        )
    if protocol is None or protocol in security.protocols:
        return None
    return CovaltError(
        f"{tool.tool_id} accepts calls over {' and '.join(security.protocols)}, not over {protocol}",
        hint=f"add {protocol} to the protocols of {tool.tool_id}",
        code="protocol_denied",
        http_status=403,
    )


def _token_requirements(security: Security, tool: Subject) -> Iterator[str]:
    """Yield the keys that only a token can satisfy; the tool's own id is the default audience, not a requirement."""
    if security.required_capabilities:
        yield "required_capabilities"
    if security.max_blast_radius is not None:
        yield "max_blast_radius"
    if security.requires_execution:
        yield "requires_execution"
    if security.resource_uri not in {None, tool.tool_id, tool.path}:
        yield "resource_uri"
