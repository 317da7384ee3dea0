"""Frames between our process and those of tools: JSON values, each after its length.

Both sides use it, so it imports nothing beyond the standard library.  Frames travel over streams of
Unix sockets; the first byte of one may carry descriptors along.
"""

from __future__ import annotations

import socket
import struct

# By name, so that a tool which patches the module does not patch this.
from json import JSONEncoder, loads
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = struct.Struct("!I")
"""Before each frame: how many bytes of JSON follow."""

STATUS = struct.Struct("!id")
"""Exit code of a sandbox, negative for a signal, and its processor time."""

ENDED = struct.Struct("!i?")
"""Exit code of a tool process, and whether its sandbox can serve another call."""

NOT_CALLED = 75
"""The exit code of a sandbox that received no call."""

MAX_DESCRIPTORS = 6
"""Those of a new program: life, its three standard streams, the report of its start, and egress."""

_written = JSONEncoder(ensure_ascii=False).encode


def packed(value: Any) -> bytes:
    """Return the frame of a JSON value.

    Half of a surrogate pair, as in the text of an exception, becomes a question mark.
    """
    content = _written(value).encode("utf-8", "replace")
    return HEAD.pack(len(content)) + content


def send(end: socket.socket, value: Any, descriptors: Sequence[int] = ()) -> None:
    """Send a frame, and copies of the descriptors with it."""
    content = packed(value)
    sent = socket.send_fds(end, [content], descriptors) if descriptors else 0
    end.sendall(content[sent:])


def receive(end: socket.socket) -> Any:
    """Wait for a frame; return its value, or None at the end.

    Raises:
        EOFError: where the stream ends within a frame.
    """
    received = receive_with_descriptors(end)
    return received and received[0]


def receive_with_descriptors(end: socket.socket) -> tuple[Any, list[int]] | None:
    """Wait for a frame; return its value and the descriptors that came along, or None at the end.

    Raises:
        EOFError: where the stream ends within a frame.
    """
    head, descriptors, _, _ = socket.recv_fds(end, HEAD.size, MAX_DESCRIPTORS)
    if not head:
        return None
    head += _exactly(end, HEAD.size - len(head))
    return loads(_exactly(end, HEAD.unpack(head)[0])), descriptors


def _exactly(end: socket.socket, size: int) -> bytes:
    chunks, missing = list[bytes](), size
    while missing:
        chunk = end.recv(min(missing, 1 << 20))
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)  # of one, the very same


class Unpacking:
    """Incremental parser of a byte stream into the contents of its frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the frames that are complete with ``chunk``."""
        self._rest += chunk
        frames = []
        start = 0
        while len(self._rest) - start >= HEAD.size:
            end = start + HEAD.size + HEAD.unpack_from(self._rest, start)[0]
            if len(self._rest) < end:
                break
            frames.append(bytes(self._rest[start + HEAD.size : end]))
            start = end
        del self._rest[:start]  # once for all frames: each removal moves the rest
        return frames
