"""Operations on OAuth logins at MCP servers with a URL, for the local user."""

from __future__ import annotations

import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import Field

from covalt_git.calls.servers import mcp_calls
from covalt_git.connections.token_store import ClientChoice, stored_logins
from covalt_git.credentials.command import SecretCommand
from covalt_git.errors import CovaltError, WrongCallError
from covalt_git.operations.context import Context
from covalt_git.operations.registry import EmptyRequest, Request, Result, invalid_field, operation
from covalt_git.system import programs
from covalt_git.toolsets.state_store import find_server, find_toolset

if TYPE_CHECKING:
    from covalt_git.connections.definition import Definition
    from covalt_git.connections.token_store import StoredLogin
    from covalt_git.hosts import Reach
    from covalt_git.project import Project

_WHAT = "sign in to servers"
_SERVER = "Such as gear/disk: a toolset and the id of its server."


class LogIn(Request):
    """Request: the server to sign in to, and the OAuth client."""

    server: str = Field(description=_SERVER)
    browser: bool = Field(
        default=True, description="Open a browser; otherwise only report the URL."
    )
    client_id: str | None = Field(None, description="The id of a registered client.")
    client_secret: str | None = Field(
        None, description="The name of the secret with the client secret."
    )
    client_metadata: str | None = Field(None, description="The URL of the client's metadata.")


class LogOut(Request):
    """Request: the server to sign out of."""

    server: str = Field(description=_SERVER)


class LoginRow(Result):
    """A stored login, without its tokens."""

    server: str
    url: str
    issuer: str
    origins: tuple[str, ...]
    client_id: str
    scope: str
    signed_in_at: str
    expires_at: str | None = Field(description="When its token expires, if that is known.")
    renewable: bool
    needs_more: bool = Field(description="Whether the server requires more scopes.")

    @classmethod
    def of_login(cls, stored: StoredLogin) -> Self:
        """Return a stored login as a result."""
        ends = stored.expires_at
        expires_at = None if ends is None else datetime.fromtimestamp(ends, UTC)
        return cls.of(
            stored,
            server=_name(stored),
            scope=stored.scope or "",
            expires_at=None if expires_at is None else expires_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            renewable=stored.refresh_token is not None,
            needs_more=stored.challenge is not None,
        )


class LoginList(Result):
    """The logins of the local user for this project."""

    logins: tuple[LoginRow, ...]


class LoggedOut(Result):
    """A server from which the user has signed out."""

    server: str
    was_signed_in: bool
    not_taken_back: tuple[str, ...] = Field(description="Why tokens could not be revoked.")


@operation(changes=True, admin=_WHAT, local=True)
def log_in(context: Context, request: LogIn) -> LoginRow:
    """Sign in to the MCP server of a toolset, in a browser; this waits for the user."""
    from covalt_git.connections.oauth_login import LoginCallbacks, sign_in  # noqa: PLC0415 - it loads the SDK

    defined = _defined(context.project, request.server)
    # The header would be sent in place of the token, so that the login had no effect.
    if not defined.may_sign_in:
        raise CovaltError(
            f"{request.server} authenticates with its header 'Authorization', not with a login",
            hint=f"remove the header from toolsets/{defined.name.toolset_id}/toolset.yaml",
        )

    def on_url(url: str) -> None:
        context.report("sign in at this URL:")
        context.report(f"  {url}")
        context.report("waiting for you to sign in; Ctrl-C cancels")

    callbacks = LoginCallbacks(
        lambda origin: context.report(f"the authorization server is {origin}"),
        on_url,
        _open if request.browser else _leave,
    )
    return LoginRow.of_login(sign_in(defined, callbacks, _choice(request)))


@operation(admin=_WHAT, local=True)
def list_logins(context: Context, _: EmptyRequest) -> LoginList:
    """List the servers that the user is signed in to, from this project."""
    logins = stored_logins(context.project.root)
    return LoginList(logins=tuple(LoginRow.of_login(stored) for _, stored in logins))


@operation(changes=True, admin=_WHAT, local=True)
def log_out(context: Context, request: LogOut) -> LoggedOut:
    """Delete the stored login of an MCP server, and have the server revoke its tokens."""
    from covalt_git.connections.oauth_logout import sign_out  # noqa: PLC0415 - it loads the SDK

    project, server = context.project, request.server
    logins = [entry for entry in stored_logins(project.root) if _name(entry[1]) == server]
    wrong = []
    for file, stored in logins:
        # Tokens are revoked with the hosts of the grant only. Without them, or if the server fails, they are still
        # deleted here.
        why = sign_out(file, _granted(project, server))
        if why:
            wrong.append(f"{stored.issuer} did not revoke its tokens: {why}")
    return LoggedOut(server=server, was_signed_in=bool(logins), not_taken_back=tuple(wrong))


def _granted(project: Project, server: str) -> Reach | None:
    """Return the hosts that a server's grant permits, if the server exists and is granted."""
    try:
        return _defined(project, server).reach
    except CovaltError:
        return None


def _defined(project: Project, text: str) -> Definition:
    """Return the definition of the server TOOLSET/SERVER, which must have a URL.

    Raises:
        GrantNeededError: if its current declaration is not granted.
        CovaltError: if it does not exist, or a reference in it cannot be resolved.
    """
    toolset_id, slash, server_id = text.partition("/")
    if not slash:
        raise WrongCallError(f"{text!r} does not have the form TOOLSET/SERVER")
    toolset = find_toolset(project.root, toolset_id)
    server = find_server(toolset, server_id)
    if server.url is None:
        raise CovaltError(
            f"{text} is a program, which needs no login",
            hint=f"covalt-git toolset show {toolset_id}",
        )
    # A login belongs to no chat, so a reference to the workspace means an empty folder.
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as nowhere:
        return mcp_calls.definition(
            toolset,
            server,
            root=project.root,
            workspace=Path(nowhere),
            chat_id=None,
            command=SecretCommand.of(project.root, project.config.secret_command),
        )


def _choice(request: LogIn) -> ClientChoice | None:
    client_id, metadata = request.client_id, request.client_metadata
    if request.client_secret is not None and client_id is None:
        raise invalid_field("client_secret", "it requires client_id")
    if (client_id, metadata) == (None, None):
        return None
    return ClientChoice(
        client_id=client_id, secret_name=request.client_secret, metadata_url=metadata
    )


def _open(url: str) -> None:
    """Show a URL in the user's browser; output of the browser is ignored."""
    nowhere = subprocess.DEVNULL
    # A session of its own, so that Ctrl-C ends the wait for the login and not the browser (test_ctrl_c_ends_a_login).
    programs.browse(url, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)


def _leave(_: str) -> None:
    """Do nothing: the user opens the URL."""


def _name(stored: StoredLogin) -> str:
    return f"{stored.toolset_id}/{stored.server_id}"
