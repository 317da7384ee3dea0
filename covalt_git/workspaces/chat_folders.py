"""Chats come and go as whole folders of ``data/chats``, by one rename each.

::

    data/chats/.new-<uuid7>/    a chat that is being made; its maker holds the folder's lock
    data/chats/.gone-<uuid7>/   a chat that is being removed

Only the owner may enter a chat's folder: a tool decides on the modes of the files in its workspace.
Whoever makes a chat next clears away what processes that died left of either; of chats that have
their id from their maker, and for which nobody lists all others, the first of a process does.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import stat
from typing import TYPE_CHECKING, Any

from covalt_git.errors import CovaltError
from covalt_git.names import check_id, id_key, is_id, new_id
from covalt_git.system.atomic_write import fsync, fsync_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_NEW = ".new-"
_GONE = ".gone-"
_PRIVATE = 0o700

_cleared: set[str] = set()
"""The folders of chats that this process has cleared, and since then left nothing in."""


class ChatExistsError(CovaltError):
    """There is a chat of that id."""

    code = "chat_exists"
    http_status = 409


def ids(chats: Path) -> list[str]:
    """Return the ids of all chats, sorted."""
    if not chats.is_dir():
        return []
    return sorted(
        entry.name
        for entry in chats.iterdir()
        if is_id(entry.name) and (entry / "store.git").is_dir()
    )


def check_free(chats: Path, chat_id: str) -> None:
    """Make sure that a chat of that id can be made.

    Raises:
        ChatExistsError: when there is one, or one that differs in ``-`` and ``_`` only.
        BadNameError: when the id is not one.
    """
    check_id(chat_id, "chat")
    found = _names_like(chats, chat_id)
    for known in found:
        if (chats / known / "store.git").is_dir():
            raise ChatExistsError(
                f"there is a chat {known!r}", hint=f"covalt-git chat show {known}"
            )
    if chat_id in found:
        raise ChatExistsError(
            f"something else is in the place of {chat_id!r}",
            hint=f"choose another id, or move {chats / chat_id} away",
        )


def _names_like(chats: Path, chat_id: str) -> list[str]:
    """Return the ids in the folder of all chats that differ from one in ``-`` and ``_`` at most."""
    key = id_key(chat_id)
    if chat_id.isalnum():
        return [chat_id] if os.path.lexists(f"{chats}/{chat_id}") else []
    return [name for name in _names_in(chats) if id_key(name) == key and is_id(name)]


def _names_in(chats: Path) -> list[str]:
    try:
        return os.listdir(chats)  # noqa: PTH208 - names are wanted, of a folder that may be large
    except FileNotFoundError:
        return []


def _free_id(chats: Path, names: Iterable[str], preferred: str | None) -> str:
    """Return the id that is preferred, else the first of ``c1``, ``c2``, ... that nothing has."""
    if preferred is not None and is_id(preferred):
        with contextlib.suppress(ChatExistsError):
            check_free(chats, preferred)
            return preferred
    taken = set(names)
    numbered = (f"c{number}" for number in itertools.count(1))
    free = (name for name in numbered if name not in taken)
    return next(name for name in free if not os.path.lexists(f"{chats}/{name}"))


@contextlib.contextmanager
def arranging(chats: Path) -> Iterator[int]:
    """Hold the folder of all chats, for a moment: two ids that differ in ``-`` and ``_`` are one.

    Yields its handle.
    """
    try:
        handle = os.open(chats, os.O_RDONLY)
    except FileNotFoundError:
        chats.mkdir(parents=True, exist_ok=True)
        handle = os.open(chats, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def make(
    chats: Path,
    wanted: str | None,
    *,
    durable: bool,
    fill: Callable[[str, str], None],
) -> str:
    """Make a chat that is made at once, and return its id: ``wanted``, or the next that is free.

    ``fill`` is given the folder and the id.

    Raises:
        ChatExistsError: when there is one of the id ``wanted``.
        BadNameError: when that is no id.
    """
    if wanted is not None:
        check_id(wanted, "chat")  # before anything is made
    with arranging(chats) as above:  # until it ends nobody clears away what is not held
        if wanted is not None:
            check_free(chats, wanted)
        names: list[str] = []
        if wanted is None or str(chats) not in _cleared:
            names = _names_in(chats)
            _clear(chats, names)
            _cleared.add(str(chats))
        chat_id = wanted or _free_id(chats, names, None)
        made = f"{chats}/{_NEW}{new_id()}"
        try:
            os.mkdir(made, _PRIVATE)  # noqa: PTH102 - new chats are to be there at once
            fill(made, chat_id)
            if durable:
                fsync_tree(made)
            os.rename(made, f"{chats}/{chat_id}")  # noqa: PTH104
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            _cleared.discard(str(chats))
            raise
        if durable:
            os.fsync(above)
    return chat_id


@contextlib.contextmanager
def making(chats: Path) -> Iterator[Path]:
    """Yield an empty folder to make a chat in; :func:`place` it, or nothing of it stays."""
    with arranging(chats):
        _clear(chats, _names_in(chats))
        made = chats / f"{_NEW}{new_id()}"
        made.mkdir(_PRIVATE)
        handle = os.open(made, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)  # as long as it is held, its maker is alive
    try:
        yield made
    finally:
        if made.exists():
            _remove_all(made)
        os.close(handle)


def place(
    chats: Path,
    made: Path,
    wanted: str | None,
    *,
    preferred: str | None = None,
    durable: bool,
    name: Callable[[str], None],
) -> str:
    """Give a chat that was made its place and return its id: ``wanted``, or one that is free.

    That is ``preferred``, else the next of ``c1``, ``c2``, ...  ``name`` is told it before, to write
    it into the chat.

    Raises:
        ChatExistsError: when there is one of the id ``wanted``.
        BadNameError: when that is no id.
    """
    with arranging(chats) as above:
        if wanted is not None:
            check_free(chats, wanted)
        chat_id = wanted or _free_id(chats, _names_in(chats), preferred)
        name(chat_id)
        if durable:
            fsync(made)
        made.rename(chats / chat_id)
        if durable:
            os.fsync(above)
    return chat_id


def make_private(chat: Path) -> None:
    """Close the folder of a chat to other users, which versions before this one left open."""
    mode = stat.S_IMODE(os.stat(chat).st_mode)  # noqa: PTH116 - asked by every writer
    if mode & ~_PRIVATE & 0o777:
        with contextlib.suppress(PermissionError):  # it belongs to another user of the project
            chat.chmod(mode & ~0o077)


def remove(chat: Path, *, durable: bool) -> None:
    """Remove a chat's folder with all that is in it; only whoever holds the chat's lock may.

    It is gone as soon as it has another name.  Where the process dies, or cannot remove something,
    whoever makes a chat takes the rest along.
    """
    with arranging(chat.parent) as above:
        gone = chat.with_name(f"{_GONE}{new_id()}")
        chat.rename(gone)
        if durable:
            os.fsync(above)
    _cleared.discard(str(chat.parent))
    _remove_all(gone)


def _clear(chats: Path, names: Iterable[str]) -> None:
    """Remove what nobody makes any more, and what is gone, of what there is in the folder."""
    unfinished = [name for name in names if name.startswith((_NEW, _GONE))]
    for name in unfinished:
        if name.startswith(_GONE) or not _is_held(chats / name):
            _remove_all(chats / name)


def _is_held(folder: Path) -> bool:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _remove_all(folder: Path) -> None:
    """Remove a folder as far as that is possible; one that a tool closed is opened for it."""

    def open_and_retry(remove_it: Callable[[str], Any], path: str, _: object) -> None:
        above = os.path.dirname(path)  # noqa: PTH120 - shutil gives strings
        with contextlib.suppress(OSError):
            for closed in (above, path):
                if stat.S_ISDIR(os.lstat(closed).st_mode):
                    os.chmod(closed, stat.S_IRWXU)  # noqa: PTH101
            if remove_it in {os.open, os.scandir, os.lstat}:
                shutil.rmtree(path, ignore_errors=True)
            else:
                remove_it(path)

    shutil.rmtree(folder, onerror=open_and_retry)
