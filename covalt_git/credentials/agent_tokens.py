"""Access tokens of agents: ``data/tokens/<name>.json``, one file for each token, with mode 600.

A file has the SHA-256 of the token, its role and its chats, but not the token.  The token is returned
once, to its creator.  It is 256 random bits, so that the digest reveals nothing about it.

The files are in ``data/``, as the chats are, so that tokens and chats are moved and deleted together.  Only
existing, readable files give access.  Git does not store mode 600, so that a file that was checked out from a
repository gives no access.

A file is created complete, under an available name (``link(2)``), never changed, and deleted in one step.  So
processes need no lock.

If the chats are on a git server, new tokens are notes there, ``refs/covalt/agents/<name>``, with the same content, so that each
node accepts them.  A node reads the list again after :data:`FRESH_S`, and so a revoked token ends everywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import string
import threading
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import ValidationError

from covalt_git import timestamps
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import canonical_json
from covalt_git.models.base import Digest, Id, One, StrictModel, Time
from covalt_git.names import check_id, is_id, new_id
from covalt_git.system import atomic_write
from covalt_git.system.file_cache import FileCache
from covalt_git.system.node_folder import data_of
from covalt_git.system.private_files import read_private

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import timedelta

NOTES = "refs/covalt/agents/"
"""Beginning of the refs of tokens on a git server."""

FRESH_S = 2.0
"""Time after which a node reads the tokens of a git server again, in seconds."""

PREFIX = "cvg_"
"""Prefix of every token, so that scanners recognize tokens wherever they appear."""

_LETTERS = string.ascii_letters + string.digits
_LENGTH = 43  # characters of an alphabet of 62: 256 bits
_TEXT = re.compile(rf"{PREFIX}[A-Za-z0-9]{{{_LENGTH}}}")


class AgentTokenError(CovaltError):
    """A token that cannot be created, or whose file cannot be used."""

    code = "agent_token"


class AgentToken(StrictModel):
    """File of a token.

    Attributes:
        chat: the only chat that it opens; None for the chats that were created with it.
        chat_created_at: timestamp of that chat, so that the token does not open a later chat with its id.
        digest: SHA-256 of the token.
        reason: why a script created it, if no user did at a terminal.
    """

    v: One = 1
    id: str
    name: Id
    role: str
    chat: str | None = None
    chat_created_at: str | None = None
    digest: Digest
    created_at: Time
    expires_at: Time | None = None
    reason: str | None = None

    @property
    def agent(self) -> str:
        """The principal's id, in records and as the owner of chats."""
        return f"agent:{self.name}"

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timestamps.now()


class TokenNotes(Protocol):
    """Tokens on a git server, by their names."""

    def ids(self) -> dict[str, str]:
        """Return the names, with an id of each content."""

    def contents(self, names: Collection[str]) -> dict[str, bytes]:
        """Return the contents by name."""

    def create(self, name: str, content: bytes) -> bool:
        """Create a token, unless it exists; return whether it was created."""

    def remove(self, name: str, oid: str) -> bool:
        """Remove a token with this id of its content; return whether it was removed."""


def _no_notes() -> None:
    return None


class AgentTokens:
    """Token store of the project at ``root``; thread-safe.

    ``notes`` returns the tokens that all nodes of the project share; None if the chats are on this machine only.
    """

    def __init__(self, root: Path, notes: Callable[[], TokenNotes | None] = _no_notes) -> None:
        self._folder = data_of(root) / "tokens"
        self._cache = FileCache(most=1024)
        self._notes = notes
        self._lock = threading.Lock()
        self._ids: dict[str, str] = {}
        self._shared: dict[str, AgentToken] = {}
        """The tokens of the git server, by the ids of their contents."""
        self._due = 0.0

    def new(
        self,
        name: str,
        role: str,
        *,
        chat: tuple[str, str] | None = None,
        lasts: timedelta | None = None,
        reason: str | None = None,
    ) -> tuple[AgentToken, str]:
        """Create a token; return its file's content and the token itself.

        Args:
            name: an id.
            role: the role of ``covalt.yaml`` that the token has.
            chat: id and timestamp of the only chat that it opens, if it is for one.
            lasts: time until it expires; without it, it does not expire.
            reason: why a script creates it.

        Raises:
            BadNameError: if the name is not an id.
            AgentTokenError: if a token of that name exists, or its file cannot be written.
            ServerError: if the tokens are on a git server that cannot be reached.
        """
        check_id(name, "token")
        text = PREFIX + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        created = datetime.now(UTC)
        token = AgentToken(
            id=new_id(),
            name=name,
            role=role,
            chat=None if chat is None else chat[0],
            chat_created_at=None if chat is None else chat[1],
            digest=_digest(text),
            created_at=timestamps.written(created),
            expires_at=None if lasts is None else timestamps.written(created + lasts),
            reason=reason,
        )
        self._write(token)
        return token, text

    def all(self) -> list[AgentToken]:
        """Return all tokens by name, including expired ones.

        Raises:
            AgentTokenError: if a file cannot be used.
            ServerError: if the tokens are on a git server that cannot be reached.
        """
        tokens = [_read(Path(file.path)) for file in self._files()]
        return sorted([*tokens, *self._read_shared(0)], key=lambda token: token.name)

    def revoke(self, named: str) -> AgentToken:
        """Revoke the token with a name or an id, at once, and return it.

        Raises:
            UnknownNameError: if the name does not exist; the hint has the most similar one.
            AgentTokenError: if a file cannot be used or deleted.
            ServerError: if the tokens are on a git server that cannot be reached.
        """
        tokens = self.all()
        token = next((stored for stored in tokens if named in {stored.name, stored.id}), None)
        if token is None:
            names = [stored.name for stored in tokens]
            raise UnknownNameError("token", named, names, list_with="covalt-git token list")
        if (oid := self._ids.get(token.name)) is not None and self._shared.get(oid) == token:
            notes = self._notes()
            assert notes is not None
            notes.remove(token.name, oid)
            self._due = 0.0
            return token
        try:
            self._file(token.name).unlink(missing_ok=True)
            # Without it, a power cut could bring the revoked token back.
            atomic_write.fsync(self._folder)
        except OSError as error:
            raise _failed(self._file(token.name), error) from None
        return token

    def valid(self) -> list[AgentToken]:
        """Return the tokens that give access: not expired, and with a usable file.

        Raises:
            ServerError: if the tokens are on a git server that cannot be reached.
        """
        paths = [file.path for file in self._files()]
        tokens = [self._cache.get(path, [path], partial(_usable, path)) for path in paths]
        # Not cached: a token expires without a change of its file.
        return [
            token
            for token in (*tokens, *self._read_shared(FRESH_S))
            if token is not None and not token.is_expired
        ]

    def find(self, text: str) -> AgentToken | None:
        """Return the valid token with that text, in a time that does not depend on the other tokens."""
        if not _TEXT.fullmatch(text):
            return None
        digest = _digest(text)
        # All of them are compared, so that the time says nothing about the others.
        same = [token for token in self.valid() if hmac.compare_digest(token.digest, digest)]
        return same[0] if same else None

    def _read_shared(self, fresh_s: float) -> list[AgentToken]:
        """Return the tokens on the git server, as they were at most ``fresh_s`` seconds ago."""
        notes = self._notes()
        if notes is None:
            return []
        with self._lock:
            if not fresh_s or time.monotonic() >= self._due:
                ids = notes.ids()
                missing = [name for name, oid in ids.items() if oid not in self._shared]
                read = notes.contents(missing) if missing else {}
                tokens = dict(self._shared)
                for name, content in read.items():
                    if (token := _parsed(name, content)) is not None:
                        tokens[ids[name]] = token
                self._ids = ids
                self._shared = {oid: tokens[oid] for oid in ids.values() if oid in tokens}
                self._due = time.monotonic() + FRESH_S
            return [*self._shared.values()]

    def _write(self, token: AgentToken) -> None:
        content = canonical_json.dumps(token.model_dump(mode="json", exclude_none=True)) + b"\n"
        notes = self._notes()
        if notes is not None:
            # A token of this machine only, from before the chats were on a server, has a file.
            if self._file(token.name).exists() or not notes.create(token.name, content):
                raise _exists(token.name)
            self._due = 0.0
            return
        try:
            atomic_write.create_private(self._file(token.name), content)
        except FileExistsError:
            raise _exists(token.name) from None
        except OSError as error:
            raise _failed(self._file(token.name), error) from None

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _files(self) -> list[os.DirEntry[str]]:
        """Return the files by name.  Runs at every request, for which ``Path`` is too slow."""
        try:
            with os.scandir(self._folder) as entries:
                files = [file for file in entries if file.name.endswith(".json")]
        except OSError:
            return []
        return sorted(files, key=lambda file: file.name)


def _read(file: Path) -> AgentToken:
    """Return the content of a token's file.

    Raises:
        AgentTokenError: if other users may read it, or it is not a token's file.
    """
    content = read_private(file, AgentTokenError)
    token = _parsed(file.stem, content or "")
    if token is None:
        raise AgentTokenError(f"{str(file)!r} is not a token's file", hint=f"rm {file}")
    return token


def _parsed(name: str, content: str | bytes) -> AgentToken | None:
    """Return the token of that name; None if the content is not one."""
    try:
        token = AgentToken.model_validate(canonical_json.loads(content))
    except (ValidationError, canonical_json.NotJsonError):
        return None
    # A copy under another name would outlive the revocation of the first.
    return token if token.name == name and is_id(token.name) else None


def _exists(name: str) -> AgentTokenError:
    return AgentTokenError(
        f"the token {name!r} already exists",
        hint=f"use another name, or revoke it: covalt-git token revoke {name}",
    )


def _usable(path: str) -> AgentToken | None:
    try:
        return _read(Path(path))
    except AgentTokenError:
        return None


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _failed(file: Path, error: OSError) -> AgentTokenError:
    why = (error.strerror or str(error)).lower()
    return AgentTokenError(f"{str(file)!r} cannot be written: {why}")
