"""Operations on OAuth logins at MCP servers with a URL, and on sign-ins of toolsets, for the local user.

A sign-in is for an entry of type ``oauth2`` in the ``auth`` of a toolset.
"""

from __future__ import annotations

import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import Field

from covalt_git.access.grants import Granted
from covalt_git.calls.servers import mcp_calls
from covalt_git.catalog.catalog import BrokenToolsetError
from covalt_git.connections.definition import Name
from covalt_git.connections.token_store import ClientChoice, stored_logins
from covalt_git.credentials.command import SecretCommand
from covalt_git.errors import CovaltError, UnknownNameError, WrongCallError
from covalt_git.grants.status import acting_grants, missing_grants
from covalt_git.hosts import origin_of
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.operations.context import Context
from covalt_git.operations.registry import EmptyRequest, Request, Result, invalid_field, operation
from covalt_git.system import programs
from covalt_git.templating.references import AUTH
from covalt_git.toolsets.state_store import find_server, find_toolset
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from covalt_git.connections.definition import Definition
    from covalt_git.connections.login_reach import LoginCallbacks
    from covalt_git.connections.token_store import StoredLogin
    from covalt_git.hosts import Reach
    from covalt_git.models.auth_entries import Auth
    from covalt_git.project import Project
    from covalt_git.toolsets.toolset import Toolset

WHAT = "sign in to servers"
_SERVER = (
    "Such as gear/disk: a toolset and the id of its server, or of an entry of its auth; the toolset alone names its"
    " only entry."
)


class LogIn(Request):
    """Request: the server or the entry of auth to sign in to, and the OAuth client."""

    server: str = Field(description=_SERVER)
    browser: bool = Field(
        default=True, description="Open a browser; otherwise only report the URL."
    )
    client_id: str | None = Field(None, description="The id of a registered client.")
    client_secret: str | None = Field(
        None, description="The name of the secret with the client secret."
    )
    client_metadata: str | None = Field(None, description="The URL of the client's metadata.")
    port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port of the redirect URL, if the provider compares it; 0: any.",
    )


class LogOut(Request):
    """Request: the server or the entry of auth to sign out of."""

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
    expired: bool = Field(description="Whether its token has expired and cannot be renewed.")
    needs_more: bool = Field(description="Whether the server requires more scopes.")
    hosts: tuple[str, ...] = Field((), description="The hosts that get the token of a sign-in.")

    @classmethod
    def of_login(cls, stored: StoredLogin) -> Self:
        """Return a stored login as a result."""
        return cls.of(
            stored,
            server=_name(stored),
            url=", ".join(stored.hosts) or stored.url,
            scope=stored.scope or "",
            expires_at=expiry_text(stored),
            renewable=stored.refresh_token is not None,
            expired=stored.is_dead,
            needs_more=stored.challenge is not None,
        )


class NeededSignIn(Result):
    """An entry of a toolset's auth that the user is not signed in to."""

    server: str
    hosts: tuple[str, ...]
    scopes: tuple[str, ...]


class LoginList(Result):
    """The logins of the local user for this project."""

    logins: tuple[LoginRow, ...]
    needed: tuple[NeededSignIn, ...] = Field(
        (), description="The sign-ins that toolsets declare and the user does not have."
    )


class LoggedOut(Result):
    """A server from which the user has signed out."""

    server: str
    was_signed_in: bool
    not_taken_back: tuple[str, ...] = Field(description="Why tokens could not be revoked.")


@operation(changes=True, admin=WHAT, local=True)
def log_in(context: Context, request: LogIn) -> LoginRow:
    """Sign in to the MCP server of a toolset, or to an entry of its auth, in a browser; this waits for the user."""
    from covalt_git.connections.login_reach import LoginCallbacks  # noqa: PLC0415 - few commands need it

    def on_url(url: str) -> None:
        context.report("sign in at this URL:")
        context.report(f"  {url}")
        context.report("waiting for you to sign in; Ctrl-C cancels")

    callbacks = LoginCallbacks(
        lambda origin: context.report(f"the authorization server is {origin}"),
        on_url,
        _open if request.browser else _leave,
    )
    toolset, entry = _entry(context.project.root, request.server)
    if entry is not None:
        return _sign_in(context, toolset, entry, request, callbacks)
    from covalt_git.connections.oauth_login import sign_in  # noqa: PLC0415 - it loads the SDK

    defined = _defined(context.project, request.server)
    # The header would be sent in place of the token, so that the login had no effect.
    if not defined.may_sign_in:
        raise CovaltError(
            f"{request.server} authenticates with its header 'Authorization', not with a login",
            hint=f"remove the header from toolsets/{defined.name.toolset_id}/toolset.yaml",
        )
    return LoginRow.of_login(sign_in(defined, callbacks, _choice(request)))


def _sign_in(
    context: Context, toolset: Toolset, entry: Auth, request: LogIn, callbacks: LoginCallbacks
) -> LoginRow:
    """Sign in to an entry of auth; without a browser, the address that another one ended at is read too."""
    from covalt_git.connections.entry_sign_in import SignInOptions, sign_in_to  # noqa: PLC0415 - it loads the SDK

    hosts = [*entry.effective_hosts, *(str(origin_of(url)[0]) for url in entry.other_token_urls)]
    where = ", ".join(dict.fromkeys(hosts))
    context.report(f"{toolset.id}/{entry.id}: the token will be sent to {where} only")
    options = SignInOptions(
        choice=_choice(request),
        port=request.port,
        read_address=None if request.browser else context.read_line,
        report=context.report,
    )
    if not request.browser:
        context.report(
            "with a browser on another machine: paste the address that it ends at, and press Enter"
        )
    stored = sign_in_to(
        Name(context.project.root, toolset.id, entry.reference_name),
        entry,
        acting_grants(toolset),
        callbacks,
        options,
    )
    if missing_grants(toolset):
        context.report(f"its tools lack a grant: covalt-git grant add {toolset.id} --requested")
    return LoginRow.of_login(stored)


@operation(admin=WHAT, local=True)
def list_logins(context: Context, _: EmptyRequest) -> LoginList:
    """List what the user is signed in to from this project, and the sign-ins that its toolsets still need."""
    root = context.project.root
    logins = []
    for file, stored in stored_logins(root):
        entry = _entry(root, _name(stored))[1] if stored.server_id.startswith(AUTH) else None
        # A sign-in for an earlier form of its entry is used by nothing.
        if entry is None or entry.digest == file.url:
            logins.append(LoginRow.of_login(stored))
    signed_in = {row.server for row in logins}
    needed = tuple(
        NeededSignIn(server=server, hosts=entry.effective_hosts, scopes=entry.effective_scopes)
        for toolset_id in toolset_ids(root / "toolsets")
        for entry in sign_in_entries(read_toolset(root, toolset_id))
        if (server := f"{toolset_id}/{entry.id}") not in signed_in
    )
    return LoginList(logins=tuple(logins), needed=needed)


@operation(changes=True, admin=WHAT, local=True)
def log_out(context: Context, request: LogOut) -> LoggedOut:
    """Delete the stored login of an MCP server or of an entry of auth, and have its tokens revoked."""
    from covalt_git.connections.oauth_logout import sign_out  # noqa: PLC0415 - it loads the SDK

    project = context.project
    server = request.server
    try:
        toolset, entry = _entry(project.root, server)
        stored_id = server.partition("/")[2] if entry is None else entry.reference_name
        server = server if entry is None else f"{toolset.id}/{entry.id}"
        logins = [
            login
            for login in stored_logins(project.root)
            if (login[1].toolset_id, login[1].server_id) == (toolset.id, stored_id)
        ]
    except CovaltError:
        # What the project declares no longer can still be signed out of.
        logins = [login for login in stored_logins(project.root) if _name(login[1]) == server]
    wrong = []
    for file, stored in logins:
        # Tokens are revoked with the hosts of the grant only. Without them, or if the server fails, they are still
        # deleted here.
        may = _grants_of(project.root, stored) if stored.server_id.startswith(AUTH) else None
        why = sign_out(file, _granted(project, server), may)
        until = "they are valid until they expire, or until you revoke them there"
        if why:
            wrong.append(f"{stored.issuer} did not revoke its tokens: {why}; {until}")
        elif stored.revocation_endpoint is None and may is not None:
            wrong.append(f"no revoke_url is known for {stored.issuer}, so its tokens stay: {until}")
    return LoggedOut(server=server, was_signed_in=bool(logins), not_taken_back=tuple(wrong))


def _grants_of(root: Path, stored: StoredLogin) -> Granted:
    """Return the grants of the toolset of a sign-in; none if it does not exist any more."""
    try:
        return acting_grants(find_toolset(root, stored.toolset_id))
    except CovaltError:
        return Granted(stored.toolset_id)


def expiry_text(stored: StoredLogin) -> str | None:
    """Return when the token of a login expires, in UTC (RFC 3339); None if that is not known."""
    ends = stored.expires_at
    return None if ends is None else f"{datetime.fromtimestamp(ends, UTC):%Y-%m-%dT%H:%M:%SZ}"


def sign_in_entries(toolset: Toolset) -> list[Auth]:
    """Return the entries of a toolset's auth that are sign-ins."""
    return [
        entry for entry in (toolset.manifest.auth if toolset.manifest else ()) if entry.is_sign_in
    ]


def _entry(root: Path, text: str) -> tuple[Toolset, Auth | None]:
    """Return a toolset, and the entry of its auth that TOOLSET or TOOLSET/ID names; None for an MCP server.

    Raises:
        UnknownNameError: if there is neither.
        WrongCallError: if the text could mean several.
    """
    toolset_id, _, name = text.partition("/")
    toolset = find_toolset(root, toolset_id)
    if toolset.manifest is None:
        raise BrokenToolsetError(
            f"the toolset {toolset_id!r} has errors, so its sign-ins are not known",
            hint=f"covalt-git validate toolsets/{toolset_id}",
            problems=toolset.manifest_reading.problems,
        )
    entries = {entry.id: entry for entry in sign_in_entries(toolset)}
    servers = [server.id for server in toolset.manifest.mcp_servers]
    if not name:
        if len(entries) == 1:
            return toolset, next(iter(entries.values()))
        names = [f"{toolset_id}/{declared}" for declared in (*entries, *servers)]
        what = "nothing to sign in to" if not names else f"several: {', '.join(names)}"
        hint = f"covalt-git auth login {names[0]}" if names else "covalt-git auth list"
        raise WrongCallError(f"the toolset {toolset_id!r} has {what}", hint=hint)
    short = name.removeprefix(AUTH)
    if short in entries and (name != short or short not in servers):
        return toolset, entries[short]
    if name in entries:
        raise WrongCallError(
            f"{text!r} is an MCP server and an entry of auth",
            hint=f"write {toolset_id}/{AUTH}{name} for the entry",
        )
    if name not in servers:
        names = [f"{toolset_id}/{declared}" for declared in (*entries, *servers)]
        raise UnknownNameError("sign-in", text, names, list_with="covalt-git auth list")
    return toolset, None


def find_entry(root: Path, text: str) -> tuple[Toolset, Auth]:
    """Return a toolset and the sign-in that TOOLSET or TOOLSET/ID names.

    Raises:
        UnknownNameError: if it does not exist.
    """
    toolset, entry = _entry(root, text)
    if entry is None:
        names = [f"{toolset.id}/{declared.id}" for declared in sign_in_entries(toolset)]
        raise UnknownNameError("sign-in", text, names, list_with="covalt-git auth list")
    return toolset, entry


def _granted(project: Project, server: str) -> Reach | None:
    """Return the hosts that a server's grant permits, if the server exists and is granted."""
    try:
        toolset, entry = _entry(project.root, server)
        if entry is not None:
            return acting_grants(toolset).reach
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
    return f"{stored.toolset_id}/{stored.server_id.removeprefix(AUTH)}"
