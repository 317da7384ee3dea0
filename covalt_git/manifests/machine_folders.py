"""Folders of a project that commands write to: none of them may be a symbolic link that a clone brings.

A repository can contain a link in place of ``toolsets/state`` or ``data``, and a command would then write outside of
the project.  Git stores links, so they are looked for each time that a project is opened; nothing but its user
changes these folders meanwhile, because tools write in workspaces only.

The user may move ``data/`` to another disk by a link.  The file ``linked-folders`` in the user's configuration
folder, where no clone can write, lists the folders to which such links may lead.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, Problem
from covalt_git.problems import codes
from covalt_git.system.private_files import read_private, user_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WRITTEN = (
    *(".covalt", ".covalt/schemas", "toolsets", "toolsets/state", "toolsets/state/registered"),
    *("toolsets/locks", "data"),
)
"""Folders that commands write to; in ``data`` also everything in it and in ``data/chats``."""

_DATA = ("data", "data/chats")
_LINKED_FOLDERS = "linked-folders"


class LinkedFolderError(CovaltError):
    """A symbolic link in place of a folder or a file that commands write."""

    code = "linked_folder"
    http_status = 409


def check_links(root: Path) -> None:
    """Check that no folder that commands write to is a link.

    Raises:
        LinkedFolderError: with the first link.
    """
    for path in _links(root):
        raise LinkedFolderError(_message(root, path), hint=_hint(root, path))


def check_no_link(root: Path, path: Path) -> None:
    """Check that neither a file below ``root`` that a command writes nor a folder on the way to it is a link.

    Raises:
        LinkedFolderError: with the link.
    """
    relative = path.relative_to(root)
    for part in (*reversed(relative.parents[:-1]), relative):
        if (root / part).is_symlink():
            name = part.as_posix()
            raise LinkedFolderError(_message(root, name), hint=_hint(root, name))


def link_problems(root: Path) -> list[Problem]:
    """Return a problem for each folder that commands write to and that is a link."""
    return [
        Problem(path, 0, 0, codes.LINKED_FOLDER, _message(root, path), _hint(root, path))
        for path in _links(root)
    ]


def _links(root: Path) -> Iterator[str]:
    """Yield the paths of links, without looking behind a link."""
    for path in WRITTEN:
        # After a link in a parent, the names in it are those of another folder.
        if not _below_link(root, path) and (root / path).is_symlink():
            if path in _DATA and _is_permitted(root / path):
                continue
            yield path
    for path in _DATA:
        yield from (name for name in _entries(root, path) if not _is_permitted(root / name))


def _entries(root: Path, path: str) -> Iterator[str]:
    if _below_link(root, path) or (root / path).is_symlink():
        return
    try:
        with os.scandir(root / path) as entries:
            links = sorted(entry.name for entry in entries if entry.is_symlink())
    except (FileNotFoundError, NotADirectoryError):
        return
    yield from (f"{path}/{name}" for name in links)


def _below_link(root: Path, path: str) -> bool:
    parents: Iterable[Path] = Path(path).parents[:-1]
    return any((root / parent).is_symlink() for parent in parents)


def _is_permitted(link: Path) -> bool:
    text = read_private(user_folder() / _LINKED_FOLDERS, LinkedFolderError) or ""
    target = link.resolve()
    return any(target.is_relative_to(line) for line in text.splitlines() if line)


def _message(root: Path, path: str) -> str:
    target = (root / path).readlink()
    return f"{path!r} is a symbolic link to {str(target)!r}: commands would write outside of the project"


def _hint(root: Path, path: str) -> str:
    if path.split("/", 1)[0] == "data":
        target, file = (root / path).resolve(), user_folder() / _LINKED_FOLDERS
        permit = f"(umask 077; mkdir -p {shlex.quote(str(file.parent))}; echo {shlex.quote(str(target))} >> {shlex.quote(str(file))})"
        return f"rm {path}; or, if you made the link: {permit}"
    return f"rm {shlex.quote(path)}"
