"""Registry of a project's running servers: files ``data/serving/<host>:<port>`` with their URLs.

An MCP server on stdio uses it to link to the page of an approval.  The agent reads that link, so it must not
contain a token, with which the agent could approve its own calls.  The user's browser has the token already:
``covalt-git serve`` or ``dev`` printed it in the user's terminal.  If no server runs, there is no link, and
the user approves by ``covalt-git approval approve ID``.

A file is valid while its creator holds its lock (``flock(2)``), which ends with the process.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covalt_git.system import file_lock
from covalt_git.system.node_folder import data_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Agents and their hosts show the text as a link, so it is a URL of a server without path and query
# (test_text_that_is_no_url_of_a_server_is_ignored).
_URL = re.compile(r"http://(?:[a-z0-9.-]+|\[[0-9a-f:]+\]):[0-9]{1,5}", re.IGNORECASE)
_MOST_BYTES = 512


@contextmanager
def register(root: Path, url: str) -> Iterator[None]:
    """Register the URL of a server of the project at ``root`` until the block ends.

    If the file cannot be written, the server runs unregistered.
    """
    file = _folder(root) / url.removeprefix("http://")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A link is not followed, because its target would be truncated below.
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        file_lock.acquire(handle)  # a reader may hold it for a moment
        os.ftruncate(handle, 0)
        os.pwrite(handle, url.encode(), 0)
        yield
        file.unlink(missing_ok=True)
    finally:
        os.close(handle)


def pages_url(root: Path) -> str | None:
    """Return the URL of a running server of the project, or None."""
    try:
        files = sorted(_folder(root).iterdir())
    except OSError:
        return None
    return next((url for url in map(_read_record, files) if url is not None), None)


def approval_url(root: Path, execution_id: str) -> str | None:
    """Return the URL of the page of an approval, or None if no server runs."""
    url = pages_url(root)
    return None if url is None else f"{url}/approvals/{execution_id}"


def _folder(root: Path) -> Path:
    return data_of(root) / "serving"


def _read_record(file: Path) -> str | None:
    """Return the URL of a file, or None if its creator has ended."""
    try:
        # With O_NONBLOCK, a FIFO in the folder does not block the reader until a writer opens it.
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if file_lock.acquire(handle, shared=True, wait=False):
            return None
        text = os.pread(handle, _MOST_BYTES, 0).decode("ascii", "replace")
        return text if _URL.fullmatch(text) else None
    finally:
        os.close(handle)
