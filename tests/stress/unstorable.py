"""What a folder is filled with in :mod:`tests.stress.random_trees`, each with whether a chat can store it.

Nothing here asks our own code: an entry is made to be storable, or to be of one kind that is not.
Of the kinds that are git's to refuse, stock git is asked (:func:`verdict_of_git`).
"""

import os
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.workspaces.stores import git, run_git

GIT_FOLDER = "names that mean a git directory"
GIT_FILE = "links and folders with names of git's own files"
GIT_CONTENT = "attributes and submodules that git does not read"
SHORT_NAME = "short names of a git directory that git lets pass"
OUTSIDE = "links that lead outside"
SPECIAL = "pipes"
UNREADABLE = "names with control characters"
NOT_UTF8 = "names that are not UTF-8"
TOO_LARGE = "files that are too large"
BY_GIT = (GIT_FOLDER, GIT_FILE, GIT_CONTENT)
KINDS = (*BY_GIT, SHORT_NAME, OUTSIDE, SPECIAL, UNREADABLE, NOT_UTF8, TOO_LARGE)

MAX_FILE_MB = 1
_LARGE = b"x" * ((MAX_FILE_MB << 20) + 1)

PLAIN_NAMES = (
    *("a", "b", "A", "read me", ".env", ".gitignore", ".gitattributes", ".gitmodules", "-x", "a.b"),
    *("\u00e9", "e\u0301", "x" * 200, "x" * 255, "con", "a:b", "a\\b", "a ", ".gitx"),
)
"""Names that can be stored; some systems could not have them all."""

_BAD_NAMES = {
    **dict.fromkeys((".git", ".GIT", "git~1", ".git.", ".git ", ".g\u200cit"), GIT_FOLDER),
    **dict.fromkeys((".git\\x", "a\\.git", ".git::$INDEX_ALLOCATION"), GIT_FOLDER),
    "git~9": SHORT_NAME,
    **dict.fromkeys(("a\nb", "\x7f", "a\x1b[2J"), UNREADABLE),
    os.fsdecode(b"caf\xe9"): NOT_UTF8,
}
_NEVER_LINKS = {".gitignore", ".gitattributes", ".gitmodules"}
_NEVER_FOLDERS = {".gitattributes", ".gitmodules"}

_CONTENTS = (b"", b"\n", b"* text=auto\n", b"*\n", b"a\r\nb\r\n", b"\0\xff\xfe", b"x" * 5000)
_ATTRIBUTES = {b"": "", b"* text=auto\n": "", b"a -diff\n" * 900: "", b"x" * 5000: GIT_CONTENT}
_MODULE = b'[submodule "%s"]\n\tpath = a\n\turl = %s\n'
_MODULES = {
    b"": "",
    _MODULE % (b"a", b"https://a.example/b"): "",
    _MODULE % (b"a", b"-evil"): GIT_CONTENT,
    _MODULE % (b"../a", b"https://a.example/b"): GIT_CONTENT,
}


class Entry(NamedTuple):
    """What was made at a path, and of which kind it is that cannot be stored, or none."""

    kind: str
    content: bytes
    why_not: str


def name(chance: Random) -> str:
    """Return a name, which sometimes cannot be stored."""
    return chance.choice(list(_BAD_NAMES) if chance.random() < 0.03 else PLAIN_NAMES)


def entry(chance: Random, path: str, kind: str) -> Entry:
    """Return something of a kind to be made at a path; now and then it cannot be stored."""
    above, last = path.count("/"), path.rpartition("/")[2]
    if kind == "folder":
        return Entry(kind, b"", folder(path))
    content, why_not = b"", ""
    if kind == "pipe":
        why_not = SPECIAL
    elif kind == "link":
        content, why_not = _target(chance, above)
        if last in _NEVER_LINKS:
            why_not = why_not or GIT_FILE
    elif last in {".gitattributes", ".gitmodules"}:
        some = _ATTRIBUTES if last == ".gitattributes" else _MODULES
        content, why_not = chance.choice(list(some.items()))
    elif chance.random() < 0.01:
        content, why_not = _LARGE, TOO_LARGE
    elif chance.random() < 0.5:
        content = chance.choice(_CONTENTS)
    else:
        content = chance.randbytes(chance.randrange(3000))
    return Entry(kind, content, _BAD_NAMES.get(last, "") or why_not)


def folder(path: str) -> str:
    """Return of which kind a folder is that cannot be stored, or nothing."""
    last = path.rpartition("/")[2]
    return _BAD_NAMES.get(last, "") or (GIT_FILE if last in _NEVER_FOLDERS else "")


def _target(chance: Random, above: int) -> tuple[bytes, str]:
    """Return where a link leads that has so many folders above it, and whether that is outside."""
    end = os.fsencode(chance.choice(PLAIN_NAMES))
    if chance.random() < 0.8:
        return b"../" * chance.randint(0, above) + end, ""
    return chance.choice((b"/" + end, b"../" * (above + 1) + end, end + b"/../" + end)), OUTSIDE


def verdict_of_git(path: str, made: Entry) -> str:
    """Return what stock git says of an entry in a tree: that it is an ``error``, a ``warning`` or nothing."""
    return _verdict(path.rpartition("/")[2], made.kind, made.content)


@cache
def _verdict(last: str, kind: str, content: bytes) -> str:
    with tempfile.TemporaryDirectory() as place:
        at = Path(place)
        git(at, "init", "--quiet")
        oid = git(at, "hash-object", "-w", "--stdin", given=content).strip()
        listed = {"folder": "040000 tree", "link": "120000 blob", "program": "100755 blob"}
        if kind == "folder":
            oid = git(at, "mktree", given=f"100644 blob {oid}\tx\n".encode()).strip()
        line = f"{listed.get(kind, '100644 blob')} {oid}\t".encode() + os.fsencode(last)
        git(at, "mktree", "-z", given=line + b"\0")
        done = run_git(at, "fsck", "--strict", "--no-dangling")
        if done.returncode:
            return "error"
        return "warning" if b"warning" in done.stderr else ""
