"""Stored values: large fields of commit records, as files in the tree of ``refs/covalt/records``.

A field whose canonical JSON is longer than 16 KiB is ``{"ref": "sha256:<hex>", "size": n}`` in the commit record;
its bytes are the file ``<first two digits>/<hex>`` of that tree.  A small value that looks like such a
reference is stored there too.  ``git fetch <store> 'refs/covalt/*:refs/covalt/*'`` copies the ref.  In a
clone without the ref, the field has a text about the missing bytes.

A fork, a deleted branch or a failed write can leave files that no commit needs.  :func:`used` finds the needed
ones: it searches each commit message for text that looks like a reference, and then each file that is found,
because a large render plan can refer to another one.
"""

from __future__ import annotations

import hashlib
import re
import time as clock
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import CommitGraph
from covalt_git.git_store.objects import FILE, FOLDER, CommitObject, TreeEntry
from covalt_git.json_values import canonical_json
from covalt_git.models.calls import CallError, FileReference, RenderPlan
from covalt_git.workspaces import trees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.git_store.store import GitStore
    from covalt_git.json_values import JsonObject

REF = "refs/covalt/records"
LARGE = 16 * 1024
COMMITTER = "covalt-git <covalt-git@covalt.invalid>"
_CONTAINERS = ("call", "message")
_CONTENTS = {"args", "result", "render_plan", "output", "text"}
"""Fields that say what a call was about, and not how it ended; :meth:`Records.expand` can leave them out."""
_REFERENCE = re.compile(r"sha256:([0-9a-f]{64})")
_FOLDER = re.compile(rb"[0-9a-f]{2}")
_DIGEST = re.compile(rb"[0-9a-f]{64}")


class MissingRecordError(CovaltError):
    """The store does not have the bytes of a reference."""

    code = "missing_record"
    http_status = 404


@dataclass(slots=True)
class Records:
    """Large fields of one store.  :meth:`save` must run before a commit that refers to them."""

    store: GitStore
    _new: dict[str, str] = field(default_factory=dict)

    def keep(self, content: bytes) -> FileReference:
        """Store ``content`` and return the reference to it; it is reachable after :meth:`save`."""
        digest = hashlib.sha256(content).hexdigest()
        self._new[digest] = self.store.write_blob(content)
        return FileReference(ref=f"sha256:{digest}", size=len(content))

    def content(self, reference: FileReference) -> bytes:
        """Return the bytes of a reference.

        Raises:
            MissingRecordError: if the store does not have them.
        """
        digest = reference.ref.removeprefix("sha256:")
        oid = self._new.get(digest) or self._find(digest)
        if oid is None:
            hint = f"git fetch <the chat's store> '{REF}:{REF}'"
            raise MissingRecordError(f"the record {reference.ref} is not in this store", hint=hint)
        content = self.store.read_blob(oid)
        # Git verifies the blob, but not that the tree has it under its own digest
        # (test_altered_records_are_not_trusted).
        if hashlib.sha256(content).hexdigest() != digest:
            raise MissingRecordError(f"the record {reference.ref} of this store was altered")
        return content

    def save(self) -> None:
        """Write the fields that were stored since the last :meth:`save` into the tree, and move the ref to it."""
        fresh = {digest: oid for digest, oid in self._new.items() if self._find(digest) is None}
        self._new.clear()
        if not fresh:
            return
        old = self.store.read_ref(REF)
        new = write(self.store, fresh, int(clock.time()), before=old)
        if not self.store.swap_ref(REF, old, new):
            raise CovaltError("another process wrote this chat's records", hint="try again")

    def encoded(self, record: JsonObject) -> bytes:
        """Return the record as canonical JSON, with references to its large fields, which are stored."""
        return canonical_json.dumps(_with_fields(record, self._reference))

    def expand(self, record: Any, *, outline: bool = False) -> JsonObject:
        """Return the record with its large fields, if this store has them.

        An ``outline`` has no large arguments, results and texts, but values of their types.  An altered record may be any
        JSON value.
        """
        value = self._outlined if outline else self._value
        return _with_fields(record, value) if isinstance(record, dict) else {}

    def _reference(self, _: str, value: Any) -> Any:
        """Store a field that is large, or that looks like a reference, and return the reference."""
        content = canonical_json.dumps(value)
        # A small value of a tool that imitates a reference would read the field of another call
        # (test_value_that_is_the_reference_of_another_is_not_taken_for_it).
        if len(content) > LARGE or _looks_like_reference(value):
            return self.keep(content).model_dump()
        return value

    def _value(self, name: str, value: Any) -> Any:
        """Return the value of the field ``name``, which may be a reference."""
        if not _looks_like_reference(value):
            return value
        reference = FileReference.model_validate(value)
        try:
            content = self.content(reference)
        except MissingRecordError as error:
            return _placeholder(name, reference, error)
        return canonical_json.loads(content)

    def _outlined(self, name: str, value: Any) -> Any:
        """Return the value of the field ``name``, without reading it if it is large and not needed."""
        if name in _CONTENTS and _looks_like_reference(value):
            reference = FileReference.model_validate(value)
            return _placeholder(name, reference, MissingRecordError("it was not read"))
        return self._value(name, value)

    def _find(self, digest: str) -> str | None:
        head = self.store.read_ref(REF)
        if head is None:
            return None
        file = trees.find(self.store, self.store.read_commit(head).tree, _path(digest))
        return None if file is None else file.oid


def entries(store: ObjectReader, tip: str | None) -> dict[str, str]:
    """Return the blob ids of the records of the commit ``tip``, by their sha256."""
    blobs = {}
    for folder in store.read_tree(store.read_commit(tip).tree) if tip is not None else ():
        if folder.mode == FOLDER and _FOLDER.fullmatch(folder.name):
            for entry in store.read_tree(folder.oid):
                if entry.mode == FILE and _DIGEST.fullmatch(entry.name):
                    blobs[entry.name.decode()] = entry.oid
    return blobs


def used(store: ObjectReader, stored: dict[str, str], texts: Iterable[str]) -> dict[str, str]:
    """Return the records among ``stored`` to which texts, such as commit messages, refer directly or indirectly.

    Raises:
        CovaltError: if the bytes of a record do not match its name.
    """
    needed_blobs: dict[str, str] = {}
    waiting = [digest for text in texts for digest in _REFERENCE.findall(text)]
    while waiting:
        digest = waiting.pop()
        if digest in stored and digest not in needed_blobs:
            content = store.read_blob(stored[digest])
            # An imported bundle can have any bytes under a digest (test_records_that_were_altered_are_refused).
            if hashlib.sha256(content).hexdigest() != digest:
                raise CovaltError(f"the record sha256:{digest} was altered", code="altered_record")
            needed_blobs[digest] = stored[digest]
            waiting += _REFERENCE.findall(content.decode("utf-8", "replace"))
    return needed_blobs


def needed(store: ObjectReader, tip: str | None, commits: Iterable[str]) -> dict[str, str]:
    """Return the records of the commit ``tip`` that commits and their ancestors need, as :func:`used` does."""
    return used(store, entries(store, tip), messages(store, commits))


def messages(store: ObjectReader, tips: Iterable[str]) -> Iterator[str]:
    """Yield the messages of all commits that ``tips`` reach."""
    graph = CommitGraph(store)
    for oid in graph.ancestors(tips):
        yield graph.commit(oid).message


def references(message: str) -> list[FileReference]:
    """Return the references to large fields in a commit message with a record."""
    collected: list[FileReference] = []

    def collect(_: str, value: Any) -> Any:
        if _looks_like_reference(value):
            collected.append(FileReference.model_validate(value))
        return value

    _with_fields(canonical_json.loads(message.split("\n\n", 2)[1]), collect)
    return collected


def write(
    store: GitStore, records: dict[str, str], time: int, *, before: str | None = None
) -> str | None:
    """Store a commit with these records and the records of the commit ``before``; return its id.

    ``time`` is its date.  Without new records there is no commit, and None is returned.
    """
    if not records:
        return None
    tree = None if before is None else store.read_commit(before).tree
    edits = {_path(digest): TreeEntry(b"", FILE, oid) for digest, oid in records.items()}
    return store.write_commit(
        CommitObject(
            tree=str(trees.edited(store, tree, edits)),
            parents=() if before is None else (before,),
            author=COMMITTER,
            committer=COMMITTER,
            time=time,
            message="records: large fields of this chat's commits, by sha256\n",
        )
    )


def _with_fields(record: JsonObject, change: Callable[[str, Any], Any]) -> JsonObject:
    """Return a commit record with ``change`` applied to each field, also to the fields of its call and message."""
    changed = {}
    for name, value in record.items():
        if name in _CONTAINERS and isinstance(value, dict):
            changed[name] = {key: change(key, inner) for key, inner in value.items()}
        else:
            changed[name] = change(name, value)
    return changed


def _path(digest: str) -> str:
    return f"{digest[:2]}/{digest}"


def _looks_like_reference(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"ref", "size"}


def _placeholder(name: str, reference: FileReference, error: MissingRecordError) -> Any:
    """Return a valid value for a field whose bytes are missing."""
    missing = f"{error.message}: {reference.size} bytes"
    match name:
        case "error":
            return CallError(code=error.code, message=missing, hint=error.hint).model_dump()
        case "output" | "text":
            return missing
        case "render_plan":
            return RenderPlan(renderer="document", error=missing).model_dump(exclude_none=True)
        case "upload":
            return []
        case "workspace":
            return {}
        case "merge":
            return None
        case _:
            return reference.model_dump()
