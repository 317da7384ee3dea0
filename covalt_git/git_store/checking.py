"""Checks of imported trees and commits: the errors and warnings of ``git fsck --strict``.

The rules are those of git's ``fsck.c`` (2.39) except for names, which :mod:`covalt_git.paths` checks more
strictly.
"""

from __future__ import annotations

import re

from covalt_git.git_store.objects import EXECUTABLE, FILE, FOLDER, LINK, tree_rows

SUBMODULE = 0o160000
"""The mode under which a tree names a commit of another repository."""

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


def why_bad_tree(content: bytes, id_length: int) -> str:
    """Return the first error in the content of a tree, or an empty text."""
    try:
        rows = tree_rows(content, id_length)
    except ValueError:
        return "it is cut off, or one of its entries has no mode"
    last, names = b"", set()
    for mode, name, raw in rows:
        if mode not in _MODES:
            return f"one of its entries has the mode {mode.decode()}"
        if not name or b"/" in name:
            return "one of its entries has no valid name"
        if not any(raw):
            return "one of its entries has no object id"
        if name in names:
            return "it has two entries with the same name"
        place = name + b"/" if mode == b"40000" else name
        if place <= last:
            return "it is not sorted"
        names.add(name)
        last = place
    return ""


def why_bad_commit(content: bytes, id_length: int) -> str:
    """Return the first error in the content of a commit, or an empty text."""
    found = re.fullmatch(_COMMIT, content)
    if found is None:
        return "its header is malformed"
    ids = [found["tree"], *found["parents"].replace(b"parent ", b"").split()]
    if any(len(oid) != 2 * id_length for oid in ids):
        return "it contains object ids of another format"
    if max(int(found["written"]), int(found["committed"])) > _LATEST:
        return "its time is out of range"
    if re.search(rb"^(?:author|committer) ", found["others"], re.MULTILINE):
        return "it has several authors"
    return ""
