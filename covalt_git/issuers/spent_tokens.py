"""Tokens that are for a single execution and have been spent by it: ``data/tokens/<digest of issuer and jti>``.

Each is a file, created exclusively before the tool runs, so that of any number of processes one runs the tool.  It has
the digest of the call and when the token ends.  It is removed after that: an expired token is refused anyway.  The
folder is no part of the index, so that no token is valid again after ``index rebuild``.

If the chats are on a git server, a token is spent by a note there, ``refs/covalt/spent/<digest>``, which one of all nodes can
create.  The file is then a copy of it.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.issuers.verification import SKEW_S
from covalt_git.json_values import canonical_json
from covalt_git.names import new_id
from covalt_git.system import atomic_write
from covalt_git.system.node_folder import data_of
from covalt_git.workspaces import lease

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.access_token import AccessToken
    from covalt_git.workspaces.server_notes import ServerNotes

PREFIX = "refs/covalt/spent/"
"""Beginning of the refs of the notes on a git server."""

_LETTERS = 64
_SWEEP_S = 3600.0
_MOST_SWEPT = 500
_SWEPT: dict[Path, float] = {}
"""When this process last looked for expired notes of other nodes, by the folders of their tokens."""


class SpentTokenError(Exception):
    """The token was spent by another execution, or cannot be noted as spent; the text says which."""


class SpentTokens(NamedTuple):
    """The spent tokens of the project in ``root``, whose nodes share ``notes`` if it has several."""

    root: Path
    notes: ServerNotes | None = None

    def spend(self, token: AccessToken, chat_id: str, call_id: str, *, again: bool = False) -> None:
        """Spend a token by a call, before its tool runs.

        With ``again``, the same call may have spent it: one that is pending spends it when its approval is requested.

        Raises:
            SpentTokenError: if another call has spent it, or it cannot be noted as spent.
            ServerError: if the notes are on a git server that cannot be reached.
        """
        self._remove_expired()
        call = canonical_json.digest({"chat": chat_id, "call": call_id})
        fact = {"v": 1, "call": call, "ends": token.expires + SKEW_S}
        content = canonical_json.dumps(fact)
        file = self._file(token)
        if token.approved and self._spent_by(token) != call:
            raise SpentTokenError("the access token of the approved call was not noted as its own")
        if self.notes is not None:
            # First: a node that ends here leaves a token that no node accepts.
            unique = canonical_json.dumps(fact | {"nonce": new_id()})
            is_new = self.notes.create(file.name, unique)
            if not is_new and not (again and self._noted_by(file.name) == call):
                raise SpentTokenError("the access token was spent by another call")
            again = True
        try:
            atomic_write.create_private(file, content)
            # Without it, a power cut could make the token valid again.
            atomic_write.fsync(file.parent)
        except FileExistsError:
            if again and _call_of(file) == call:
                return
            raise SpentTokenError("the access token was spent by another call") from None
        except OSError:
            raise SpentTokenError(
                "the access token cannot be noted as spent: data/tokens cannot be written"
            ) from None

    def check(self, token: AccessToken) -> None:
        """Check that no call has spent a token.

        Raises:
            SpentTokenError: if one has.
            ServerError: if the notes are on a git server that cannot be reached.
        """
        file = self._file(token)
        if os.path.lexists(file) or (self.notes is not None and file.name in self.notes.ids()):
            raise SpentTokenError("the access token was spent by another call")

    def _file(self, token: AccessToken) -> Path:
        name = canonical_json.digest({"iss": token.issuer, "jti": token.jti}).partition(":")[2]
        return self._folder / name

    @property
    def _folder(self) -> Path:
        return data_of(self.root) / "tokens"

    def _spent_by(self, token: AccessToken) -> str | None:
        file = self._file(token)
        return _call_of(file) or self._noted_by(file.name)

    def _noted_by(self, name: str) -> str | None:
        """Return the call that spent a token by the note on the git server."""
        content = None if self.notes is None else self.notes.contents([name]).get(name)
        fact = None if content is None else _parsed(content)
        return None if fact is None else fact[0]

    def _remove_expired(self) -> None:
        time_s = time.time()
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                # The files of agents' tokens end with .json.
                if len(entry.name) != _LETTERS or "." in entry.name:
                    continue
                fact = _read(self._folder / entry.name)
                if fact is None or fact[1] + self._clock_skew_s >= time_s:
                    continue
                if self.notes is not None:
                    self._remove_note(entry.name)
                (self._folder / entry.name).unlink(missing_ok=True)

        self._remove_of_dead_nodes()

    def _remove_of_dead_nodes(self) -> None:
        """Remove expired notes of nodes that have ended, and so do not remove them; once an hour in each process."""
        if self.notes is None or time.monotonic() - _SWEPT.get(self._folder, -_SWEEP_S) < _SWEEP_S:
            return
        _SWEPT[self._folder] = time.monotonic()
        with contextlib.suppress(CovaltError):  # another node removes them, or the next hour does
            others = [name for name in self.notes.ids() if not (self._folder / name).exists()]
            entries = self.notes.entries(others[:_MOST_SWEPT])
            time_s = time.time() - self._clock_skew_s
            expired = {
                name: oid
                for name, (oid, content) in entries.items()
                if (fact := _parsed(content)) is not None and fact[1] < time_s
            }
            if expired:
                self.notes.remove_all(expired)

    @property
    def _clock_skew_s(self) -> float:
        """The difference of the clocks of two nodes, in seconds: a token that has expired here can be valid there."""
        return 0 if self.notes is None else lease.SKEW_S

    def _remove_note(self, name: str) -> None:
        # Another node can have a file of the same name, and may have removed the note already.
        with contextlib.suppress(CovaltError):
            assert self.notes is not None
            oid = self.notes.ids().get(name)
            if oid is not None:
                self.notes.remove(name, oid)


def _read(file: Path) -> tuple[str, float] | None:
    """Return the call that spent a token and the end of the token; None if the file cannot be read."""
    try:
        return _parsed(file.read_bytes())
    except OSError:
        return None


def _parsed(content: bytes) -> tuple[str, float] | None:
    try:
        value = canonical_json.loads(content)
        return str(value["call"]), float(value["ends"])
    except (canonical_json.NotJsonError, TypeError, KeyError, ValueError):
        return None


def _call_of(file: Path) -> str | None:
    fact = _read(file)
    return None if fact is None else fact[0]
