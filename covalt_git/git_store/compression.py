"""zlib streams as git stores them, made and read by isal where it is installed.

The format is the same, so a store does not show which of the two wrote it: ``pip install isal``
makes reading about twice and writing several times as fast.
"""

from __future__ import annotations

import importlib
import struct
import zlib
from pathlib import Path
from typing import Any

from covalt_git.git_store.objects import DamagedObjectError

_LEVEL = 1  # both: level 6 takes a third longer for a twentieth less
_LONGEST_BLOCK = 0xFFFF  # bytes that one block may store
_PIECE = 1 << 18
"""Bytes that are compressed at once: what a stream grows in is not asked of the system anew."""


def _library() -> tuple[Any, type[Exception]]:
    try:
        isal: Any = importlib.import_module("isal.isal_zlib")
    except ImportError:
        return zlib, zlib.error
    return isal, isal.error


_ZLIB, _ERROR = _library()

ISAL_FOLDER = "" if _ZLIB is zlib else str(Path(_ZLIB.__file__).parents[1])
"""The folder that isal is imported from; nothing where it is not here."""


def deflate(content: bytes, *, before: bytes = b"", in_haste: bool = False) -> bytes:
    """Return the content as a zlib stream; ``in_haste`` one that is larger, and made in no time.

    What is to stand ``before`` it is returned with it.
    """
    if in_haste and len(content) <= _LONGEST_BLOCK:
        return before + _stored(content)
    level = 0 if in_haste else _LEVEL
    if len(content) <= _PIECE:
        return before + bytes(_ZLIB.compress(content, level))
    writer, whole = _ZLIB.compressobj(level), memoryview(content)
    pieces = (whole[at : at + _PIECE] for at in range(0, len(content), _PIECE))
    return b"".join([before, *map(writer.compress, pieces), writer.flush()])


def crc32(content: bytes) -> int:
    """Return the CRC-32 of some bytes."""
    check: int = _ZLIB.crc32(content)
    return check


def _stored(content: bytes) -> bytes:
    """Return a stream of one block that is stored as it is (RFC 1950 and 1951, 3.2.4).

    zlib, at level 0, takes forty times as long to get ready for it.
    """
    block = struct.pack("<BHH", 1, len(content), len(content) ^ _LONGEST_BLOCK) + content
    return b"\x78\x01" + block + zlib.adler32(content).to_bytes(4)


def inflate(stream: bytes | memoryview, size: int) -> bytes:
    """Return the ``size`` bytes that a stream holds; more may follow the stream.

    Raises:
        DamagedObjectError: when it is no stream of that many bytes, or one that is cut off.
    """
    reader = _ZLIB.decompressobj()
    try:
        content: bytes = reader.decompress(stream, size + 1)
    except _ERROR as error:
        raise DamagedObjectError(str(error)) from None
    if not reader.eof or len(content) != size:
        raise DamagedObjectError(f"it does not hold {size} bytes")
    return content


def inflate_within(stream: memoryview, start: int, size: int) -> tuple[bytes, int]:
    """Return the ``size`` bytes that the stream beginning at ``start`` holds, and where it ends.

    Raises:
        DamagedObjectError: when it is no stream of that many bytes, or one that is cut off.
    """
    reader = _ZLIB.decompressobj()
    parts: list[bytes] = []
    left, at = size + 1, start
    # zlib never makes more of a content than this; what another program made may be longer.
    near = size + (size >> 10) + 64
    try:
        while not reader.eof and left > 0:
            with stream[at : at + near] as piece:
                if not piece:
                    raise DamagedObjectError("it is cut off")
                parts.append(reader.decompress(piece, left))
                at += len(piece)
            left -= len(parts[-1])
    except _ERROR as error:
        raise DamagedObjectError(str(error)) from None
    if left != 1:
        raise DamagedObjectError(f"it does not hold {size} bytes")
    return b"".join(parts), at - len(reader.unused_data)


def inflate_start(stream: bytes, most: int) -> bytes:
    """Return the first bytes that a stream holds, at most ``most`` of them.

    Raises:
        DamagedObjectError: when it is no stream.
    """
    try:
        start: bytes = _ZLIB.decompressobj().decompress(stream, most)
    except _ERROR as error:
        raise DamagedObjectError(str(error)) from None
    return start
