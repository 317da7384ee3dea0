"""Git bundles: files with refs and all objects that the refs reach; stock git can clone and fetch from them.

Format: ``gitformat-bundle(5)``; version 2, or 3 if the hash is not sha1.  Dulwich's bundles are not used:
dulwich reads all objects into memory, and does not support sha256 in bundles.
"""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import reachable
from covalt_git.git_store.objects import is_object_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalt_git.git_store.object_reader import ObjectReader

SIGNATURES = (b"# v2 git bundle\n", b"# v3 git bundle\n")
"""First lines of bundles of version 2 and 3."""

_DIGITS = {"sha1": 40, "sha256": 64}
# A bundle comes from others.  Without these bounds, a file without line feeds would be read into memory as its
# header.
_LONGEST_LINE = 8192
_MOST_LINES = 100_000
_REF = re.compile(r"HEAD|refs/[^\x00-\x20\x7f ~^:?*\[\\]+")


class BadGitBundleError(CovaltError):
    """A file that is not a bundle, or a bundle that lacks objects."""

    code = "bad_bundle"


def write_bundle(
    reader: ObjectReader,
    refs: Mapping[str, str],
    file: IO[bytes],
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write refs, possibly ``HEAD`` too, and all objects that they reach; return the number of objects.

    ``progress`` is called with the number of written objects and the total number.

    Raises:
        BrokenStoreError: when an object that they reach is missing or damaged.
    """
    is_plain = reader.object_format == "sha1"
    lines = [] if is_plain else [f"@object-format={reader.object_format}"]
    lines += [f"{oid} {ref}" for ref, oid in sorted(refs.items())]
    file.write(SIGNATURES[not is_plain] + "\n".join([*lines, "", ""]).encode())
    ids = sorted(reachable(reader, refs.values()))
    for number, part in enumerate(reader.pack(ids)):
        file.write(part)
        if progress is not None and number % 100 == 0:
            progress(min(number, len(ids)), len(ids))
    return len(ids)


def read_bundle_header(file: IO[bytes]) -> tuple[str, dict[str, str]]:
    """Return the object format of a bundle and its refs; leave ``file`` where its pack begins.

    Raises:
        BadGitBundleError: if the file is not a bundle, or contains only a part of a history.
    """
    signature = file.readline(_LONGEST_LINE)
    if signature not in SIGNATURES:
        raise BadGitBundleError(
            "the file is not a bundle of version 2 or 3", hint="git bundle create FILE --all"
        )
    object_format = "sha1"
    refs: dict[str, str] = {}
    for _ in range(_MOST_LINES):
        line = file.readline(_LONGEST_LINE)
        if line == b"\n":
            return object_format, refs
        text = line.decode("utf-8", "replace").removesuffix("\n")
        oid, _, ref = text.partition(" ")
        if text.startswith("@object-format=") and signature == SIGNATURES[1] and not refs:
            object_format = text.partition("=")[2]
            if object_format not in _DIGITS:
                raise BadGitBundleError(
                    f"the bundle has an unknown object format, {object_format!r}"
                )
        # `-` names a commit that the reader must have, `@filter` a partial clone: neither brings a whole history.
        elif text.startswith(("-", "@")):
            missing = "filtered objects" if text.startswith("@") else "earlier commits"
            raise BadGitBundleError(
                f"the bundle has only a part of a history; it lacks {missing}",
                hint="make one of everything: git bundle create FILE --all",
            )
        elif len(oid) == _DIGITS[object_format] and is_object_id(oid) and _REF.fullmatch(ref):
            refs[ref] = oid
        else:
            break
    raise BadGitBundleError("the header of the bundle is malformed")
