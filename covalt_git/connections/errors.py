"""Why a server cannot be used, in words a person can do something with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp import MCPError
from mcp_types import INVALID_REQUEST

from covalt_git.connections.token_store import mask_of
from covalt_git.errors import CovaltError
from covalt_git.http_client.transport import why_unreachable

if TYPE_CHECKING:
    from covalt_git.connections.definition import Definition

CONNECTION_CLOSED = -32000
"""The code that the SDK gives requests whose connection ended under them."""

_SESSION_GONE = "Session terminated"
_UNAUTHORIZED = 401
_MOST_WORDS = 300


class HttpFailure(NamedTuple):
    """What was heard of HTTP: the last status, whether a better token is wanted, what is wrong with ours."""

    status: int | None = None
    wants_token: bool = False
    token: str = ""

    def sign_in(self, definition: Definition) -> SignInNeededError | None:
        """Return what to tell where the server wants to know who asks, or wants to know it better."""
        if not self.wants_token and self.status != _UNAUTHORIZED:
            return None
        why = f": {self.token}" if self.token else ""
        command = f"auth login {definition.name}" if definition.may_sign_in else "secret list"
        return SignInNeededError(
            mask_of(definition).text(
                f"the MCP server {definition.name} wants to know who asks{why}"
            ),
            hint=f"covalt-git {command}",
        )


class ServerFailedError(CovaltError):
    """A server could not be started or connected to."""

    code = "server_failed"
    http_status = 502


class ServerEndedError(CovaltError):
    """A server ended, or was stopped, while it was asked."""

    code = "server_ended"
    http_status = 502


class ServerRefusedError(CovaltError):
    """A server answered a request with an error of the protocol."""

    code = "server_error"
    http_status = 502


class SignInNeededError(CovaltError):
    """A server wants to know who asks."""

    code = "sign_in_needed"
    http_status = 502


def first_cause(error: BaseException) -> BaseException:
    """Return the first error of a group, as the SDK's tasks raise them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def has_ended(error: BaseException) -> bool:
    """Tell whether an error says that the connection, or the server's session, is no more."""
    if not isinstance(error, MCPError):
        return False
    gone = error.code == INVALID_REQUEST and error.message == _SESSION_GONE
    return error.code == CONNECTION_CLOSED or gone


_NOTHING = HttpFailure()


def of_start(
    definition: Definition, error: BaseException, said: str, heard: HttpFailure = _NOTHING
) -> CovaltError:
    """Return why a server cannot be used; ``said`` is the end of what it wrote on its error stream."""
    cause, name = first_cause(error), definition.name
    hint = ""
    unreachable = why_unreachable(cause)
    if isinstance(cause, CovaltError) and not unreachable:
        return cause
    if (needed := heard.sign_in(definition)) is not None:
        return needed
    if isinstance(cause, FileNotFoundError) and definition.argv:
        why = f"there is no program {definition.argv[0]!r}"
        hint = "install it, or write its whole path"
    elif isinstance(cause, PermissionError) and definition.argv:
        why = f"{definition.argv[0]!r} may not be started"
    elif isinstance(cause, TimeoutError):
        why = "it did not answer in time"
    elif has_ended(cause):
        why = "it ended before it answered"
    elif unreachable:
        why = unreachable
    elif isinstance(cause, MCPError):
        why = f"it answered: {cause.message}" + (f" ({heard.status})" if heard.status else "")
    else:
        why = _in_words(cause)
    return ServerFailedError(
        mask_of(definition).text(
            f"the MCP server {name} cannot be used: {why}{_stderr_text(said)}"
        ),
        hint=hint or f"covalt-git source refresh {name.toolset_id}",
    )


def of_request(
    definition: Definition, error: BaseException, said: str, heard: HttpFailure = _NOTHING
) -> CovaltError:
    """Return why a request to a server that had been there came to nothing."""
    cause, name = first_cause(error), definition.name
    if isinstance(cause, CovaltError):
        return cause
    if (needed := heard.sign_in(definition)) is not None:
        return needed
    if has_ended(cause):
        why = f"the MCP server {name} ended while it was asked{_stderr_text(said)}"
        return ServerEndedError(mask_of(definition).text(why))
    if isinstance(cause, MCPError):
        why = f"the MCP server {name} answered with an error: {cause.message} ({cause.code})"
        return ServerRefusedError(mask_of(definition).text(why))
    why = why_unreachable(cause) or _in_words(cause)
    return ServerRefusedError(mask_of(definition).text(f"the MCP server {name}: {why}"))


def _in_words(error: BaseException) -> str:
    return str(error).partition("\n")[0][:_MOST_WORDS] or type(error).__name__


def _stderr_text(said: str) -> str:
    return f"; its last words were:\n{said}" if said else ""
