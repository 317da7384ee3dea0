"""Check of a call against the ``security`` block of its tool: protocols, and requirements on access tokens.

The checks are made in the order of the block's documentation: a token is there, the protocol, the audience, the
capabilities, the blast radius, and with ``requires_execution`` the binding of the token to this one call.  A claim that is
missing is refused like a wrong one.  Nothing replaces a required token: no role, no local user, no agent's token.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Literal

from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.access.subject import Subject
    from covalt_git.json_values import JsonObject
    from covalt_git.models.access_token import AccessToken
    from covalt_git.models.tool_properties import Security

Protocol = Literal["mcp", "http"]
"""The protocol of a call: ``mcp`` through the gateway, ``http`` through the server's API and pages."""

ANY = "*"
_UNAUTHORIZED = 401
_HOW_TO_SEND = {
    None: "give the file of a token: covalt-git call --token-file FILE; scripts cannot call this tool",
    "http": "send a token of an issuer as Authorization: Bearer to the API; pages and scripts cannot call this tool",
    "mcp": "connect to /mcp with a token of an issuer as Authorization: Bearer; clients over stdio, agents' tokens"
    " and scripts cannot call this tool",
}


class TokenRefusedError(CovaltError):
    """The ``security`` block of a tool refuses a call; the message has no value of a token."""

    http_status = 403


def security_refusal(
    tool: Subject, protocol: Protocol | None, token: AccessToken | None = None
) -> TokenRefusedError | None:
    """Return the error of all calls of a tool over ``protocol`` with a token; None if its ``security`` block permits them.

    ``protocol`` is None for commands and the Python API.  What depends on the arguments is checked by
    :func:`binding_refusal`.
    """
    security = tool.security
    if security is None:
        return None
    required = tuple(_token_requirements(security, tool))
    if required and token is None:
        return _missing(tool, required, _HOW_TO_SEND[protocol])
    if protocol is not None and protocol not in security.protocols:
        return _refused(
            "protocol_denied",
            f"{tool.tool_id} accepts calls over {' and '.join(security.protocols)}, not over {protocol}",
            f"add {protocol} to the protocols of {tool.tool_id}",
        )
    # The claims of an approved call were checked when its approval was requested, for the same definition of the tool.
    if not required or token is None or token.approved:
        return None
    if not set(_audiences(security, tool)).intersection(token.audience):
        return _refused("audience_mismatch", f"the access token is not for {tool.tool_id}")
    if not set(security.required_capabilities) <= set(token.capabilities or ()):
        return _refused(
            "insufficient_capabilities",
            f"the access token lacks capabilities that {tool.tool_id} requires",
        )
    most = security.max_blast_radius
    if most is not None and not _is_within(token.blast_radius, most):
        return _refused(
            "blast_radius_exceeded",
            f"the access token permits {tool.tool_id} no blast radius, or a larger one than its maximum",
        )
    return None


def binding_refusal(
    tool: Subject, token: AccessToken | None, args: JsonObject
) -> TokenRefusedError | None:
    """Return the error of one call if a tool requires a token for a single execution, and this one is not for the call."""
    security = tool.security
    if security is None or not security.requires_execution or (token and token.approved):
        return None
    is_bound = (
        token is not None
        and token.jti is not None
        and token.exec_act in security.allowed_operations
        and token.target in security.allowed_targets
        and token.inp_hash == input_hash(args)
    )
    return None if is_bound else not_bound(tool)


def not_bound(tool: Subject, why: str = "") -> TokenRefusedError:
    """Return the error of a token that is not for this execution, or that another one has spent."""
    return _refused(
        "exec_binding_invalid",
        why or f"the access token is not bound to this call of {tool.tool_id}",
        "get a token with jti, exec_act, target and the inp_hash of these arguments",
    )


def script_refusal(tools: Iterable[Subject]) -> TokenRefusedError | None:
    """Return the error of a call by a script: a token is for what its holder calls, not for what a script makes of it."""
    for tool in tools:
        required = () if tool.security is None else tuple(_token_requirements(tool.security, tool))
        if required:
            return _missing(tool, required, "call it without a script")
    return None


def needs_token(tools: Iterable[Subject]) -> bool:
    """Return whether a call of these tools requires an access token."""
    return script_refusal(tools) is not None


def is_bound(tools: Iterable[Subject]) -> bool:
    """Return whether a token for a single execution is required, which the call spends."""
    return any(tool.security is not None and tool.security.requires_execution for tool in tools)


def input_hash(args: JsonObject) -> str:
    """Return the value of ``inp_hash`` for arguments: base64url of SHA-256 of their canonical JSON (RFC 8785)."""
    digest = hashlib.sha256(canonical_json.dumps(args)).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def audience_of(tool: Subject) -> str:
    """Return the audience that a token for a tool must have."""
    return (tool.security and tool.security.resource_uri) or tool.tool_id


def checks_passed(tools: Iterable[Subject]) -> tuple[str, ...]:
    """Return the names of the checks that a call with a token has passed, in their order, for its record."""
    checks = dict.fromkeys(["token"])
    for tool in tools:
        security = tool.security
        if security is None:
            continue
        checks["protocol"] = None
        if not any(_token_requirements(security, tool)):
            continue
        checks["audience"] = None
        if security.required_capabilities:
            checks["capabilities"] = None
        if security.max_blast_radius is not None:
            checks["blast_radius"] = None
        if security.requires_execution:
            checks["execution"] = None
    return tuple(checks)


def _audiences(security: Security, tool: Subject) -> tuple[str, ...]:
    # Without a resource_uri, a token may name the tool in both spellings of its id: with a dot or with a colon.
    return (tool.tool_id, tool.path) if security.resource_uri is None else (security.resource_uri,)


def _is_within(radius: str | None, most: str) -> bool:
    """Return whether a blast radius is at most ``most``: ``*``, ``scope:*``, ``scope:value``, or another equal text."""
    if radius is None:
        return False
    if most in {ANY, radius}:
        return True
    scope, colon, value = most.partition(":")
    return value == ANY and colon == ":" and radius.partition(":")[:2] == (scope, ":")


def _missing(tool: Subject, required: Iterable[str], hint: str) -> TokenRefusedError:
    error = _refused(
        "missing_token",
        f"{tool.tool_id} requires an access token of an issuer ({', '.join(required)})",
        hint,
    )
    error.http_status = _UNAUTHORIZED
    return error


def _refused(code: str, message: str, hint: str = "") -> TokenRefusedError:
    return TokenRefusedError(message, hint=hint, code=code, http_status=403)


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
