"""Rules for file names in workspaces and toolsets: a name is good, refused or unportable.

*Refused* names could damage a checkout on some system, or hide from a reader; they are never stored.
*Unportable* names work on this system, but cannot be checked out on some other.  A chat stores and reports
them; bundles and the API refuse them.  Scans, uploads, the API, pushed trees and bundles all use this module.  The rules follow git's ``verify_path`` with protectNTFS and protectHFS both on.
"""

from __future__ import annotations

import functools
import os
import posixpath
import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.text import display
from covalt_git.text.normal_form import normalized

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

WORKSPACE_PREFIX = "workspace:"
"""What may precede the path of a file in the workspace, in arguments of HTTP tools and in results."""

MAX_ELEMENT_BYTES = 255
MAX_PATH_BYTES = 4096
MAX_DEPTH = 128
_SHORT_NAME = 8
_UNTYPED = {*range(0x20), *range(0x7F, 0x100), *b"'\\"}
"""Bytes of a name that :func:`typed` escapes as ``\\xNN``."""

_PLAIN = re.compile(
    r"(?!.{256})(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z))[a-z0-9_]+(?:[-.][a-z0-9_]+)*",
    re.ASCII | re.IGNORECASE,
)
_CONTROL = f"[{display.CONTROLS}]"
_RESERVED_CHARACTER = r'[<>:"|?*\\]'
_DEVICE = r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:\s*\..*)?"
_SHORT_GIT = r"git~[0-9]+"
# What NTFS puts in a short name once the plain ones are taken (git, path.c: is_ntfs_dot_generic).
_NTFS_HASHES = {
    ".gitmodules": "gi7eba",
    ".gitattributes": "gi7d29",
    ".gitignore": "gi250a",
    ".mailmap": "maba30",
}
_IGNORED_END = re.compile(r"[\s.]+\Z")
# What HFS+ leaves out when it compares names (git, utf8.c: next_hfs_char).
_HFS_IGNORED = "[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]"


class Verdict(NamedTuple):
    """Result of checking a name, and the reason."""

    kind: Literal["good", "unportable", "refused"]
    reason: str = ""


GOOD = Verdict("good")


def check_path(path: str | bytes) -> Verdict:
    """Return the verdict on a path relative to a workspace or toolset, with ``/`` between its elements."""
    if isinstance(path, bytes):
        try:
            path = path.decode("utf-8")
        except UnicodeDecodeError:
            return Verdict("refused", "its name is not UTF-8")
    elements = path.split("/")
    size = len(path.encode("utf-8", "surrogatepass"))
    # Linux opens no longer paths, and code that walks folders is recursive in places.
    if len(elements) > MAX_DEPTH or size > MAX_PATH_BYTES:
        return Verdict("refused", "its path is too long")
    worst = GOOD
    for element in elements:
        verdict = check_element(element)
        if verdict.kind == "refused":
            return verdict
        if worst.kind == "good":
            worst = verdict
    return worst


def normal_path(text: str) -> str:
    """Return a path without ``.``, ``..`` and empty segments, as if no folder in it were a link.

    At the beginning, ``..`` of a relative path and a single ``/`` of an absolute path remain.
    """
    # POSIX lets `//x` mean another place than `/x`, so normpath() keeps it; no system here does.
    return posixpath.normpath("/" + text.lstrip("/") if text.startswith("/") else text)


def typed(path: Path) -> str:
    """Return a path relative to the current folder, quoted for a shell."""
    text = os.path.relpath(path)
    if display.is_shown(text):
        return shlex.quote(text)
    bytes_ = (f"\\x{byte:02x}" if byte in _UNTYPED else chr(byte) for byte in os.fsencode(text))
    return f"$'{''.join(bytes_)}'"


@functools.lru_cache(4096)  # a scan checks each name twice, and many folders have the same names
def is_plain(name: str) -> bool:
    """Return whether a name certainly works on every system and is not special for git; a quick first check."""
    return _PLAIN.fullmatch(name) is not None


def check_element(name: str) -> Verdict:
    """Check one element of a path."""
    if is_plain(name):
        return GOOD
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return Verdict("refused", "its name is not UTF-8")
    if name in {"", ".", ".."}:
        return Verdict("refused", "it is empty, . or .., which leads outside or nowhere")
    if size > MAX_ELEMENT_BYTES:
        return Verdict("refused", f"its name is longer than {MAX_ELEMENT_BYTES} bytes")
    if "/" in name or re.search(_CONTROL, name):
        return Verdict("refused", "its name contains a control character or separator")
    # A checkout with such a folder writes hooks and settings, which git then runs (CVE-2014-9390,
    # CVE-2019-1353).
    if _is_git_directory(name):
        return Verdict("refused", "some systems treat its name as a git directory")
    return _portability(name)


@lru_cache(maxsize=1 << 12)
def is_git_file(name: str, wanted: str) -> bool:
    """Return whether some file system treats ``name`` as ``wanted``, one of git's dot files."""
    return any(
        plain == wanted or _is_short_name(plain, wanted, _NTFS_HASHES.get(wanted, ""))
        for plain in _readings(name)
    )


def _is_short_name(plain: str, wanted: str, ntfs_hash: str) -> bool:
    """Return whether NTFS could generate ``plain`` as the 8.3 short name of ``wanted``."""
    stem, tilde, number = plain.partition("~")
    if not tilde or len(plain) != _SHORT_NAME or not re.fullmatch(r"[1-9][0-9]*", number):
        return False
    return (stem == wanted[1:7] and number in "1234") or ntfs_hash.startswith(stem)


def collisions(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of paths that are one path on systems that ignore case or Unicode normalization."""
    seen: dict[str, str] = {}
    for path in paths:
        first = seen.setdefault(normalized("NFC", path).casefold(), path)
        if first != path:
            yield first, path


def windows_form(path: str) -> str:
    r"""Return a path as Windows opens it: ``a.md`` for ``a.md. ``, and the file of a stream such as ``a.md:x``.

    Blanks that are no spaces are left out too, because names that differ in them look alike.
    """
    return "/".join(
        _IGNORED_END.sub("", element.partition(":")[0]) or element for element in path.split("/")
    )


def _is_git_directory(name: str) -> bool:
    return any(
        plain == ".git" or re.fullmatch(_SHORT_GIT, plain) or plain in {".", ".."}
        for plain in _readings(name)
    )


def _readings(name: str) -> Iterator[str]:
    """Yield the names that HFS+ and NTFS would use instead, also those between backslashes."""
    visible = re.sub(_HFS_IGNORED, "", normalized("NFC", name)).casefold()
    yield visible
    # A backslash separates names on Windows.
    for element in visible.split("\\"):
        # NTFS cuts an alternate stream and drops trailing dots and spaces.
        yield element.partition(":")[0].rstrip(". ")
        yield element


def _has_invisible(name: str) -> bool:
    """Return whether a name has an invisible or bidirectional character; U+FE0F after an emoji is allowed.

    Joiners count everywhere: HFS+ leaves them out when it compares names.
    """
    return any(
        display.kind(letter) in {"bidi", "invisible"}
        and not (letter == "\ufe0f" and display.is_joined(name, place))
        for place, letter in enumerate(name)
    )


def _portability(name: str) -> Verdict:
    if re.search(_RESERVED_CHARACTER, name):
        return Verdict("unportable", "its name contains a character that Windows does not allow")
    # Also a blank of another script, which looks like none at the end of a name.
    if name != name.strip() or name.endswith("."):
        return Verdict("unportable", "its name begins or ends with a space, or ends with a dot")
    if re.fullmatch(_DEVICE, name.casefold()):
        return Verdict("unportable", "its name is a device on Windows")
    if _has_invisible(name):
        return Verdict("unportable", "its name contains an invisible character")
    if normalized("NFC", name) != name:
        return Verdict("unportable", "its name is not in the composed Unicode form")
    return GOOD
