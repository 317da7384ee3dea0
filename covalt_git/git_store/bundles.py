"""Bundles: refs and all that they reach in one file, which stock git clones and fetches from.

Format: ``gitformat-bundle(5)``; version 2, or 3 where the hash is not sha1.  The same refs give the
same bytes, however the objects lie in the store: their order is that of the history, the deltas are
of what stood at the same path before, and zlib itself compresses, whatever else is installed.
Dulwich reads and writes bundles, too, but holds all of one in memory and knows no sha256 in them.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store.deltas import delta
from covalt_git.git_store.objects import KINDS, is_object_id
from covalt_git.git_store.pack_writing import copied_entry
from covalt_git.git_store.packs import PACK_START
from covalt_git.git_store.reachable import reached

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalt_git.git_store.reachable import Reached
    from covalt_git.git_store.store import GitStore

SIGNATURES = (b"# v2 git bundle\n", b"# v3 git bundle\n")
"""What a bundle begins with."""

_DIGITS = {"sha1": 40, "sha256": 64}
_LEVEL = 1
_LONGEST_CHAIN = 20
_LARGEST_DELTA = 1 << 20
_LONGEST_LINE = 8192
_MOST_LINES = 100_000
_REF = re.compile(r"HEAD|refs/[^\x00-\x20\x7f ~^:?*\[\\]+")


class BadBundleError(CovaltError):
    """A file that is no bundle, or one that does not hold all that it needs."""

    code = "bad_bundle"


@dataclass(frozen=True, slots=True)
class BundleHeader:
    """What a bundle says of itself before its pack: its hash, and the refs with their objects."""

    object_format: str
    refs: dict[str, str]


def write_bundle(
    store: GitStore,
    refs: Mapping[str, str],
    file: IO[bytes],
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write some refs, ``HEAD`` among them if it is given, and all they reach; return how many objects.

    ``progress`` is told how many of the objects are written.

    Raises:
        BrokenStoreError: when something that they reach is damaged, or not there.
    """
    file.write(_header(BundleHeader(store.object_format, dict(refs))))
    objects = list(reached(store, dict.fromkeys(refs.values())))
    pack = _Pack(store, file)
    pack.write(PACK_START + struct.pack(">I", len(objects)))
    for number, found in enumerate(objects):
        pack.add(found)
        if progress is not None and number % 100 == 0:
            progress(number, len(objects))
    pack.finish()
    return len(objects)


def read_bundle_header(file: IO[bytes]) -> BundleHeader:
    """Return what a bundle says, and leave ``file`` where its pack begins.

    Raises:
        BadBundleError: when it is none, or holds only what somebody else does not have.
    """
    signature = file.readline(_LONGEST_LINE)
    if signature not in SIGNATURES:
        raise BadBundleError(
            "it is no bundle of a version we know", hint="git bundle create FILE --all"
        )
    object_format = "sha1"
    refs: dict[str, str] = {}
    for _ in range(_MOST_LINES):
        line = file.readline(_LONGEST_LINE)
        if line == b"\n":
            return BundleHeader(object_format, refs)
        text = line.decode("utf-8", "replace").removesuffix("\n")
        if line.startswith(b"@object-format=") and signature == SIGNATURES[1] and not refs:
            object_format = text.partition("=")[2]
            if object_format not in _DIGITS:
                raise BadBundleError(f"its hash is {object_format!r}, which git does not know")
            continue
        if line.startswith((b"-", b"@")):
            what = "what is left out by a filter" if line.startswith(b"@") else "commits before it"
            raise BadBundleError(
                f"it holds only a part of a history, and needs {what}",
                hint="make one of everything: git bundle create FILE --all",
            )
        oid, _, ref = text.partition(" ")
        if len(oid) != _DIGITS[object_format] or not is_object_id(oid) or not _REF.fullmatch(ref):
            raise BadBundleError("its header is not as git writes it")
        refs[ref] = oid
    raise BadBundleError("its header is not as git writes it")


def _header(header: BundleHeader) -> bytes:
    is_plain = header.object_format == "sha1"
    lines = [] if is_plain else [f"@object-format={header.object_format}"]
    lines += [f"{oid} {ref}" for ref, oid in sorted(header.refs.items())]
    return SIGNATURES[not is_plain] + "\n".join([*lines, "", ""]).encode()


@dataclass(slots=True)
class _Pack:
    """The pack of a bundle in the making."""

    store: GitStore
    file: IO[bytes]
    _places: dict[str, int] = field(default_factory=dict)
    _depths: dict[str, int] = field(default_factory=dict)
    _end: int = 0
    _hasher: hashlib._Hash = field(init=False)

    def __post_init__(self) -> None:
        self._hasher = hashlib.new(self.store.object_format, usedforsecurity=False)

    def write(self, part: bytes) -> None:
        self._hasher.update(part)
        self.file.write(part)
        self._end += len(part)

    def add(self, found: Reached) -> None:
        """Write one object: as a delta of its base, where that is worth it."""
        kind, content = self.store.read_object(found.oid)
        change = self._change(found, kind, content)
        distance = 0 if change is None else self._end - self._places[str(found.base)]
        stream = content if change is None else change
        self._places[found.oid] = self._end
        entry = copied_entry(
            KINDS.index(kind), len(stream), zlib.compress(stream, _LEVEL), distance=distance
        )
        self.write(entry.written)

    def finish(self) -> None:
        """Write the checksum."""
        self.file.write(self._hasher.digest())

    def _change(self, found: Reached, kind: bytes, content: bytes) -> bytes | None:
        if found.base is None or len(content) > _LARGEST_DELTA:
            return None
        depth = self._depths.get(found.base, 0) + 1
        if found.base not in self._places or depth > _LONGEST_CHAIN:
            return None
        base_kind, base = self.store.read_object(found.base)
        if base_kind != kind or len(base) > _LARGEST_DELTA:
            return None
        change = delta(base, content)
        if len(change) >= len(content) // 2:
            return None
        self._depths[found.oid] = depth
        return change
