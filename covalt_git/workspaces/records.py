"""Large parts of commit records, kept beside the commits in the tree of ``refs/covalt/records``.

A field whose canonical JSON is longer than 16 KiB stands in the record as ``{"ref": "sha256:<hex>",
"size": n}``; the bytes are the file ``<first two digits>/<hex>`` of that tree.  A small value which
happens to look like such a reference is kept there too, so a reference is never mistaken.  They are
fetched with ``git fetch <store> 'refs/covalt/*:refs/covalt/*'``.  In a clone without them history
stays readable: the field shows the reference, or says that its bytes are not here.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covalt_git.errors import CovaltError
from covalt_git.git_store import FILE, FOLDER, CommitObject, GitStore, TreeEntry
from covalt_git.json_values import canonical_json
from covalt_git.models.calls import CallError, FileReference, RenderPlan

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

REF = "refs/covalt/records"
LARGE = 16 * 1024
_CONTAINERS = ("call", "message")


class MissingRecordError(CovaltError):
    """Bytes that a record refers to are not in the store."""

    code = "missing_record"
    http_status = 404


@dataclass(slots=True)
class Records:
    """The large fields of one store.  :meth:`save` has to run before a commit that refers to them."""

    store: GitStore
    _new: dict[str, str] = field(default_factory=dict)

    def keep(self, content: bytes) -> FileReference:
        """Keep ``content`` and return the reference to it; it is reachable after :meth:`save`."""
        digest = hashlib.sha256(content).hexdigest()
        self._new[digest] = self.store.write_blob(content)
        return FileReference(ref=f"sha256:{digest}", size=len(content))

    def content(self, reference: FileReference) -> bytes:
        """Return the bytes of a reference.

        Raises:
            MissingRecordError: when the store does not hold them.
        """
        digest = reference.ref.removeprefix("sha256:")
        oid = self._new.get(digest) or self._find(digest)
        if oid is None:
            hint = f"git fetch <the chat's store> '{REF}:{REF}'"
            raise MissingRecordError(f"the record {reference.ref} is not in this store", hint=hint)
        content = self.store.read_blob(oid)
        if hashlib.sha256(content).hexdigest() != digest:
            raise MissingRecordError(f"the record {reference.ref} of this store was altered")
        return content

    def save(self) -> None:
        """Put everything kept since the last time into the tree, and move the ref to it."""
        if not self._new:
            return
        before = self.store.read_ref(REF)
        root = {} if before is None else self._tree(self.store.read_commit(before).tree)
        fresh = {digest: oid for digest, oid in self._new.items() if self._find(digest) is None}
        self._new.clear()
        if not fresh:
            return
        for start in {digest[:2] for digest in fresh}:
            held = root.get(start)
            below = self._tree(held.oid) if held else {}
            for digest, oid in fresh.items():
                if digest.startswith(start):
                    below[digest] = TreeEntry(digest.encode(), FILE, oid)
            tree = self.store.write_tree(below.values())
            root[start] = TreeEntry(start.encode(), FOLDER, tree)
        commit = CommitObject(
            tree=self.store.write_tree(root.values()),
            parents=() if before is None else (before,),
            author="covalt-git <covalt-git@covalt.invalid>",
            committer="covalt-git <covalt-git@covalt.invalid>",
            time=int(time.time()),
            message="records: large fields of this chat's commits, by sha256\n",
        )
        if not self.store.swap_ref(REF, before, self.store.write_commit(commit)):
            raise CovaltError("somebody else wrote this chat's records", hint="try again")

    def spelled(self, record: JsonObject) -> bytes:
        """Return the record as canonical JSON, its large fields kept here and referred to."""
        line = canonical_json.dumps(record)
        # Then no field is large; and what looks like a reference has these letters.
        if len(line) <= LARGE and b'"ref":' not in line:
            return line
        return canonical_json.dumps(self._shrink(record))

    def _shrink(self, record: JsonObject) -> JsonObject:
        small = dict(record)
        for name in _CONTAINERS:
            if name in small:
                small[name] = self._shrink_fields(small[name])
        rest = {key: value for key, value in small.items() if key not in _CONTAINERS}
        return small | self._shrink_fields(rest)

    def expand(self, record: Any) -> JsonObject:
        """Return the record whole again, as far as this store holds its parts.

        Anything may stand in a record that somebody altered; what is no object stays as it is.
        """
        if not isinstance(record, dict):
            return {}
        whole = self._expand_fields(record)
        for name in _CONTAINERS:
            if isinstance(whole.get(name), dict):
                whole[name] = self._expand_fields(whole[name])
        return whole

    def _shrink_fields(self, fields: JsonObject) -> JsonObject:
        small = {}
        for key, value in fields.items():
            content = canonical_json.dumps(value)
            if len(content) > LARGE or _looks_like_reference(value):
                small[key] = self.keep(content).model_dump()
            else:
                small[key] = value
        return small

    def _expand_fields(self, fields: JsonObject) -> JsonObject:
        return {
            name: self._expand_value(name, value) if _looks_like_reference(value) else value
            for name, value in fields.items()
        }

    def _expand_value(self, name: str, value: Any) -> Any:
        reference = FileReference.model_validate(value)
        try:
            content = self.content(reference)
        except MissingRecordError as error:
            return _stand_in(name, reference, error)
        return canonical_json.loads(content)

    def _find(self, digest: str) -> str | None:
        head = self.store.read_ref(REF)
        if head is None:
            return None
        below = self._tree(self.store.read_commit(head).tree).get(digest[:2])
        entry = self._tree(below.oid).get(digest) if below else None
        return entry.oid if entry else None

    def _tree(self, oid: str) -> dict[str, TreeEntry]:
        return {entry.name.decode(): entry for entry in self.store.read_tree(oid)}


def _looks_like_reference(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"ref", "size"}


def _stand_in(name: str, reference: FileReference, error: MissingRecordError) -> Any:
    """Return what the field of that name shows while its bytes are not in this store."""
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
