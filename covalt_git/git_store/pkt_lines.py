"""Pkt-lines: how git's programs talk to each other, a line at a time with its length before it.

Format: ``gitprotocol-common(5)``; side bands: ``gitprotocol-pack(5)``, "Packfile Data".
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterator

FLUSH = b"0000"
DELIMITER = b"0001"

PACK_BAND = 1
TOLD_BAND = 2
"""What is said in this band stands before the person who runs git, each line after ``remote:``."""
FATAL_BAND = 3

_LENGTH = 4
_LONGEST = 65_520
_LONGEST_IN_BAND = _LONGEST - _LENGTH - 1
_HEX = frozenset(b"0123456789abcdefABCDEF")


class BadRequestError(CovaltError):
    """A request that is not as git makes them, or one that was cut off."""

    code = "bad_git_request"


class Stream(Protocol):
    """What a request's body is read from."""

    def read(self, size: int = ..., /) -> bytes:
        """Return at most ``size`` bytes, none at the end."""


class Mark(Enum):
    """What stands between lines."""

    FLUSH = 0
    DELIMITER = 1
    RESPONSE_END = 2


def line(content: str | bytes) -> bytes:
    """Return one pkt-line; its content ends in a newline where it is text."""
    raw = content.encode() if isinstance(content, str) else content
    return b"%04x%s" % (len(raw) + _LENGTH, raw)


def in_band(band: int, content: bytes) -> Iterator[bytes]:
    """Yield pkt-lines that carry ``content`` in one of the side bands."""
    for at in range(0, len(content), _LONGEST_IN_BAND):
        yield line(bytes([band]) + content[at : at + _LONGEST_IN_BAND])


def read(stream: Stream) -> bytes | Mark | None:
    """Return the next line without its newline, or what stands between lines; None at the end.

    Raises:
        BadRequestError: when it is none, or is cut off.
    """
    start = read_exactly(stream, _LENGTH, or_nothing=True)
    if not start:
        return None
    if not _HEX.issuperset(start):
        raise BadRequestError("the request holds what is no pkt-line")
    length = int(start, 16)
    if length < _LENGTH:
        try:
            return Mark(length)
        except ValueError:
            raise BadRequestError("the request holds what is no pkt-line") from None
    return read_exactly(stream, length - _LENGTH).removesuffix(b"\n")


def read_section(stream: Stream) -> Iterator[bytes]:
    """Yield the lines up to the next mark.

    Raises:
        BadRequestError: when something else is there, or none.
    """
    while isinstance(found := read(stream), bytes):
        yield found
    if found is None:
        raise BadRequestError("the request is cut off")


def read_exactly(stream: Stream, size: int, *, or_nothing: bool = False) -> bytes:
    """Return ``size`` bytes, or at the end of the stream none where that is allowed.

    Raises:
        BadRequestError: when there are fewer.
    """
    parts: list[bytes] = []
    missing = size
    while missing and (part := stream.read(missing)):
        parts.append(part)
        missing -= len(part)
    found = b"".join(parts)
    if missing and not (or_nothing and not found):
        raise BadRequestError("the request is cut off")
    return found
