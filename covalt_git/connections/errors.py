"""Errors of connections, with the reason and a command that helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR
from pydantic import ValidationError

from covalt_git.connections.answers import FROM_SERVER
from covalt_git.connections.server_tasks import TaskCancelledError
from covalt_git.connections.server_texts import message_of
from covalt_git.connections.token_store import SignInNeededError, mask_of
from covalt_git.errors import CovaltError, failure_text
from covalt_git.http_client.transport import why_unreachable
from covalt_git.text.display import running, shorten

if TYPE_CHECKING:
    from covalt_git.connections.definition import Definition

_UNKNOWN_SESSION = {400: -32000, 404: -32001}
"""HTTP status and code of the error by which servers of the TypeScript SDK refuse a session that they do not know."""

_SESSION_GONE = "Session terminated"
_UNAUTHORIZED = 401
_MOST_SHOWN = 2_000
"""Characters of an error of a server, which can be all of its answer."""


class HttpFailure(NamedTuple):
    """Last HTTP status, whether the server requires another token, and why the stored one does not work."""

    status: int | None = None
    wants_token: bool = False
    token: str = ""

    def sign_in(self, definition: Definition) -> SignInNeededError | None:
        """Return the error if the server requires a login, or a token with more scopes."""
        if not self.wants_token and self.status != _UNAUTHORIZED:
            return None
        why = f": {self.token}" if self.token else ""
        command = f"auth login {definition.name}" if definition.may_sign_in else "secret list"
        return SignInNeededError(
            mask_of(definition).text(
                f"the MCP server {definition.name} requires authentication{why}"
            ),
            hint=f"covalt-git {command}",
        )


class ServerFailedError(CovaltError):
    """A server that cannot be started or connected to."""

    code = "server_failed"
    http_status = 502


class ServerEndedError(CovaltError):
    """A server that ended, or was stopped, during a request."""

    code = "server_ended"
    http_status = 502


class ServerRefusedError(CovaltError):
    """A request that a server answered with a protocol error."""

    code = "server_error"
    http_status = 502


def first_cause(error: BaseException) -> BaseException:
    """Return the first error of an exception group; the SDK's tasks raise groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def has_ended(error: BaseException) -> bool:
    """Return whether an error means that the connection, or the session, has ended."""
    # The SDK reports a closed connection with -32000, which servers use for any error.
    if not isinstance(error, MCPError) or error.data is FROM_SERVER:
        return False
    gone = error.code == INVALID_REQUEST and error.message == _SESSION_GONE
    return error.code == CONNECTION_CLOSED or gone


def needs_new_session(error: BaseException, status: int | None) -> bool:
    """Return whether the next request needs another connection; ``status`` is of the last HTTP response."""
    if has_ended(error):
        return True
    if not isinstance(error, MCPError) or status is None:
        return False
    return _UNKNOWN_SESSION.get(status) == error.code


def of_start(
    definition: Definition, error: BaseException, stderr: str, http: HttpFailure
) -> CovaltError:
    """Return the error of a server that cannot be started or reached; ``stderr`` is its stderr tail."""
    cause, name = first_cause(error), definition.name
    hint = ""
    unreachable = why_unreachable(cause)
    if isinstance(cause, CovaltError) and not unreachable:
        return cause
    # First: after a 401, the error of the SDK only says that the handshake failed.
    if (needed := http.sign_in(definition)) is not None:
        return needed
    if isinstance(cause, FileNotFoundError) and definition.argv:
        why = f"the program {definition.argv[0]!r} was not found"
        hint = definition.hint or "install it, or use its absolute path"
    elif isinstance(cause, PermissionError) and definition.argv:
        why = f"{definition.argv[0]!r} is not executable"
    elif isinstance(cause, TimeoutError):
        why = "it did not answer in time"
    elif has_ended(cause):
        why = "it exited before it answered"
    elif unreachable:
        why = unreachable
    elif isinstance(cause, MCPError):
        why = f"it answered: {cause.message}" + (f" ({http.status})" if http.status else "")
    else:
        why = _first_line(cause)
    return ServerFailedError(
        mask_of(definition).text(
            f"the MCP server {name} cannot be used: {why}{_stderr_part(stderr)}"
        ),
        hint=hint or definition.hint or _start_hint(definition),
    )


def _start_hint(definition: Definition) -> str:
    """Return what to check after a failed start; another attempt would fail in the same way."""
    name = definition.name
    where = f"toolsets/{name.toolset_id}/toolset.yaml"
    if definition.url:
        return f"check the url of {name.server_id} in {where}"
    command = f"check the command of {name.server_id} in {where}"
    if definition.sandbox is None:
        return command
    return f"{command}; this shows what it lacks in the sandbox: covalt-git source observe {name}"


def of_request(
    definition: Definition,
    error: BaseException,
    stderr: str,
    http: HttpFailure,
    *,
    effect: str = "",
) -> CovaltError:
    """Return the error of a failed request to a connected server; ``effect`` ends its message if no answer was read."""
    cause, name = first_cause(error), definition.name
    if isinstance(cause, TaskCancelledError):
        return TaskCancelledError(message_of(definition, cause.why), effect)
    if isinstance(cause, CovaltError):
        return cause
    if (needed := http.sign_in(definition)) is not None:
        return needed
    if has_ended(cause):
        why = f"the MCP server {name} ended during the request{effect}{_stderr_part(stderr)}"
        return ServerEndedError(mask_of(definition).text(why))
    if isinstance(cause, MCPError):
        why = f"the MCP server {name} answered with an error: {cause.message} ({cause.code})"
        # An error that the server sent says what happened; an answer that cannot be read does not.
        if cause.code == PARSE_ERROR:
            why += effect
        # Masked before it is shortened, because a mask does not recognize a part of a secret.
        return ServerRefusedError(running(shorten(mask_of(definition).text(why), _MOST_SHOWN)))
    why = why_unreachable(cause) or _first_line(cause)
    return ServerRefusedError(mask_of(definition).text(f"the MCP server {name}: {why}{effect}"))


def _first_line(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"its answer is invalid: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return failure_text(error)


def _stderr_part(stderr: str) -> str:
    return f"; the end of its stderr:\n{stderr}" if stderr else ""
