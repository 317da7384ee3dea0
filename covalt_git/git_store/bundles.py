"""Bundles: refs and all objects that they reach in one file, which stock git clones and fetches from.

Format: ``gitformat-bundle(5)``; version 2, or 3 where the hash is not sha1.  Dulwich holds all objects
of a bundle in memory and knows no sha256 in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import reachable
from covalt_git.git_store.objects import is_object_id
from covalt_git.git_store.pack_stream import pack_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalt_git.git_store.object_reader import ObjectReader

SIGNATURES = (b"# v2 git bundle\n", b"# v3 git bundle\n")
"""What a bundle begins with."""

_DIGITS = {"sha1": 40, "sha256": 64}
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
    reader: ObjectReader,
    refs: Mapping[str, str],
    file: IO[bytes],
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write some refs, ``HEAD`` possibly among them, and all they reach; return the number of objects.

    ``progress`` is called with the number of objects written and of all.

    Raises:
        BrokenStoreError: when an object that they reach is missing or damaged.
    """
    file.write(_header(BundleHeader(reader.object_format, dict(refs))))
    ids = sorted(reachable(reader, refs.values()))
    parts = pack_stream(reader.objects, ids, read=reader.read_object)
    for number, part in enumerate(parts):
        file.write(part)
        if progress is not None and number % 100 == 0:
            progress(min(number, len(ids)), len(ids))
    return len(ids)


def read_bundle_header(file: IO[bytes]) -> BundleHeader:
    """Return what a bundle says, and leave ``file`` where its pack begins.

    Raises:
        BadBundleError: when the file is not a bundle, or holds only a part of a history.
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
