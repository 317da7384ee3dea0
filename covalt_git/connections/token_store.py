"""Token store: a file for each login to an MCP server or sign-in of a toolset, in the user's folder, readable only by the user.

The key of a file is the project, toolset, server and URL; for a sign-in, its entry of ``auth`` (``auth:github``) and
the digest of that entry are in place of the server and its URL.  So a token is never sent to another server, and
a toolset that declares the URL of another toolset's server does not get its tokens.  The project is its path and the
id in its ``data/``, so that another project at the same path does not get them either.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field, ValidationError

from covalt_git.connections.definition import Name
from covalt_git.credentials.values import Mask
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.models.base import StrictModel
from covalt_git.system import atomic_write, file_lock
from covalt_git.system.private_files import read_private, user_folder
from covalt_git.trust import Consents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from covalt_git.connections.definition import Definition
    from covalt_git.json_values import JsonObject

EARLY_S = 30.0
"""Seconds before its expiry at which a token is refreshed."""

_MOST_EARLIER = 10
"""Earlier tokens of a login that are masked."""

_FOLDER = "sign-ins"


class SignInFileError(CovaltError):
    """A stored login that is invalid, or that other users can read."""

    code = "sign_in_file"


class SignInNeededError(CovaltError):
    """A server that requires a login, or a sign-in that a call needs."""

    code = "sign_in_needed"
    http_status = 502


class ClientChoice(StrictModel):
    """OAuth client that the user chose for a login.

    Attributes:
        client_id: the id of a pre-registered client.
        secret_name: the name of the secret with its client secret, which is not stored here.
        metadata_url: the URL of a client metadata document, which is also the client's id.
    """

    client_id: str | None = None
    secret_name: str | None = None
    metadata_url: str | None = None


class StoredLogin(StrictModel):
    """Login to a server: its tokens, and the client and endpoints to refresh them.

    Attributes:
        project: the project's path; ``folder`` is the id in its ``data/``, and ``url`` the server's URL at the login, or
            the digest of the entry of ``auth``.
        hosts: the hosts that may get the token of an entry of ``auth``.
        issuer: the authorization server; ``origins`` are those that a refresh may use.
        client_secret: the secret of a client that was registered during the login.
        expires_at: the token's expiry, in seconds since 1970.
        challenge: the ``WWW-Authenticate`` header of a 403; the next login requests its scopes.
    """

    project: str
    folder: str | None = None
    toolset_id: str
    server_id: str
    url: str
    issuer: str
    origins: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    token_endpoint: str
    revocation_endpoint: str | None = None
    resource: str | None = None
    choice: ClientChoice = ClientChoice()
    client_id: str
    client_secret: str | None = Field(None, repr=False)
    auth_method: str | None = None
    access_token: str = Field(repr=False)
    earlier_tokens: tuple[str, ...] = Field((), repr=False)
    refresh_token: str | None = Field(None, repr=False)
    scope: str | None = None
    expires_at: float | None = None
    signed_in_at: str
    challenge: str | None = None

    @property
    def expires_soon(self) -> bool:
        """Whether the token has expired, or will before a call can use it."""
        return self.expires_at is not None and time.time() > self.expires_at - EARLY_S

    @property
    def is_dead(self) -> bool:
        """Whether the token has expired and cannot be renewed."""
        return self.has_expired and self.refresh_token is None

    @property
    def has_expired(self) -> bool:
        """Whether the token has expired by the clock of this machine."""
        return self.expires_at is not None and time.time() > self.expires_at

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values to mask in all output."""
        values = (
            *(self.access_token, self.refresh_token, self.client_secret),
            *self.earlier_tokens,
        )
        return tuple(value for value in values if value)


class SignInFile(NamedTuple):
    """File with the login to one server."""

    path: Path
    name: Name
    url: str

    @classmethod
    def of(cls, name: Name, url: str) -> SignInFile:
        """Return the file for a server at a URL."""
        key = {**_project(name.root), "toolset": name.toolset_id, "server": name.server_id}
        digest = canonical_json.digest(key | {"url": url}).partition(":")[2]
        return cls(user_folder() / _FOLDER / f"{digest}.json", name, url)

    def read(self) -> StoredLogin | None:
        """Return the stored login, or None without one.

        Raises:
            SignInFileError: if it cannot be used.
        """
        stored = _read(self.path)
        if stored is None:
            return None
        key = (stored.toolset_id, stored.server_id, stored.url)
        is_same = key == (self.name.toolset_id, self.name.server_id, self.url)
        # A file that was copied to another name would give a token to another server.
        if not is_same or not _is_of(stored, _project(self.name.root)):
            raise SignInFileError(
                f"the file {str(self.path)!r} contains a login to another server",
                hint=f"delete it and log in again: rm {self.path}",
            )
        return stored

    def write(self, stored: StoredLogin) -> None:
        """Replace the stored login, whose tokens stay known: tools may have kept them, and they may still be valid."""
        with suppress(SignInFileError):
            replaced = self.read()
            if replaced is not None:
                issued = (*replaced.earlier_tokens, replaced.access_token)
                earlier = tuple(token for token in issued if token != stored.access_token)
                stored = stored.model_copy(update={"earlier_tokens": earlier[-_MOST_EARLIER:]})
        text = stored.model_dump_json(indent=2, exclude_none=True) + "\n"
        atomic_write.replace(self.path, text, private=True)

    def delete(self) -> bool:
        """Delete the stored login; return whether there was one."""
        existed = self.path.exists()
        self.path.unlink(missing_ok=True)
        return existed

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Lock the file against changes by other processes."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A file of its own: a write replaces the login by rename, and a lock of the replaced file has no effect
        # on later ones.
        handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not file_lock.acquire(handle, wait=False):  # noqa: ASYNC110 - flock has no event
                await asyncio.sleep(file_lock.POLL_S)
            yield
        finally:
            os.close(handle)


def stored_logins(root: Path) -> Iterator[tuple[SignInFile, StoredLogin]]:
    """Yield all logins of a project, sorted by toolset and server.

    Raises:
        SignInFileError: if one cannot be used.
    """
    logins = []
    project = _project(root)
    for path in (user_folder() / _FOLDER).glob("*.json"):
        stored = _read(path)
        if stored is not None and _is_of(stored, project):
            file = SignInFile(path, Name(root, stored.toolset_id, stored.server_id), stored.url)
            logins.append((file, stored))
    yield from sorted(
        logins, key=lambda login: (login[1].toolset_id, login[1].server_id, login[1].url)
    )


def mask_of(definition: Definition) -> Mask:
    """Return a mask for the secrets of a server's definition and of its stored login."""
    stored = None
    if definition.may_sign_in:
        with suppress(SignInFileError):  # its tokens are not sent either
            stored = SignInFile.of(definition.name, definition.url).read()
    return Mask((*definition.secrets, *(stored.secrets if stored else ())))


def _read(path: Path) -> StoredLogin | None:
    text = read_private(path, SignInFileError)
    if text is None:
        return None
    try:
        return StoredLogin.model_validate_json(text)
    except ValidationError:
        raise SignInFileError(f"{str(path)!r} is not a valid login", hint=f"rm {path}") from None


def _project(root: Path) -> JsonObject:
    return Consents.of(root).project


def _is_of(stored: StoredLogin, project: JsonObject) -> bool:
    return {"project": stored.project, "folder": stored.folder} == project
