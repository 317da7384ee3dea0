"""Where the pages of a project are while somebody serves them: ``data/serving/<host>:<port>``.

A process that speaks MCP on standard input and output has no pages to lead a person to who has to settle
an approval.  It could start some, but the person would need a secret to come in by, and whatever the
process says, an agent reads: an address that lets in whoever has it would let the agent approve its own
calls.  So it leads to the pages that the person has opened already, by ``covalt-git serve`` or ``dev``.
The address alone opens nothing.  The person's browser has the token, which has never been in a hand of
the agent's: the server printed it in the person's own terminal.  Where nobody serves the project there is
no page, and the terminal is the way: ``covalt-git approval approve ID``.

A file names an address and holds no secret.  It counts for as long as its maker holds its lock
(``flock(2)``), which ends with the process, however that ends.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covalt_git.system import file_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ADDRESS = re.compile(r"http://(?:[a-z0-9.-]+|\[[0-9a-f:]+\]):[0-9]{1,5}", re.IGNORECASE)
_MOST_BYTES = 512


@contextmanager
def announced(root: Path, address: str) -> Iterator[None]:
    """Tell for as long as this runs that the pages of the project at ``root`` are at ``address``.

    That nobody could be told is no reason not to serve them.
    """
    file = _folder(root) / address.removeprefix("http://")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        file_lock.acquire(handle)  # who looks at it holds it for a moment
        os.ftruncate(handle, 0)
        os.pwrite(handle, address.encode(), 0)
        yield
        file.unlink(missing_ok=True)
    finally:
        os.close(handle)


def pages_address(root: Path) -> str | None:
    """Return where the project's pages are, or None where nobody serves them."""
    try:
        files = sorted(_folder(root).iterdir())
    except OSError:
        return None
    return next((told for told in map(_read_record, files) if told is not None), None)


def approval_page(root: Path, execution_id: str) -> str | None:
    """Return the address of the page where a person settles an approval, or None where there is none."""
    address = pages_address(root)
    return None if address is None else f"{address}/approvals/{execution_id}"


def _folder(root: Path) -> Path:
    return root / "data" / "serving"


def _read_record(file: Path) -> str | None:
    """Return what a file says whose maker is alive."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if file_lock.acquire(handle, shared=True, wait=False):
            return None
        said = os.pread(handle, _MOST_BYTES, 0).decode("ascii", "replace")
        return said if _ADDRESS.fullmatch(said) else None
    finally:
        os.close(handle)
