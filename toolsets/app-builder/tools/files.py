"""Files of the workspace: writing, reading, listing, editing and deleting them.

Every path is relative to the workspace and stays in it.  The tools accept one path for each file (no
``./a``, ``a/`` or ``b/../a``, and no link to it), so that an approval rule for a path applies to one file.
An operation that is not possible raises a ``ValueError`` with the reason in one line.

The functions that take ``workspace: Path`` get the chat's folder from the runtime; callers neither
see nor set that parameter.  ``delete_file`` uses the alternative, the SDK's ``get_context``.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_toolset import get_context, tool

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_READ_BYTES = 1024 * 1024
"""Maximum size of the result of ``read_file`` in bytes, so that it does not fill the conversation."""

MAX_LISTED = 1000
"""Maximum number of files in the result of ``list_files``."""


def write_file(workspace: Path, path: str, content: str) -> dict[str, Any]:
    """Write content to a file in the workspace, and create its folders.

    Args:
        workspace: the chat's folder
        path: file path relative to the workspace
        content: the new content of the file
    """
    target = _inside(workspace, path)
    if target.is_dir():
        raise ValueError(f"{path!r} is a folder")
    if target.exists() and not target.is_file():
        raise ValueError(f"{path!r} is not a regular file")
    encoded = content.encode("utf-8")  # before the file is opened, which empties it
    with _errors_for(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(encoded)
    return {"written": path, "size": len(content)}


def read_file(workspace: Path, path: str) -> dict[str, Any]:
    """Read a text file of the workspace.

    Args:
        workspace: the chat's folder
        path: file path relative to the workspace
    """
    content = _read(_existing_file(workspace, path), path)
    return {"path": path, "content": content, "size": len(content)}


def list_files(workspace: Path, path: str = ".") -> dict[str, Any]:
    """List the files of the workspace, or of one folder in it, with their sizes in bytes.

    Args:
        workspace: the chat's folder
        path: folder relative to the workspace
    """
    folder = _inside(workspace, path)
    if not folder.is_dir():
        raise ValueError(f"there is no folder {path!r} in the workspace")
    root = workspace.resolve()
    found = sorted(_walk(folder), key=lambda file: file.relative_to(root).parts)
    return {
        "path": path,
        "files": [
            {"path": file.relative_to(root).as_posix(), "size": file.lstat().st_size}
            for file in found[:MAX_LISTED]
        ],
        "total": len(found),
    }


def edit_file(workspace: Path, path: str, old: str, new: str) -> dict[str, Any]:
    """Replace one exact piece of text in a file; the file must contain it exactly once.

    Args:
        workspace: the chat's folder
        path: file path relative to the workspace
        old: the text to replace, with its white space, and long enough to be unique
        new: the replacement
    """
    target = _existing_file(workspace, path)
    content = _read(target, path)
    if not old:
        raise ValueError("'old' is empty: give the text to replace, or use write_file")
    places = _places(content, old)
    if not places:
        raise ValueError(f"'old' is not in {path!r}: read the file and copy the text exactly")
    if len(places) > 1:
        lines = ", ".join(str(_line(content, place)) for place in places[:10])
        raise ValueError(
            f"'old' occurs {len(places)} times in {path!r} (lines {lines}): "
            "give more of the text around it"
        )
    edited = content.replace(old, new)
    encoded = edited.encode("utf-8")
    with _errors_for(path):
        target.write_bytes(encoded)
    return {"path": path, "line": _line(content, places[0]), "size": len(edited)}


@tool(
    name="Delete File",
    description="Delete one file, or one link, of the workspace",
    requires_confirmation=True,
)
def delete_file(path: str) -> dict[str, Any]:
    """Delete one file of the workspace; of a link, only the link, not its target.

    Args:
        path: file path relative to the workspace
    """
    written = Path(path)
    if written.name in {"", ".."} or "\0" in path:
        raise ValueError(f"{path!r} does not name a file")
    if str(written) != path:
        raise _other(path, str(written))
    # Only the folder is resolved: resolving the whole path would find, and delete, a link's target.
    target = _inside(get_context().workspace, str(written.parent)) / written.name
    with _errors_for(path):
        if stat.S_ISDIR(target.lstat().st_mode):
            raise ValueError(f"{path!r} is a folder: delete its files one by one")
        target.unlink()
    return {"deleted": path}


def _inside(workspace: Path, path: str) -> Path:
    """Return the real path of ``path``.

    Raises:
        ValueError: when it is outside the workspace, or ``path`` is not its only spelling.
    """
    root = workspace.resolve()
    if "\0" in path:
        raise ValueError(f"{path!r} is not a path")
    try:
        target = (root / path).resolve()
    except RuntimeError:  # circular links
        raise ValueError(f"{path!r} cannot be followed to a file") from None
    if not target.is_relative_to(root):
        raise ValueError(f"{path!r} leads outside the workspace")
    with _errors_for(path), suppress(FileNotFoundError):
        target.lstat()
    if path != (own := target.relative_to(root).as_posix()):
        raise _other(path, own)
    return target


def _other(path: str, own: str) -> ValueError:
    return ValueError(f"{path!r} leads to {own!r}: give that path")


def _existing_file(workspace: Path, path: str) -> Path:
    target = _inside(workspace, path)
    if target.is_dir():
        raise ValueError(f"{path!r} is a folder: see what is in it with list_files")
    if not target.is_file():
        raise ValueError(f"there is no file {path!r} in the workspace")
    return target


def _read(target: Path, path: str) -> str:
    """Return the text of a file, with its line ends unchanged."""
    with _errors_for(path):
        size = target.stat().st_size
        if size > MAX_READ_BYTES:
            raise ValueError(f"{path!r} has {size} bytes, more than the {MAX_READ_BYTES} shown")
        content = target.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path!r} is not UTF-8 text ({size} bytes)") from None


def _walk(folder: Path) -> Iterator[Path]:
    """Yield every file and link below ``folder``, without following links."""
    for place, folders, files in os.walk(folder):
        here = Path(place)
        yield from (here / name for name in files)
        yield from (here / name for name in folders if (here / name).is_symlink())


def _places(content: str, piece: str) -> list[int]:
    """Return all positions of ``piece``; overlapping ones count too, because they are as ambiguous."""
    places = []
    place = content.find(piece)
    while place >= 0:
        places.append(place)
        place = content.find(piece, place + 1)
    return places


def _line(content: str, place: int) -> int:
    return content.count("\n", 0, place) + 1


@contextmanager
def _errors_for(path: str) -> Iterator[None]:
    """Replace the path in the system's error by the caller's path, because the system's is absolute."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"{path!r}: {error.strerror}") from None
