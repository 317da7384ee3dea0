"""The tokens that agents come in by: ``data/tokens/<name>.json``, one file a token, nobody else's to read.

A file holds the SHA-256 of the token and what it opens, not the token: that is told once, to whoever makes
it.  As a token is 256 random bits, its digest says nothing about it.

They lie in ``data/`` because the chats do that they open: a token lives and dies with them, goes where the
project goes, and is no other project's that comes to lie at the same path.  What is there is what is let in, so
that a file that is gone, or one that cannot be read, lets nobody in.  git keeps no mode 600: a file that came
with a repository counts for nothing.

A file appears whole and under a name that is free (``link(2)``), is never changed and goes at once, so that
processes need no lock.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import string
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from covalt_git import timestamps
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import canonical_json
from covalt_git.models.base import Digest, Id, One, StrictModel, Time
from covalt_git.names import check_id, is_id, new_id
from covalt_git.system import atomic_write
from covalt_git.system.file_cache import FileCache
from covalt_git.system.private_files import read_private

if TYPE_CHECKING:
    from datetime import timedelta

PREFIX = "cvg_"
"""How every token begins, by which it is known for one wherever it turns up."""

_LETTERS = string.ascii_letters + string.digits
_LENGTH = 43  # of 62 letters: 256 bits
_TEXT = re.compile(rf"{PREFIX}[A-Za-z0-9]{{{_LENGTH}}}")


class AgentTokenError(CovaltError):
    """A token that cannot be made, or whose file cannot be used."""

    code = "agent_token"


class AgentToken(StrictModel):
    """What a token opens, as its file says it.

    Attributes:
        chat: the one chat that it opens; without it, those that were made by it.
        chat_created_at: when that was made, so that no later chat of its id is meant.
        digest: of the token itself.
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

    @property
    def agent(self) -> str:
        """Who asks by it: what records say, and whose chats are."""
        return f"agent:{self.name}"

    @property
    def is_expired(self) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= timestamps.now()


class AgentTokens:
    """Those of the project at ``root``; one thread at a time."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "data" / "tokens"
        self._cache = FileCache(most=1024)

    def new(
        self,
        name: str,
        role: str,
        *,
        chat: tuple[str, str] | None = None,
        lasts: timedelta | None = None,
    ) -> tuple[AgentToken, str]:
        """Make a token that ``lasts`` so long, or for ever; return what it opens and the token itself.

        ``chat`` is the id of the one chat that it opens, and when that was made.

        Raises:
            BadNameError: when the name is not an id.
            AgentTokenError: when there is a token of that name, or its file cannot be written.
        """
        check_id(name, "token")
        text = PREFIX + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        now = datetime.now(UTC)
        token = AgentToken(
            id=new_id(),
            name=name,
            role=role,
            chat=None if chat is None else chat[0],
            chat_created_at=None if chat is None else chat[1],
            digest=_digest(text),
            created_at=timestamps.written(now),
            expires_at=None if lasts is None else timestamps.written(now + lasts),
        )
        self._write(token)
        return token, text

    def all(self) -> list[AgentToken]:
        """Return all of them by name, the expired ones too.

        Raises:
            AgentTokenError: when a file cannot be used.
        """
        return [_read(Path(file.path)) for file in self._files()]

    def revoke(self, named: str) -> AgentToken:
        """Take back the token of a name or an id, and return it.  It opens nothing from now on.

        Raises:
            UnknownNameError: naming the nearest one.
            AgentTokenError: when a file cannot be used, or not be removed.
        """
        known = self.all()
        token = next((one for one in known if named in {one.name, one.id}), None)
        if token is None:
            names = [one.name for one in known]
            raise UnknownNameError("token", named, names, list_with="covalt-git token list")
        try:
            self._file(token.name).unlink(missing_ok=True)
            atomic_write.fsync(self._folder)
        except OSError as error:
            raise _failed(self._file(token.name), error) from None
        return token

    def in_force(self) -> list[AgentToken]:
        """Return those that let in now: neither expired nor with a file that cannot be used."""
        paths = [file.path for file in self._files()]
        found = [self._cache.get(path, [path], partial(_usable, path)) for path in paths]
        return [one for one in found if one is not None and not one.is_expired]

    def find(self, text: str) -> AgentToken | None:
        """Return the token in force that ``text`` is, in a time that says nothing about the others."""
        if not _TEXT.fullmatch(text):
            return None
        digest = _digest(text)
        same = [one for one in self.in_force() if hmac.compare_digest(one.digest, digest)]
        return same[0] if same else None

    def _write(self, token: AgentToken) -> None:
        said = canonical_json.dumps(token.model_dump(mode="json", exclude_none=True)) + b"\n"
        try:
            atomic_write.create_private(self._file(token.name), said)
        except FileExistsError:
            raise AgentTokenError(
                f"there is a token {token.name!r}",
                hint=f"name another, or take that one back: covalt-git token revoke {token.name}",
            ) from None
        except OSError as error:
            raise _failed(self._file(token.name), error) from None

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _files(self) -> list[os.DirEntry[str]]:
        """Return the files by name; at every request, so that ``Path`` would take too long."""
        try:
            with os.scandir(self._folder) as found:
                files = [file for file in found if file.name.endswith(".json")]
        except OSError:
            return []
        return sorted(files, key=lambda file: file.name)


def _read(file: Path) -> AgentToken:
    """Return what a file says.

    Raises:
        AgentTokenError: when others may read it, or it is none of ours.
    """
    said = read_private(file, AgentTokenError)
    try:
        token = AgentToken.model_validate(canonical_json.loads(said or ""))
    except (ValidationError, canonical_json.NotJsonError):
        token = None
    if token is None or token.name != file.stem or not is_id(token.name):
        raise AgentTokenError(f"{str(file)!r} is no token", hint=f"rm {file}")
    return token


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
