"""Note of the running call of a chat: a file of the store, written before the tool runs.

A chat has one writer and so at most one running call.  The note is durable before the tool changes anything.  A
file that is overwritten needs one fsync; a ref and its object would need several.  The first line is the SHA-256
of the call and, after a space, the call in canonical JSON.  If the line is empty, or does not match its digest,
as after a power cut, there is no running call.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from pydantic import ValidationError

from covalt_git.json_values import canonical_json
from covalt_git.models.calls import PendingCall
from covalt_git.system.atomic_write import fsync, fsync_data

if TYPE_CHECKING:
    from pathlib import Path

NAME = "running-call"
_LARGE = 1 << 16


def put(store: Path, call: PendingCall, *, durable: bool) -> None:
    """Write the note of a call; only the holder of the chat's lock may call this, or :func:`forget`."""
    line = canonical_json.dumps(call.model_dump(mode="json", exclude_none=True))
    path = store / NAME
    is_new = not path.exists()
    # Over the old note, without truncating: on a full disk it has its block already.
    with path.open("xb" if is_new else "r+b") as file:
        file.write(b"%s %s\n" % (_digest(line), line))
        file.flush()
        if durable:
            fsync_data(file.fileno())
    if is_new and durable:
        fsync(store)


def forget(store: Path, call_id: str) -> None:
    """Erase the note, if it is about that call.

    After a power cut the note may be there again.  The next holder of the lock then also finds the commit of the call.
    """
    call = read(store)
    if call is None or call.id != call_id:
        return
    path = store / NAME
    with path.open("r+b") as file:
        file.write(b"\n")  # the digest of the empty line is wrong, whatever follows
        if path.stat().st_size > _LARGE:
            file.truncate(0)


def read(store: Path) -> PendingCall | None:
    """Return the call that runs, or that ran when its process ended."""
    with contextlib.suppress(FileNotFoundError, ValidationError):  # another version wrote it
        digest, _, line = (store / NAME).read_bytes().partition(b"\n")[0].partition(b" ")
        if digest == _digest(line):
            return PendingCall.model_validate(canonical_json.loads(line))
    return None


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(line).hexdigest().encode()
