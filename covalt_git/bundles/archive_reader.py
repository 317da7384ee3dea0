"""Reading a bundle that somebody else made, believing nothing of it.

A ZIP says everything twice, in a directory at its end and before each file, and programs differ in
what they believe; :mod:`zipfile` also mends names in silence.  So a bundle is taken only where it
can be read in one way: both sayings agree, the files follow one another from the first byte to the
directory without a gap, every name is the one that will be written, and nothing unpacks to more than
it says.  Reading makes no file.

Format: PKWARE's APPNOTE 6.3, sections 4.3.7 (local header), 4.3.12 (directory) and 4.3.16 (its end).
"""

from __future__ import annotations

import hashlib
import io
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.bundles.archive import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES
from covalt_git.errors import CovaltError, Problem
from covalt_git.manifests.toolset_files import BYTECODE, digest_of, is_bytecode, read_bundle_files
from covalt_git.paths import check_path, collisions
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LOCAL = struct.Struct("<4s5H3L2H")
_DIRECTORY = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_MANY, _FAR = 0xFFFF, 0xFFFFFFFF
"""What stands where only the fields of ZIP64 have room for the number."""

_SIGNED = 12  # what may follow a file whose sizes were not known before: check and two sizes

_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13
_SIZES_FOLLOW = 1 << 3
_UTF8 = 1 << 11
_STORED, _DEFLATED = 0, 8
_UNIX = 3
_FORBIDDEN_EXTRAS = {0x0001: "sizes of ZIP64", 0x7075: "another name", 0x6375: "another comment"}

MAX_ARCHIVE = MAX_BYTES + (8 << 20)
"""The most bytes that a bundle has itself."""

_MAX_RATIO = 200
_SMALL = 1 << 20
"""Files up to here may be packed as well as deflate can."""

_MAX_TOLD = 20


class BadBundleError(CovaltError):
    """A bundle is damaged, or could be understood in two ways, or holds what a toolset may not."""

    code = "bad_bundle"
    http_status = 422


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a bundle; its path is one that every system can store."""

    path: str
    content: bytes
    executable: bool


def digest_of_entries(entries: Sequence[Entry]) -> str:
    """Return the digest of the toolset that has these files."""
    return digest_of(
        (one.path, hashlib.sha256(one.content).hexdigest(), one.executable) for one in entries
    )


class _Wrong(Exception):  # noqa: N818 - it never leaves this module
    """Something is wrong with the archive as a whole or with one entry of it."""

    def __init__(self, name: str, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.name, self.code, self.message, self.hint = name, code, message, hint


def read_folder(folder: Path) -> list[Entry]:
    """Return the files of a directory that is a toolset, sorted by path.

    Raises:
        BadBundleError: with everything that is wrong with them.
    """
    found = read_bundle_files(folder, folder.name)
    problems = list(found.problems)
    problems += _as_problems(_name_problems([file.path for file in found.files]), folder.name)
    total = sum(file.size for file in found.files)
    if any(file.size > MAX_FILE_BYTES for file in found.files) or total > MAX_BYTES:
        problems += _as_problems([_Wrong("", codes.TOO_LARGE, _too_much())], folder.name)
    if problems:
        raise _refused(folder.name, problems)
    entries = []
    for file in found.files:
        content = (folder / file.path).read_bytes()
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise BadBundleError(f"{folder / file.path} changes while it is read", hint="try again")
        entries.append(Entry(file.path, content, file.executable))
    return entries


def read_archive(path: Path) -> bytes:
    """Return the bytes of a ZIP, a few more than it may have at most, for :func:`unpack`.

    Raises:
        BadBundleError: when it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_ARCHIVE + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadBundleError(f"{str(path)!r} cannot be read: {reason}") from None


def unpack(content: bytes, shown: str) -> list[Entry]:
    """Return the files of a ZIP whose name is ``shown``, sorted by path.

    Raises:
        BadBundleError: with what is wrong with it.
    """
    try:
        if len(content) > MAX_ARCHIVE:
            raise _Wrong("", codes.TOO_LARGE, f"it has more than {MAX_ARCHIVE >> 20} MiB")
        found = _directory(content)
        wrong = _name_problems([one.filename for one in found if not one.is_dir()])
        wrong += [
            _Wrong(one.filename, codes.FORBIDDEN_FILE, BYTECODE, "leave it out")
            for one in found
            if is_bytecode(one.filename.rstrip("/"))
        ]
        if wrong:
            raise _refused(shown, _as_problems(wrong, shown))
        entries = [_file(content, one) for one in found if not one.is_dir()]
    except _Wrong as wrong:
        raise _refused(shown, _as_problems([wrong], shown)) from None
    return sorted(entries, key=lambda entry: entry.path)


def _directory(content: bytes) -> list[zipfile.ZipInfo]:
    """Return the entries in the order of their files, once both sayings about them agree."""
    count, begins = _end(content)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            found = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error):
        raise _broken("its directory is damaged") from None
    if len(found) != count:
        raise _broken("its directory has another number of entries than it says")
    if sum(one.file_size for one in found) > MAX_BYTES:
        raise _Wrong("", codes.TOO_LARGE, _too_much())
    at = 0
    for one in sorted(found, key=lambda one: one.header_offset):
        _check_entry(one)
        if one.header_offset != at:
            raise _broken("its files overlap, or something lies between them", one.orig_filename)
        at = _end_of(content, one, begins)
    if at != begins:
        raise _broken("something lies between its files and its directory")
    return sorted(found, key=lambda one: one.header_offset)


def _end(content: bytes) -> tuple[int, int]:
    """Return how many entries there are and where their directory begins, which ends the archive."""
    at = content.rfind(b"PK\5\6")
    if at < 0 or len(content) - at < _END.size:
        raise _broken("it is no ZIP, or cut off")
    _, disk, first_disk, here, count, size, begins, comment = _END.unpack_from(content, at)
    if disk or first_disk or here != count:
        raise _broken("it is a part of several")
    if _MANY in (here, count) or _FAR in (size, begins):
        raise _broken("it is a ZIP64, which a bundle is too small for")
    if comment or at + _END.size != len(content):
        raise _broken("something follows its end")
    if begins + size != at:
        raise _broken("something lies before its files, or after its directory")
    if count > MAX_FILES:
        message = f"it holds {count} files, and a bundle {MAX_FILES} at most"
        raise _Wrong("", codes.TOO_LARGE, message)
    place = begins
    for _ in range(count):
        if content[place : place + 4] != b"PK\1\2" or place + _DIRECTORY.size > at:
            raise _broken("its directory is damaged")
        fields = _DIRECTORY.unpack_from(content, place)
        place += _DIRECTORY.size + sum(fields[10:13])
    if place != at:
        raise _broken("its directory is damaged")
    return count, begins


def _check_entry(one: zipfile.ZipInfo) -> None:
    name = one.orig_filename
    if not one.flag_bits & _UTF8 and not name.isascii():
        raise _Wrong(name, codes.FORBIDDEN_FILE, "its name is in no known encoding")
    if one.filename != name:
        raise _Wrong(name, codes.FORBIDDEN_FILE, "its name is written in an unusual way")
    if one.flag_bits & _ENCRYPTED:
        raise _Wrong(name, codes.FORBIDDEN_FILE, "it is encrypted")
    if one.compress_type not in (_STORED, _DEFLATED):
        raise _Wrong(name, codes.FORBIDDEN_FILE, "it is packed in an unusual way", "deflate it")
    mode = one.external_attr >> 16 if one.create_system == _UNIX else 0
    wanted = stat.S_IFDIR if one.is_dir() else stat.S_IFREG
    if stat.S_IFMT(mode) not in (0, wanted) or (one.is_dir() and one.file_size):
        message = "it is neither a file nor a folder"
        raise _Wrong(name, codes.FORBIDDEN_FILE, message, "put the file itself there")
    if one.file_size > MAX_FILE_BYTES:
        raise _Wrong(name, codes.TOO_LARGE, _too_much())
    if one.file_size > max(_SMALL, one.compress_size * _MAX_RATIO):
        raise _Wrong(name, codes.TOO_LARGE, "it unpacks to hundreds of times its size")
    extra = one.extra
    while extra:
        kind, size = struct.unpack_from("<2H", extra) if len(extra) > 3 else (0, len(extra))  # noqa: PLR2004
        if kind in _FORBIDDEN_EXTRAS:
            message = f"it brings {_FORBIDDEN_EXTRAS[kind]} along"
            raise _Wrong(name, codes.FORBIDDEN_FILE, message)
        extra = extra[4 + size :]


def _end_of(content: bytes, one: zipfile.ZipInfo, directory: int) -> int:
    """Return where the file of an entry ends, once its own header says what the directory says."""
    at, name = one.header_offset, one.orig_filename
    if at + _LOCAL.size > directory or content[at : at + 4] != b"PK\3\4":
        raise _broken("it is not where the directory says", name)
    _, _, flags, method, _, _, check, packed, size, long, extra = _LOCAL.unpack_from(content, at)
    begins = at + _LOCAL.size + long + extra
    raw = name.encode("utf-8" if one.flag_bits & _UTF8 else "ascii")
    told = (check, packed, size)
    known = (one.CRC, one.compress_size, one.file_size)
    follows = bool(one.flag_bits & _SIZES_FOLLOW)
    if (
        content[at + _LOCAL.size : at + _LOCAL.size + long] != raw
        or (flags, method) != (one.flag_bits, one.compress_type)
        or told not in ((known, (0, 0, 0)) if follows else (known,))
    ):
        raise _broken("its own header says something else than the directory", name)
    end: int = begins + one.compress_size
    if follows:
        end += 4 if content[end : end + 4] == b"PK\7\x08" else 0
        if content[end : end + _SIGNED] != struct.pack("<3L", *known):
            raise _broken("what follows it says something else than the directory", name)
        end += _SIGNED
    if end > directory:
        raise _broken("it reaches into the directory", name)
    return end


def _file(content: bytes, one: zipfile.ZipInfo) -> Entry:
    """Unpack a file, and no more of it than it says."""
    _, _, _, _, _, _, _, _, _, long, extra = _LOCAL.unpack_from(content, one.header_offset)
    begins = one.header_offset + _LOCAL.size + long + extra
    packed = content[begins : begins + one.compress_size]
    if one.compress_type == _STORED:
        whole = packed
    else:
        reader = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            whole = reader.decompress(packed, one.file_size + 1)
        except zlib.error:
            raise _broken("it is damaged", one.filename) from None
        if not reader.eof or reader.unused_data:
            raise _broken("it does not unpack to what it says", one.filename)
    if len(whole) != one.file_size or zlib.crc32(whole) != one.CRC:
        raise _broken("it does not unpack to what it says", one.filename)
    executable = one.create_system == _UNIX and bool(one.external_attr >> 16 & stat.S_IXUSR)
    return Entry(one.filename, whole, executable)


def _name_problems(paths: Sequence[str]) -> list[_Wrong]:
    """Return the names that cannot all be written, on any system, below one folder."""
    found = []
    for path in paths:
        verdict = check_path(path)
        if verdict.kind != "good":
            found.append(_Wrong(path, codes.FORBIDDEN_FILE, verdict.reason, "rename it"))
    seen = set()
    for path in paths:
        if path in seen:
            found.append(_Wrong(path, codes.FORBIDDEN_FILE, "it is there twice"))
        seen.add(path)
    folders = {path[:at] for path in paths for at, char in enumerate(path) if char == "/"}
    for first, second in collisions([*dict.fromkeys(paths), *folders]):
        found.append(_Wrong(second, codes.FORBIDDEN_FILE, f"some systems take it for {first!r}"))
    return found + [
        _Wrong(path, codes.FORBIDDEN_FILE, "it is a file and a folder")
        for path in sorted(folders.intersection(paths))
    ]


def _too_much() -> str:
    return (
        f"a file of a bundle has {MAX_FILE_BYTES >> 20} MiB at most,"
        f" and all of them {MAX_BYTES >> 20} MiB"
    )


def _broken(message: str, name: str = "") -> _Wrong:
    return _Wrong(name, codes.UNREADABLE, message)


def _as_problems(found: Sequence[_Wrong], shown: str) -> list[Problem]:
    return [
        Problem(f"{shown}/{one.name}" if one.name else shown, 0, 0, one.code, one.message, one.hint)
        for one in found[:_MAX_TOLD]
    ]


def _refused(shown: str, problems: Sequence[Problem]) -> BadBundleError:
    return BadBundleError(f"{shown!r} is not taken", problems=problems)
