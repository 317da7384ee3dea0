"""The call that runs in a chat: one file beside the refs, written before the call acts.

A chat has one writer, so that one call runs in it; and of each the note is on the disk before anything
of it happens.  A file that is written over costs one flush, where a ref and the object that it leads to
would cost nine.  Its first line is the SHA-256 of the call and, after a space, the call in canonical
JSON; one that is empty, or is not what its digest says, as after a power cut, notes no call.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from pydantic import ValidationError

from covalt_git.json_values import canonical_json
from covalt_git.models.calls import PendingCall
from covalt_git.system.atomic_write import fsync, fsync_data

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.json_values import JsonObject

NAME = "running-call"
_LARGE = 1 << 16


def put(store: Path, call: PendingCall, *, durable: bool) -> None:
    """Write down that a call runs; only whoever holds the chat's lock may, as with :func:`forget`."""
    line = canonical_json.dumps(call.model_dump(mode="json", exclude_none=True))
    path = store / NAME
    is_new = False
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        handle, is_new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644), True
    with os.fdopen(handle, "wb", buffering=0) as file:
        unwritten = memoryview(b"%s %s\n" % (_digest(line), line))
        while unwritten:
            unwritten = unwritten[file.write(unwritten) :]
        if durable:
            fsync_data(handle)
    if is_new and durable:
        fsync(store)


def forget(store: Path, call_id: str) -> None:
    """Note no call any more, if that one is noted.

    It may be there again after a power cut: whoever finds it then finds its commit, too.
    """
    noted = _noted(store)
    if noted is None or noted.get("id") != call_id:
        return
    handle = os.open(store / NAME, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, b"\n")
        if os.fstat(handle).st_size > _LARGE:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def is_noted(store: Path) -> bool:
    """Tell whether there is a note, without reading it."""
    try:
        with open(f"{store}/{NAME}", "rb", buffering=0) as file:  # noqa: PTH123 - as below
            return file.read(1) not in {b"", b"\n"}
    except OSError:
        return False


def read(store: Path) -> PendingCall | None:
    """Return the call that runs, or ran when its process ended."""
    noted = _noted(store)
    try:
        return None if noted is None else PendingCall.model_validate(noted)
    except ValidationError:  # by another version of ours
        return None


def _noted(store: Path) -> JsonObject | None:
    path = f"{store}/{NAME}"
    if not os.access(path, os.F_OK):  # as mostly, and quicker told than by an error
        return None
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - Path's takes twice as long
            content = file.readall()
    except FileNotFoundError:
        return None
    digest, _, line = content.partition(b"\n")[0].partition(b" ")
    if digest != _digest(line):
        return None
    noted: JsonObject = canonical_json.loads(line)  # it was written whole, and so it is JSON
    return noted


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(line).hexdigest().encode()
