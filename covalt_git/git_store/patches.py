"""Git patches of single files, which ``git apply`` accepts, and ``patch`` if they are not binary.

Dulwich finds the hunks.  The lines above them are written here: dulwich writes names without quotes and without the tab
after a name with spaces, has no binary patches, and its header of a changed mode is not understood by git.

Format: ``git-diff(1)``, "Generating patch text with -p"; binary patches as in git's ``diff.c``.
"""

from __future__ import annotations

import base64
import io
import stat
import zlib
from typing import TYPE_CHECKING

from dulwich.patch import unified_diff

from covalt_git.git_store.objects import is_binary_content, object_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.models.chats import FileChange

Side = tuple[int, bytes]
"""The mode and the content of a file."""

_SHORT = 7
_ESCAPES = {
    ord(char): f"\\{letter}" for char, letter in zip('\a\b\t\n\v\f\r"\\', 'abtnvfr"\\', strict=True)
}
_ESCAPES |= {code: f"\\{code:03o}" for code in (*range(32), 127) if code not in _ESCAPES}
_LINE_BYTES = 52
"""Bytes of compressed content in a line of a binary patch."""


def file_patch(
    path: str,
    old: Side | None,
    new: Side | None,
    *,
    binary: bool = False,
    object_format: str = "sha1",
) -> bytes:
    """Return the patch of one path between two sides; one of them may be absent.

    With ``binary``, a change of a file that is not UTF-8 text is written as a binary patch.  Otherwise the patch only says
    that binary files differ, and has the bytes of other text as they are.
    """
    # As git does: no patch turns a file into a link, so the one is deleted and the other is created.
    if old and new and stat.S_IFMT(old[0]) != stat.S_IFMT(new[0]):
        return b"".join(
            file_patch(path, *sides, binary=binary, object_format=object_format)
            for sides in ((old, None), (None, new))
        )
    old_content, new_content = (side[1] if side else b"" for side in (old, new))
    names = _name("a/", path), _name("b/", path)
    lines = [f"diff --git {names[0]} {names[1]}", *_modes(old, new)]
    if old and new and old_content == new_content:
        return _encoded(lines)
    # Git applies a binary patch only with full ids.
    as_binary = binary and not (is_text(old_content) and is_text(new_content))
    length = len(object_id(b"blob", b"", object_format)) if as_binary else _SHORT
    ids = [
        object_id(b"blob", side[1], object_format)[:length] if side else "0" * length
        for side in (old, new)
    ]
    mode = f" {old[0]:06o}" if old and new and old[0] == new[0] else ""
    lines.append(f"index {ids[0]}..{ids[1]}{mode}")
    if as_binary:
        # The way back too, so that `git apply --reverse` works.
        return (
            _encoded([*lines, "GIT binary patch"]) + _literal(new_content) + _literal(old_content)
        )
    labels = [name if side else "/dev/null" for name, side in zip(names, (old, new), strict=True)]
    if is_binary_content(old_content) or is_binary_content(new_content):
        return _encoded([*lines, "Binary files {} and {} differ".format(*labels)])
    hunks = b"".join(_hunks(old_content, new_content))
    # As git does: without the tab, `patch` would take the name to end at its first space.
    ends = ["\t" if " " in label and label != "/dev/null" else "" for label in labels]
    heads = [f"--- {labels[0]}{ends[0]}", f"+++ {labels[1]}{ends[1]}"] if hunks else []
    return _encoded(lines + heads) + hunks


def is_text(content: bytes) -> bool:
    """Return whether git calls a content text, and it is UTF-8."""
    if is_binary_content(content):
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def change_patch(store: ObjectReader, change: FileChange, *, binary: bool = False) -> str:
    """Return the patch of one change in a store, as :func:`file_patch`; bytes that are not UTF-8 are replaced."""
    old, new = (
        (side.mode, store.read_blob(side.oid)) if side else None
        for side in (change.old, change.new)
    )
    patch = file_patch(change.path, old, new, binary=binary, object_format=store.object_format)
    return patch.decode("utf-8", "replace")


def _encoded(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _modes(old: Side | None, new: Side | None) -> list[str]:
    if old and new:
        changed = old[0] != new[0]
        return [f"old mode {old[0]:06o}", f"new mode {new[0]:06o}"] if changed else []
    return [
        *([f"deleted file mode {old[0]:06o}"] if old else []),
        *([f"new file mode {new[0]:06o}"] if new else []),
    ]


def _name(prefix: str, path: str) -> str:
    """Return a name in a patch: in quotes if it has a character that would end or change it."""
    name = (prefix + path).translate(_ESCAPES)
    return name if name == prefix + path else f'"{name}"'


def _hunks(old_content: bytes, new_content: bytes) -> Iterator[bytes]:
    """Return the hunks of a text; only line feeds end its lines."""
    # splitlines() also splits at a carriage return inside of a line, which broke the patch.
    old, new = (io.BytesIO(content).readlines() for content in (old_content, new_content))
    diff = unified_diff(old, new)
    next(diff, None)  # the names
    next(diff, None)
    return diff


def _literal(content: bytes) -> bytes:
    """Return a content in a binary patch: compressed, in lines of base 85 with their lengths."""
    compressed = zlib.compress(content)
    lines = [b"literal %d" % len(content)]
    for start in range(0, len(compressed), _LINE_BYTES):
        part = compressed[start : start + _LINE_BYTES]
        length = len(part) + (ord("A") - 1 if len(part) <= 26 else ord("a") - 27)  # noqa: PLR2004 - letters
        lines.append(bytes([length]) + base64.b85encode(part, pad=True))
    return b"\n".join(lines) + b"\n\n"
