"""What signing in to MCP servers left: a file for each server, outside every project, its owner's alone.

A file is for one address, as one server of one toolset of one project has it: what is in it goes to no
other server, and a toolset that declares another's address does not have what that one was given.
"""

from __future__ import annotations

import asyncio
import os
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

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from covalt_git.connections.definition import Definition

_FOLDER = "sign-ins"


class SignInFileError(CovaltError):
    """What signing in left cannot be used: others may read it, or it is no such file."""

    code = "sign_in_file"


class ClientChoice(StrictModel):
    """The client that an authorization server knows us as, where a person chose one.

    Attributes:
        client_id: of a client that was registered beforehand.
        secret_name: the secret that holds its password; the password itself is never kept here.
        metadata_url: the address of a document that describes the client, and is its id.
    """

    client_id: str | None = None
    secret_name: str | None = None
    metadata_url: str | None = None


class StoredLogin(StrictModel):
    """What one sign-in left.

    Attributes:
        project: the project's folder; ``url`` is the server's address as it was then.
        issuer: the authorization server; ``origins`` are those that may be gone to for a new token.
        client_secret: what the authorization server gave us when it registered us.
        expires_at: when the token ends, in seconds since 1970.
        challenge: what the server said when the token did not allow enough; the next sign-in asks for it.
    """

    project: str
    toolset_id: str
    server_id: str
    url: str
    issuer: str
    origins: tuple[str, ...]
    token_endpoint: str
    revocation_endpoint: str | None = None
    resource: str | None = None
    choice: ClientChoice = ClientChoice()
    client_id: str
    client_secret: str | None = Field(None, repr=False)
    auth_method: str | None = None
    access_token: str = Field(repr=False)
    refresh_token: str | None = Field(None, repr=False)
    scope: str | None = None
    expires_at: float | None = None
    signed_in_at: str
    challenge: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be in nothing that is shown."""
        found = (self.access_token, self.refresh_token, self.client_secret)
        return tuple(one for one in found if one)


class SignInFile(NamedTuple):
    """Where the sign-in to one server is kept."""

    path: Path
    name: Name
    url: str

    @classmethod
    def of(cls, name: Name, url: str) -> SignInFile:
        """Return the file for the server at an address, as a toolset of a project has it."""
        told = {"project": _project(name), "toolset": name.toolset_id, "server": name.server_id}
        digest = canonical_json.digest(told | {"url": url}).partition(":")[2]
        return cls(user_folder() / _FOLDER / f"{digest}.json", name, url)

    def read(self) -> StoredLogin | None:
        """Return what is kept, or None where nobody has signed in.

        Raises:
            SignInFileError: when it cannot be used.
        """
        kept = _read(self.path)
        if kept is None:
            return None
        whose = (kept.project, kept.toolset_id, kept.server_id, kept.url)
        if whose != (_project(self.name), self.name.toolset_id, self.name.server_id, self.url):
            raise SignInFileError(
                f"{str(self.path)!r} is of another server, so nothing is taken from it",
                hint=f"rm {self.path}",
            )
        return kept

    def write(self, kept: StoredLogin) -> None:
        """Keep that in place of what was."""
        text = kept.model_dump_json(indent=2, exclude_none=True) + "\n"
        atomic_write.replace(self.path, text, private=True)

    def forget(self) -> bool:
        """Remove it; return whether there was one."""
        was_there = self.path.exists()
        self.path.unlink(missing_ok=True)
        return was_there

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep other processes of ours from changing it meanwhile."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not file_lock.acquire(handle, wait=False):  # noqa: ASYNC110 - of other processes
                await asyncio.sleep(file_lock.POLL_S)
            yield
        finally:
            os.close(handle)


def stored_logins(root: Path) -> Iterator[tuple[SignInFile, StoredLogin]]:
    """Yield every sign-in of a project, sorted by toolset and server.

    Raises:
        SignInFileError: when one cannot be used.
    """
    found = []
    for path in (user_folder() / _FOLDER).glob("*.json"):
        kept = _read(path)
        if kept is not None and kept.project == str(root.resolve()):
            file = SignInFile(path, Name(root, kept.toolset_id, kept.server_id), kept.url)
            found.append((file, kept))
    yield from sorted(found, key=lambda one: (one[1].toolset_id, one[1].server_id, one[1].url))


def mask_of(definition: Definition) -> Mask:
    """Return what hides the secrets that a server was given, and those that a sign-in left for it."""
    kept = None
    if definition.may_sign_in:
        with suppress(SignInFileError):  # whose tokens are not used either
            kept = SignInFile.of(definition.name, definition.url).read()
    return Mask((*definition.secrets, *(kept.secrets if kept else ())))


def _read(path: Path) -> StoredLogin | None:
    text = read_private(path, SignInFileError)
    if text is None:
        return None
    try:
        return StoredLogin.model_validate_json(text)
    except ValidationError:
        raise SignInFileError(
            f"{str(path)!r} is not what signing in leaves", hint=f"rm {path}"
        ) from None


def _project(name: Name) -> str:
    return str(name.root.resolve())
