"""The program that compresses for another process: contents come in, their zlib streams go out.

It is run by itself (:mod:`.deflating` starts it) and imports nothing but the standard library, and
isal where it is told the folder of that.  Of contents and streams alike the count comes first, then
every length, then all of them.
"""

from __future__ import annotations

import importlib
import struct
import sys
from typing import Any

_LEVEL = 1


def main() -> None:
    """Serve until nothing comes any more."""
    sys.path += sys.argv[1:]
    library: Any = importlib.import_module("isal.isal_zlib" if sys.argv[1:] else "zlib")
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while head := source.read(4):
        (count,) = struct.unpack("!I", head)
        sizes = struct.unpack(f"!{count}I", source.read(4 * count))
        contents = memoryview(source.read(sum(sizes)))  # all of it, so that nobody waits to send it
        streams, at = [], 0
        for size in sizes:
            streams.append(library.compress(contents[at : at + size], _LEVEL))
            at += size
        target.write(struct.pack(f"!{count}I", *map(len, streams)) + b"".join(streams))
        target.flush()


if __name__ == "__main__":
    main()
