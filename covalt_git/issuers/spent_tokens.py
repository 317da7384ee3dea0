"""Tokens that are for a single execution and have been spent by it: ``data/tokens/<digest of issuer and jti>``.

Each is a file, created exclusively before the tool runs, so that of any number of processes one runs the tool.  It has
the digest of the call and when the token ends.  It is removed after that: an expired token is refused anyway.  The
folder is no part of the index, so that no token is valid again after ``index rebuild``.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.issuers.verification import SKEW_S
from covalt_git.json_values import canonical_json
from covalt_git.system import atomic_write

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.access_token import AccessToken

_LETTERS = 64


class SpentTokenError(Exception):
    """The token was spent by another execution, or cannot be noted as spent; the text says which."""


class SpentTokens(NamedTuple):
    """The spent tokens of the project in ``root``."""

    root: Path

    def spend(self, token: AccessToken, chat_id: str, call_id: str, *, again: bool = False) -> None:
        """Spend a token by a call, before its tool runs.

        With ``again``, the same call may have spent it: one that is pending spends it when its approval is requested.

        Raises:
            SpentTokenError: if another call has spent it, or it cannot be noted as spent.
        """
        self._remove_expired()
        call = canonical_json.digest({"chat": chat_id, "call": call_id})
        content = canonical_json.dumps({"v": 1, "call": call, "ends": token.expires + SKEW_S})
        file = self._file(token)
        if token.approved and self._spent_by(file) != call:
            raise SpentTokenError("the access token of the approved call was not noted as its own")
        try:
            atomic_write.create_private(file, content)
            # Without it, a power cut could make the token valid again.
            atomic_write.fsync(file.parent)
        except FileExistsError:
            if again and self._spent_by(file) == call:
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
        """
        if os.path.lexists(self._file(token)):
            raise SpentTokenError("the access token was spent by another call")

    def _file(self, token: AccessToken) -> Path:
        name = canonical_json.digest({"iss": token.issuer, "jti": token.jti}).partition(":")[2]
        return self._folder / name

    @property
    def _folder(self) -> Path:
        return self.root / "data" / "tokens"

    @staticmethod
    def _spent_by(file: Path) -> str | None:
        fact = _read(file)
        return None if fact is None else fact[0]

    def _remove_expired(self) -> None:
        time_s = time.time()
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                # The files of agents' tokens end with .json.
                if len(entry.name) != _LETTERS or "." in entry.name:
                    continue
                fact = _read(self._folder / entry.name)
                if fact is not None and fact[1] < time_s:
                    (self._folder / entry.name).unlink(missing_ok=True)


def _read(file: Path) -> tuple[str, float] | None:
    """Return the call that spent a token and the end of the token; None if the file cannot be read."""
    try:
        value = canonical_json.loads(file.read_bytes())
        return str(value["call"]), float(value["ends"])
    except (OSError, canonical_json.NotJsonError, TypeError, KeyError, ValueError):
        return None
