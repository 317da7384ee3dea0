"""Which of a chat's records (see :mod:`.records`) belong to some of its commits, and only those.

What a fork, a deleted branch or a failed write left in ``refs/covalt/records`` belongs to no commit
any more.  The commits are searched for anything that looks like the reference to a record, and so is
every record that is found: a large render plan may refer to another one.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store import FILE, FOLDER, CommitObject, GitStore, TreeEntry
from covalt_git.workspaces.commits import COMMITTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_REFERENCE = re.compile(r"sha256:([0-9a-f]{64})")
_FOLDER = re.compile(rb"[0-9a-f]{2}")
_DIGEST = re.compile(rb"[0-9a-f]{64}")


class AlteredRecordError(CovaltError):
    """A record is not what its name says."""

    code = "altered_record"


def entries(store: GitStore, tip: str | None) -> dict[str, str]:
    """Return the records of the commit ``tip`` by their sha256: the id of each one's blob."""
    found = {}
    for folder in store.read_tree(store.read_commit(tip).tree) if tip is not None else ():
        if folder.mode == FOLDER and _FOLDER.fullmatch(folder.name):
            for entry in store.read_tree(folder.oid):
                if entry.mode == FILE and _DIGEST.fullmatch(entry.name):
                    found[entry.name.decode()] = entry.oid
    return found


def used(store: GitStore, held: dict[str, str], texts: Iterable[str]) -> dict[str, str]:
    """Return those of the records ``held`` to which the texts lead, such as commits' messages.

    Raises:
        AlteredRecordError: when one of them is not what its name says.
    """
    found: dict[str, str] = {}
    waiting = [digest for text in texts for digest in _named(text)]
    while waiting:
        digest = waiting.pop()
        if digest in held and digest not in found:
            content = store.read_blob(held[digest])
            if hashlib.sha256(content).hexdigest() != digest:
                raise AlteredRecordError(f"the record sha256:{digest} was altered")
            found[digest] = held[digest]
            waiting += _named(content.decode("utf-8", "replace"))
    return found


def write(store: GitStore, records: dict[str, str], time: int) -> str | None:
    """Store a commit of these records alone, made at ``time``; return its id, None without any."""
    if not records:
        return None
    folders: dict[str, list[TreeEntry]] = {}
    for digest, oid in records.items():
        folders.setdefault(digest[:2], []).append(TreeEntry(digest.encode(), FILE, oid))
    trees = [
        TreeEntry(start.encode(), FOLDER, store.write_tree(below))
        for start, below in folders.items()
    ]
    return store.write_commit(
        CommitObject(
            tree=store.write_tree(trees),
            parents=(),
            author=COMMITTER,
            committer=COMMITTER,
            time=time,
            message="records: large fields of this chat's commits, by sha256\n",
        )
    )


def messages(store: GitStore, tips: Iterable[str]) -> Iterator[str]:
    """Yield the messages of all commits that ``tips`` reach."""
    met = set()
    waiting = list(tips)
    while waiting:
        oid = waiting.pop()
        if oid not in met:
            met.add(oid)
            commit = store.read_commit(oid)
            yield commit.message
            waiting.extend(commit.parents)


def _named(text: str) -> list[str]:
    return [] if "sha256:" not in text else _REFERENCE.findall(text)
