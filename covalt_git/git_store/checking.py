"""Checks of imported trees and commits: the errors and warnings of ``git fsck --strict``.

The rules are those of git's ``fsck.c`` (2.39) except for names, which :mod:`covalt_git.paths` checks more
strictly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dulwich.errors import ObjectFormatException
from dulwich.objects import parse_tree

from covalt_git.git_store.objects import EXECUTABLE, FILE, FOLDER, LINK, SUBMODULE

if TYPE_CHECKING:
    from covalt_git.git_store.object_reader import ObjectReader

_MODES = {b"%o" % mode for mode in (FILE, EXECUTABLE, LINK, FOLDER, SUBMODULE)}
_PERSON = rb"(?!<)[^<>\n]* <[^<>\n]*> (?P<%b>0|[1-9][0-9]{0,18}) [+-][0-9]{4}\n"
_COMMIT = (
    rb"tree (?P<tree>[0-9a-f]+)\n(?P<parents>(?:parent [0-9a-f]+\n)*)"
    rb"author "
    + _PERSON % b"written"
    + rb"committer "
    + _PERSON % b"committed"
    + rb"(?P<others>(?:[^\n\0]+\n)*)(?:\n[^\0]*)?"
)
_LATEST = (1 << 63) - 1


def why_bad_tree(reader: ObjectReader, oid: str) -> str:
    """Return the first error in a tree, or an empty text."""
    content = reader.read_content(oid, b"tree")
    try:
        entries = list(parse_tree(content, reader.format.oid_length))
    except (ObjectFormatException, ValueError):
        return "it is cut off, or one of its entries has no mode"
    at, last, names = 0, b"", set()
    for name, _, entry in entries:
        # Dulwich's parser accepts zeros and a plus sign before a mode, which fsck reports: so the mode is read
        # as it is written.
        mode = content[at : content.index(b" ", at)]
        at += len(mode) + len(name) + 2 + reader.format.oid_length
        if mode not in _MODES:
            return f"one of its entries has the mode {mode.decode()}"
        if not name or b"/" in name:
            return "one of its entries has no valid name"
        if not entry.strip(b"0"):
            return "one of its entries has no object id"
        # Not only the entry before it: git sorts `a`, `a.b` and the folder `a/` in this order.
        if name in names:
            return "it has two entries with the same name"
        place = name + b"/" if mode == b"40000" else name
        if place <= last:
            return "it is not sorted"
        names.add(name)
        last = place
    return ""


def why_bad_commit(reader: ObjectReader, oid: str) -> str:
    """Return the first error in a commit alone, or an empty text."""
    commit = re.fullmatch(_COMMIT, reader.read_content(oid, b"commit"))
    if commit is None:
        return "its header is malformed"
    ids = [commit["tree"], *commit["parents"].replace(b"parent ", b"").split()]
    if any(len(hex_id) != reader.format.hex_length for hex_id in ids):
        return "it contains object ids of another format"
    if max(int(commit["written"]), int(commit["committed"])) > _LATEST:
        return "its time is out of range"
    if re.search(rb"^(?:author|committer) ", commit["others"], re.MULTILINE):
        return "it has several authors"
    return ""
