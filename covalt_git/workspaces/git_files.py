"""Whether git would accept one of its own dot files in a tree: ``.gitmodules`` and its like.

They are a workspace's files like any other here, and mean nothing to us.  But ``git fsck`` reads
them, and git refuses to fetch or be pushed a tree with one that it does not trust.  The rules follow
git's ``fsck.c``; ``.gitmodules`` has to be of the plain form that everybody writes.
"""

from __future__ import annotations

import re

from covalt_git.git_store import FOLDER, LINK
from covalt_git.paths import is_git_file

_NEVER_LINKS = (".gitmodules", ".gitattributes", ".gitignore", ".mailmap")
_NEVER_FOLDERS = (".gitmodules", ".gitattributes")
_MAX_ATTRIBUTE_LINE = 2048  # git, attr.h: ATTR_MAX_LINE_LENGTH
_MAX_ATTRIBUTES = 100 << 20  # git, attr.h: ATTR_MAX_FILE_SIZE

_ADDRESS = (
    rb"(?:https?|ftps?|ssh|git|file)://(?:[\w.-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*(?::[1-9][0-9]{0,3})?"
    rb"(?:/[\w./~+@-]*)?"
)
_PLAIN_VALUE = rb"(?!\w+:/)[\w./~@][\w./~+@:-]*"
_MODULES_LINE = re.compile(
    rb'(?P<comment>[#;].*)?|(?P<section>\[submodule "[A-Za-z0-9_][\w./+-]*"\])'
    rb"|[A-Za-z][A-Za-z0-9-]*[ \t]*=[ \t]*(?:" + _ADDRESS + rb"|" + _PLAIN_VALUE + rb")",
    re.ASCII,
)


def why_git_refuses(name: str, mode: int, content: bytes) -> str:
    """Return why ``git fsck --strict`` would complain about a tree with this entry, or nothing."""
    if mode == LINK and any(is_git_file(name, wanted) for wanted in _NEVER_LINKS):
        return "git allows no link of that name"
    if mode == FOLDER:
        refused = any(is_git_file(name, wanted) for wanted in _NEVER_FOLDERS)
        return "git allows no folder of that name" if refused else ""
    if is_git_file(name, ".gitmodules") and not _is_trusted(content):
        return "git does not trust what it says"
    if is_git_file(name, ".gitattributes"):
        if len(content) > _MAX_ATTRIBUTES:
            return "git does not read attributes of that size"
        if any(len(line) >= _MAX_ATTRIBUTE_LINE for line in content.split(b"\n")):
            return "git does not read attributes of such long lines"
    return ""


def _is_trusted(content: bytes) -> bool:
    """Tell whether a ``.gitmodules`` holds only sections of plain names, paths and addresses."""
    if b".." in content or b"::" in content or re.search(rb"[^\t\n\x20-\x7e]", content):
        return False
    in_section = False
    for line in content.split(b"\n"):
        found = _MODULES_LINE.fullmatch(line.strip(b" \t"))
        if found is None:
            return False
        in_section = in_section or found["section"] is not None
        if not in_section and line.strip(b" \t") and found["comment"] is None:
            return False
    return True
