"""Git objects in memory: their ids, and the encoding of trees and commits.

Formats: ``git-mktree(1)``, ``git-commit-tree(1)``.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000
FOLDER = 0o040000

SUBMODULE = 0o160000
"""The mode under which a tree names a commit of another repository."""

KINDS = (b"", b"commit", b"tree", b"blob", b"tag")
"""Kinds of objects, each at its number in packs."""

_HASHES = {"sha1": hashlib.sha1, "sha256": hashlib.sha256}
_SIGNATURES = {"sha1": "gpgsig", "sha256": "gpgsig-sha256"}
"""Headers of the signature of a commit, by object format (gitformat-signature(5))."""

_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class BrokenStoreError(CovaltError):
    """A store that is damaged, or that needs a newer version."""

    code = "broken_store"
    http_status = 500


class DamagedObjectError(Exception):
    """Bytes that are not a valid object; the caller adds the object's id to the message."""


class TreeEntry(NamedTuple):
    """Entry of a tree: the name in bytes, git's mode, and the id of the object."""

    name: bytes
    mode: int
    oid: str


class CommitObject(NamedTuple):
    """A commit: ids in hex, the author as ``name <email>``, the time in seconds since 1970 UTC."""

    tree: str
    parents: tuple[str, ...]
    author: str
    committer: str
    time: int
    message: str
    signature: str = ""
    """The armored SSH signature of the commit without it; reading a commit leaves it out."""


def is_object_id(text: str) -> bool:
    """Return whether ``text`` is a full object id."""
    return _OBJECT_ID.fullmatch(text) is not None


def blob_id(content: bytes, object_format: str) -> str:
    """Return the id that a blob of this content has, without storing it."""
    return object_id(b"blob", content, object_format)


def is_binary_content(content: bytes) -> bool:
    """Return whether git would call the content of a file binary."""
    return b"\0" in content[:8_000]  # FIRST_FEW_BYTES of git's xdiff-interface.c


def object_id(kind: bytes, content: bytes, object_format: str) -> str:
    hasher = _HASHES[object_format](b"%s %d\0" % (kind, len(content)), usedforsecurity=False)
    hasher.update(content)
    return hasher.hexdigest()


def encode_tree(entries: Iterable[TreeEntry]) -> bytes:
    """Return the content of a tree; git sorts a folder as if its name ended in a slash."""
    ordered = sorted(entries, key=lambda row: row.name + b"/" if row.mode == FOLDER else row.name)
    return b"".join(b"%o %b\0%b" % (mode, name, bytes.fromhex(oid)) for name, mode, oid in ordered)


def encode_commit(commit: CommitObject, object_format: str = "sha1") -> bytes:
    """Return the content of a commit; the format decides about the name of its signature only."""
    lines = [f"tree {commit.tree}"]
    lines += [f"parent {parent}" for parent in commit.parents]
    lines += [f"author {commit.author} {commit.time} +0000"]
    lines += [f"committer {commit.committer} {commit.time} +0000"]
    if commit.signature:
        lines += [f"{_SIGNATURES[object_format]} {commit.signature}".replace("\n", "\n ")]
    return "\n".join([*lines, "", commit.message]).encode("utf-8")


def split_signature(content: bytes, object_format: str) -> tuple[bytes, bytes]:
    """Return the content of a commit without its signature, as git signs it, and the signature, which may be empty.

    A commit with several signatures has none here.
    """
    head, end, message = content.partition(b"\n\n")
    names = tuple(f"{name} ".encode() for name in _SIGNATURES.values())
    rest: list[bytes] = []
    signatures: list[list[bytes]] = []
    lines = rest
    for line in head.split(b"\n"):
        if line.startswith(b" "):
            lines.append(line if lines is rest else line[1:])
        elif line.startswith(names):
            lines = [line.partition(b" ")[2]]
            signatures.append(
                lines if line.startswith(f"{_SIGNATURES[object_format]} ".encode()) else []
            )
        else:
            lines = rest
            rest.append(line)
    signature = b"\n".join(signatures[0]) if len(signatures) == 1 else b""
    return b"\n".join(rest) + end + message, signature


def decode_commit(content: bytes) -> CommitObject:
    """Return a commit; its time is the committer's.

    Raises:
        ValueError: when the content is not a commit.
    """
    head, _, message = content.decode("utf-8", "replace").partition("\n\n")
    fields: dict[str, str] = {}
    parents = []
    for line in head.split("\n"):
        name, _, value = line.partition(" ")
        if name == "parent":
            parents.append(value)
        else:
            fields.setdefault(name, value)
    if not fields.get("tree") or not fields.get("committer"):
        raise ValueError("no tree or no committer")
    author = fields.get("author", "").rsplit(" ", 2)[0]
    committer, time, _ = fields["committer"].rsplit(" ", 2)
    return CommitObject(fields["tree"], tuple(parents), author, committer, int(time), message)
