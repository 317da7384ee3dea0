"""Strict reader of third-party bundles, which accepts only unambiguous ZIP files.

A ZIP describes each file twice: in the central directory and in a local header.  Programs differ in which
one they use, and :mod:`zipfile` silently changes names.  So both descriptions must agree, the files must
follow each other without gaps from the first byte to the directory, names must not change when they are
written, and no file may be larger than declared.  Reading writes no files.

Format: PKWARE's APPNOTE 6.3, sections 4.3.7 (local header), 4.3.12 (directory) and 4.3.16 (its end).
"""

from __future__ import annotations

import contextlib
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
"""Placeholders for numbers that only the fields of ZIP64 can represent."""

_DESCRIPTOR = 12  # size of a data descriptor: the checksum and two sizes

_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13
_SIZES_FOLLOW = 1 << 3
_UTF8 = 1 << 11
_STORED, _DEFLATED = 0, 8
_UNIX = 3
_FORBIDDEN_EXTRAS = {0x0001: "sizes of ZIP64", 0x7075: "another name", 0x6375: "another comment"}

MAX_ARCHIVE = MAX_BYTES + (8 << 20)
"""Maximum size of a bundle file in bytes."""

_MAX_RATIO = 200
_SMALL = 1 << 20
"""Size in bytes up to which any compression ratio is accepted."""

_MAX_REPORTED = 20


class BadBundleError(CovaltError):
    """A bundle that is damaged or ambiguous, or contains files that a toolset may not have."""

    code = "bad_bundle"
    http_status = 422


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a bundle; its path is valid on every operating system."""

    path: str
    content: bytes
    executable: bool


def digest_of_entries(entries: Sequence[Entry]) -> str:
    """Return the digest of a toolset with these files."""
    return digest_of(
        (entry.path, hashlib.sha256(entry.content).hexdigest(), entry.executable)
        for entry in entries
    )


class _Wrong(Exception):  # noqa: N818 - it never leaves this module
    """An error of the archive or of one of its entries."""

    def __init__(self, name: str, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.name, self.code, self.message, self.hint = name, code, message, hint


def read_folder(folder: Path, display_path: str = "") -> list[Entry]:
    """Return the files of a toolset's directory, sorted by path; ``display_path`` is its name in messages.

    Raises:
        BadBundleError: with all problems of the files.
    """
    display_path = display_path or folder.name
    files = read_bundle_files(folder, display_path)
    problems = list(files.problems)
    problems += _as_problems(_name_problems([file.path for file in files.files]), display_path)
    total = sum(file.size for file in files.files)
    if any(file.size > MAX_FILE_BYTES for file in files.files) or total > MAX_BYTES:
        problems += _as_problems([_Wrong("", codes.TOO_LARGE, _too_much())], display_path)
    if problems:
        raise _refused(display_path, problems)
    entries = []
    for file in files.files:
        content = b""
        with contextlib.suppress(OSError):  # it was removed: the hash differs
            content = (folder / file.path).read_bytes()
        # The hashes were made when the folder was listed. Files of two moments would be a version that never existed.
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise BadBundleError(f"{folder / file.path} changes while it is read", hint="try again")
        entries.append(Entry(file.path, content, file.executable))
    return entries


def read_archive(path: Path) -> bytes:
    """Return the bytes of a ZIP, at most one more than the limit, so that :func:`unpack` can refuse it.

    Raises:
        BadBundleError: if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_ARCHIVE + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadBundleError(f"{str(path)!r} cannot be read: {reason}") from None


def unpack(content: bytes, name: str, *, allow_bytecode: bool = False) -> list[Entry]:
    """Return the files of a ZIP, sorted by path; ``name`` is that of the ZIP in messages.

    With ``allow_bytecode``, the caller leaves compiled Python out.

    Raises:
        BadBundleError: with the problems of the ZIP.
    """
    try:
        if len(content) > MAX_ARCHIVE:
            raise _Wrong("", codes.TOO_LARGE, f"it is larger than {MAX_ARCHIVE >> 20} MiB")
        members = _directory(content)
        wrong = _name_problems([member.filename for member in members if not member.is_dir()])
        wrong += [
            _Wrong(member.filename, codes.FORBIDDEN_FILE, BYTECODE, "leave it out")
            for member in members
            if is_bytecode(member.filename.rstrip("/")) and not allow_bytecode
        ]
        if wrong:
            raise _refused(name, _as_problems(wrong, name))
        entries = [_file(content, member) for member in members if not member.is_dir()]
    except _Wrong as wrong:
        raise _refused(name, _as_problems([wrong], name)) from None
    return sorted(entries, key=lambda entry: entry.path)


def _directory(content: bytes) -> list[zipfile.ZipInfo]:
    """Return the entries in the order of their files, after a check that both descriptions agree."""
    count, begins = _end(content)
    try:
        # Its directory only: zipfile reads names that it then changes, so each one is compared below with the bytes
        # of the archive.
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error):
        raise _broken("its directory is damaged") from None
    if len(members) != count:
        raise _broken("its directory has another number of entries than it declares")
    # Before a byte is unpacked: many small entries can declare terabytes together.
    if sum(member.file_size for member in members) > MAX_BYTES:
        raise _Wrong("", codes.TOO_LARGE, _too_much())
    # Without gaps: bytes that no entry has could be another archive, which a more tolerant program would read.
    at = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        _check_entry(member)
        if member.header_offset != at:
            raise _broken("its files overlap or have gaps between them", member.orig_filename)
        at = _end_of(content, member, begins)
    if at != begins:
        raise _broken("it has a gap between its files and its directory")
    return sorted(members, key=lambda member: member.header_offset)


def _end(content: bytes) -> tuple[int, int]:
    """Return the number of entries and the offset of the directory, which must end the archive."""
    at = content.rfind(b"PK\5\6")
    if at < 0 or len(content) - at < _END.size:
        raise _broken("it is not a ZIP file, or is truncated")
    _, disk, first_disk, on_disk, count, size, begins, comment = _END.unpack_from(content, at)
    if disk or first_disk or on_disk != count:
        raise _broken("it is one volume of a split ZIP")
    if _MANY in (on_disk, count) or _FAR in (size, begins):
        raise _broken("it is a ZIP64, which is not supported")
    # A second end record in a comment would lead other programs to another directory.
    if comment or at + _END.size != len(content):
        raise _broken("it has data after its end")
    if begins + size != at:
        raise _broken("it has data before its files or after its directory")
    if count > MAX_FILES:
        message = f"it has {count} files; a bundle may have at most {MAX_FILES}"
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


def _check_entry(member: zipfile.ZipInfo) -> None:
    name = member.orig_filename
    # Without the flag, the encoding is that of the author's system, so the same bytes are different names elsewhere.
    if not member.flag_bits & _UTF8 and not name.isascii():
        raise _Wrong(name, codes.FORBIDDEN_FILE, "its name has an unknown encoding")
    # zipfile cuts a name at a null character: "a.txt\0.py" would be checked under one name and unpacked by others
    # under another.
    if member.filename != name:
        raise _Wrong(name, codes.FORBIDDEN_FILE, "its name contains a null character")
    if member.flag_bits & _ENCRYPTED:
        raise _Wrong(name, codes.FORBIDDEN_FILE, "it is encrypted")
    if member.compress_type not in (_STORED, _DEFLATED):
        message = "its compression method is not supported"
        raise _Wrong(name, codes.FORBIDDEN_FILE, message, "use deflate")
    mode = member.external_attr >> 16 if member.create_system == _UNIX else 0
    expected = stat.S_IFDIR if member.is_dir() else stat.S_IFREG
    # A link is a file with this mode: what is unpacked through it would be written outside of the toolset.
    if stat.S_IFMT(mode) not in (0, expected) or (member.is_dir() and member.file_size):
        message = "it is neither a file nor a folder"
        raise _Wrong(name, codes.FORBIDDEN_FILE, message, "include the file itself")
    if member.file_size > MAX_FILE_BYTES:
        raise _Wrong(name, codes.TOO_LARGE, _too_much())
    # Deflate compresses zeros 1,032 to 1, so 64 KiB could become 64 MiB.
    if member.file_size > max(_SMALL, member.compress_size * _MAX_RATIO):
        message = f"its compression ratio is above {_MAX_RATIO}"
        raise _Wrong(name, codes.TOO_LARGE, message)
    extra = member.extra
    while extra:
        kind, size = struct.unpack_from("<2H", extra) if len(extra) > 3 else (0, len(extra))  # noqa: PLR2004
        # Some programs believe these fields instead of the header, and would unpack another name or size.
        if kind in _FORBIDDEN_EXTRAS:
            message = f"it has an extra field with {_FORBIDDEN_EXTRAS[kind]}"
            raise _Wrong(name, codes.FORBIDDEN_FILE, message)
        extra = extra[4 + size :]


def _end_of(content: bytes, member: zipfile.ZipInfo, directory: int) -> int:
    """Return the offset of the end of a file, after a check that its header agrees with the directory."""
    at, name = member.header_offset, member.orig_filename
    if at + _LOCAL.size > directory or content[at : at + 4] != b"PK\3\4":
        raise _broken("it is not at the offset in the directory", name)
    _, _, flags, method, _, _, check, packed, size, long, extra = _LOCAL.unpack_from(content, at)
    begins = at + _LOCAL.size + long + extra
    raw = name.encode("utf-8" if member.flag_bits & _UTF8 else "ascii")
    header = (check, packed, size)
    declared = (member.CRC, member.compress_size, member.file_size)
    follows = bool(member.flag_bits & _SIZES_FOLLOW)
    if (
        content[at + _LOCAL.size : at + _LOCAL.size + long] != raw
        or (flags, method) != (member.flag_bits, member.compress_type)
        or header not in ((declared, (0, 0, 0)) if follows else (declared,))
    ):
        raise _broken("its header differs from the directory", name)
    end: int = begins + member.compress_size
    if follows:
        # The signature of a data descriptor is optional (APPNOTE 4.3.9.3).
        end += 4 if content[end : end + 4] == b"PK\7\x08" else 0
        if content[end : end + _DESCRIPTOR] != struct.pack("<3L", *declared):
            raise _broken("its data descriptor differs from the directory", name)
        end += _DESCRIPTOR
    if end > directory:
        raise _broken("it overlaps the directory", name)
    return end


def _file(content: bytes, member: zipfile.ZipInfo) -> Entry:
    """Unpack a file up to its declared size."""
    _, _, _, _, _, _, _, _, _, long, extra = _LOCAL.unpack_from(content, member.header_offset)
    begins = member.header_offset + _LOCAL.size + long + extra
    packed = content[begins : begins + member.compress_size]
    if member.compress_type == _STORED:
        data = packed
    else:
        reader = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            # At most one byte more than declared, so that a bomb with a false size costs no memory.
            data = reader.decompress(packed, member.file_size + 1)
        except zlib.error:
            raise _broken("it is damaged", member.filename) from None
        if not reader.eof or reader.unused_data:
            raise _broken("its size or checksum is wrong", member.filename)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise _broken("its size or checksum is wrong", member.filename)
    executable = member.create_system == _UNIX and bool(member.external_attr >> 16 & stat.S_IXUSR)
    return Entry(member.filename, data, executable)


def _name_problems(paths: Sequence[str]) -> list[_Wrong]:
    """Return the problems of names that cannot all exist in one folder on every operating system."""
    problems = []
    for path in paths:
        verdict = check_path(path)
        if verdict.kind != "good":
            problems.append(_Wrong(path, codes.FORBIDDEN_FILE, verdict.reason, "rename it"))
    earlier = set()
    for path in paths:
        if path in earlier:
            problems.append(_Wrong(path, codes.FORBIDDEN_FILE, "it occurs twice"))
        earlier.add(path)
    folders = {path[:at] for path in paths for at, char in enumerate(path) if char == "/"}
    for first, second in collisions([*dict.fromkeys(paths), *folders]):
        message = f"on some systems its name equals {first!r}"
        problems.append(_Wrong(second, codes.FORBIDDEN_FILE, message))
    return problems + [
        _Wrong(path, codes.FORBIDDEN_FILE, "it is a file and a folder")
        for path in sorted(folders.intersection(paths))
    ]


def _too_much() -> str:
    return (
        f"a file of a bundle may have at most {MAX_FILE_BYTES >> 20} MiB,"
        f" and all files together {MAX_BYTES >> 20} MiB"
    )


def _broken(message: str, name: str = "") -> _Wrong:
    return _Wrong(name, codes.UNREADABLE, message)


def _as_problems(errors: Sequence[_Wrong], display_path: str) -> list[Problem]:
    return [
        Problem(
            f"{display_path}/{error.name}" if error.name else display_path,
            0,
            0,
            error.code,
            error.message,
            error.hint,
        )
        for error in errors[:_MAX_REPORTED]
    ]


def _refused(name: str, problems: Sequence[Problem]) -> BadBundleError:
    return BadBundleError(f"{name!r} cannot be imported", problems=problems)
