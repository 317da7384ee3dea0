"""Folders of a project that commands write to, and ``covalt.yaml``: none may be a symbolic link that a clone brings.

A repository can contain a link in place of ``toolsets/state`` or ``data``, and a command would then write outside of
the project.  ``covalt.yaml`` would be another file of the user, which ``validate`` would print and a server would not watch.
Git stores links, so they are looked for each time that a project is opened; nothing but its user
changes these folders meanwhile, because tools write in workspaces only.

The user may move ``data/`` to another disk by a link.  The file ``linked-folders`` in the user's configuration
folder, where no clone can write, lists the folders to which such links may lead.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from covalt_git.errors import Problem
from covalt_git.manifests.project_root import CONFIG, POLICY_TESTS
from covalt_git.problems import codes
from covalt_git.system.links import LinkedFolderError, find_link, links_in, refusal
from covalt_git.system.private_files import read_private, user_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRITTEN = (
    *(".covalt", ".covalt/schemas", "toolsets", "toolsets/state", "toolsets/state/registered"),
    *("toolsets/locks", "data"),
)
"""Folders that commands write to."""

_DATA = ("data", "data/chats", "data/cache", "data/toolsets")
"""Folders whose entries commands write, too."""

_NAMED = (CONFIG, *WRITTEN, *_DATA[1:])
"""What must not be a link itself, parents first."""

_GENERATED = (".covalt/schemas", "toolsets/state", "toolsets/state/registered", "toolsets/locks")
"""Folders of generated files: a link in place of one would be read, and written, outside of the project."""

HOST_FILES = (".vscode/mcp.json", ".vscode/settings.json", ".cursor/mcp.json")
"""Files of MCP hosts in a project, to which `mcp install` writes."""

_LINKED_FOLDERS = "linked-folders"


def check_links(root: Path) -> None:
    """Check that neither ``covalt.yaml`` nor a folder that commands write to is a link.

    Raises:
        LinkedFolderError: with the first link.
    """
    for path in _links(root):
        raise LinkedFolderError(_message(root, path), hint=_hint(path))


def check_no_link(root: Path, path: Path) -> None:
    """Check that neither a file below ``root`` that a command writes nor a folder on the way to it is a link.

    Raises:
        LinkedFolderError: with the link.
    """
    link = find_link(root, path)
    if link is not None:
        name = link.relative_to(root).as_posix()
        raise LinkedFolderError(_message(root, name), hint=_hint(name))


def check_output(path: Path) -> None:
    """Check that a file that the user names is not a link of a project, or behind one.

    Every folder above is asked whether it is a project, because the target of a link can contain one too.

    Raises:
        LinkedFolderError: with the link.
    """
    absolute = path.absolute()
    for root in absolute.parents:
        if not os.path.lexists(root / CONFIG):
            continue
        link = find_link(root, absolute)
        if link is not None and not _is_permitted(link):
            raise refusal(link)


def link_problems(root: Path) -> list[Problem]:
    """Return a problem for each link in place of ``covalt.yaml`` or of a folder that commands write to.

    Links in the way to files of MCP hosts are warnings: only `mcp install` refuses them, and a user may have made them.
    """
    places = (find_link(root, root / path) for path in HOST_FILES)
    links = dict.fromkeys(link.relative_to(root).as_posix() for link in places if link is not None)
    warnings = [replace(_problem(root, path), severity="warning") for path in links]
    return [*(_problem(root, path) for path in _links(root)), *warnings]


def config_link(root: Path) -> Problem | None:
    """Return the problem of a ``covalt.yaml`` that is a link, which must not be read; None if it is a file."""
    return link_problem(root, CONFIG)


def link_problem(root: Path, path: str) -> Problem | None:
    """Return the problem of a file of the project that must not be read because it is a link; None for other files."""
    return _problem(root, path) if (root / path).is_symlink() else None


def _problem(root: Path, path: str) -> Problem:
    return Problem(path, 0, 0, codes.LINKED_FOLDER, _message(root, path), _hint(path))


def _links(root: Path) -> Iterator[str]:
    """Yield the paths of links, without looking behind a link."""
    # Each folder is asked once, because this runs for each call.
    links = {path for path in _NAMED if os.path.islink(f"{root}/{path}")}  # noqa: PTH114 - twice as fast

    def is_below_link(path: str) -> bool:
        # After a link in a parent, the names in it are those of another folder.
        return any(path.startswith(f"{link}/") for link in links)

    for path in _NAMED:
        is_link = path in links and not is_below_link(path)
        if is_link and not (path in _DATA and _is_permitted(root / path)):
            yield path
    # Their files, too: through a linked state file, validate printed keys of a file of the user.
    for path in _GENERATED:
        if not is_below_link(path):
            yield from (f"{path}/{name}" for name in links_in(f"{root}/{path}"))
    for path in _DATA:
        if not is_below_link(path):
            inner = (f"{path}/{name}" for name in links_in(f"{root}/{path}"))
            yield from (
                link for link in inner if link not in _DATA and not _is_permitted(root / link)
            )


def _is_permitted(link: Path) -> bool:
    text = read_private(user_folder() / _LINKED_FOLDERS, LinkedFolderError) or ""
    target = link.resolve()
    return any(target.is_relative_to(line) for line in text.split("\n") if line.startswith("/"))


def _message(root: Path, path: str) -> str:
    target = (root / path).readlink()
    verb = "read" if path in {CONFIG, POLICY_TESTS} else "write"
    return f"{path!r} is a symbolic link to {str(target)!r}: commands would {verb} outside of the project"


def _hint(path: str) -> str:
    remove = f"rm {shlex.quote(path)}"
    if path.split("/", 1)[0] != "data":
        return remove
    # No command that permits the link: a model that follows hints would permit an attack.
    file = user_folder() / _LINKED_FOLDERS
    return f"{remove}; if you made the link yourself, add its target to {str(file)!r}, see covalt-git explain CG404"
