"""Bundles of attackers, broken bundles, and unusual bundles that are fine.

They are put together header by header, since no library writes most of them.
"""

import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

MANIFEST = b'id: demo\nname: Demo\nversion: "1"\ntools:\n  - {id: run, entrypoint: "tools.a:run"}\n'
TOOL = b'def run() -> str:\n    """Run."""\n    return "x"\n'


@dataclass(frozen=True)
class File:
    """A file with the fields of its two headers; fields that start with ``local_`` are only in the local one."""

    name: bytes
    content: bytes = b"x"
    mode: int = stat.S_IFREG | 0o644
    method: int = 8
    flags: int = 1 << 11
    size: int | None = None
    check: int | None = None
    extra: bytes = b""
    system: int = 3
    packed: bytes | None = None
    local_name: bytes | None = None
    local_size: int | None = None
    local_flags: int | None = None
    offset: int | None = None
    follows: bytes = b""

    def stream(self) -> bytes:
        if self.packed is not None:
            return self.packed
        if self.method != 8:
            return self.content
        packer = zlib.compressobj(9, wbits=-15)
        return packer.compress(self.content) + packer.flush()


GOOD = (File(b"toolset.yaml", MANIFEST), File(b"tools/a.py", TOOL))


def archive(
    files: tuple[File, ...],
    *,
    before: bytes = b"",
    between: bytes = b"",
    after: bytes = b"",
    comment: bytes = b"",
    count: int | None = None,
    disk: int = 0,
    shift: int = 0,
) -> bytes:
    """Return a ZIP of the files, however wrong they are."""
    out, directory = bytearray(before), bytearray()
    for file in files:
        stream, check = file.stream(), zlib.crc32(file.content)
        size = len(file.content) if file.size is None else file.size
        check = check if file.check is None else file.check
        flags = file.flags if file.local_flags is None else file.local_flags
        known = (check, len(stream), size if file.local_size is None else file.local_size)
        if flags & 8:
            known = (0, 0, 0)
        name = file.name if file.local_name is None else file.local_name
        at = len(out) - shift if file.offset is None else file.offset
        out += struct.pack(
            "<4s5H3L2H", b"PK\3\4", 20, flags, file.method, 0, 33, *known, len(name), 0
        )
        out += name + stream + file.follows
        directory += struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", file.system << 8 | 20, 20, file.flags, file.method, 0, 33,
            check, len(stream), size, len(file.name), len(file.extra), 0, 0, 0, file.mode << 16, at,
        )  # fmt: skip
        directory += file.name + file.extra
    out += between
    begins, told = len(out) - shift, len(files) if count is None else count
    out += directory
    out += struct.pack(
        "<4s4H2LH", b"PK\5\6", disk, disk, told, told, len(directory), begins, len(comment)
    )
    return bytes(out) + comment + after


def with_name(name: bytes | str) -> bytes:
    raw = name.encode() if isinstance(name, str) else name
    return archive((*GOOD, File(raw)))


_TABLES = yaml.load(
    Path(__file__).with_name("hostile_names.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
GOOD_NAMES: list[str] = [name for row in _TABLES.pop("good") for name in row]
PAIRS: list[list[str]] = _TABLES.pop("pairs")
NAMES: dict[str, list[bytes | str]] = {
    kind: [name for row in rows for name in row] for kind, rows in _TABLES.items()
}

MODES = {
    "link": stat.S_IFLNK | 0o777,
    "fifo": stat.S_IFIFO | 0o644,
    "socket": stat.S_IFSOCK | 0o644,
    "device": stat.S_IFCHR | 0o644,
    "disk": stat.S_IFBLK | 0o644,
    "folder": stat.S_IFDIR | 0o755,
    "odd": 0o170000,
}


def structures() -> Iterator[tuple[str, bytes]]:
    """Yield archives that two programs would read in two ways, or that are broken."""
    first, second = GOOD
    whole = archive(GOOD)
    yield "other-name-inside", archive((first, replace(second, local_name=b"tools/b.py")))
    yield "longer-name-inside", archive((first, replace(second, local_name=b"tools/../a.py")))
    yield "other-size-inside", archive((first, replace(second, local_size=3)))
    yield "other-flags-inside", archive((first, replace(second, local_flags=0)))
    yield "something-before", archive(GOOD, before=b"#!/bin/sh\n")
    yield "something-before-and-counted", archive(GOOD, before=b"#!/bin/sh\n", shift=10)
    yield "a-page-before", archive(GOOD, before=b"<html>" * 50)
    yield "something-between", archive(GOOD, between=b"hidden")
    yield "something-between-files", archive((replace(first, follows=b"hidden"), second))
    yield "something-after", archive(GOOD, after=b"x")
    yield "two-of-them", whole + archive((File(b"toolset.yaml", b"id: other\n"),))
    yield "one-in-the-comment", archive(GOOD, comment=whole)
    yield "a-comment", archive(GOOD, comment=b"hello")
    yield "fewer-than-there-are", archive(GOOD, count=1)
    yield "more-than-there-are", archive(GOOD, count=3)
    yield "part-of-several", archive(GOOD, disk=1)
    yield "same-place-twice", archive((first, replace(second, offset=0)))
    yield "far-away", archive((first, replace(second, offset=1 << 31)))
    yield "in-the-directory", archive((first, replace(second, offset=len(whole) - 40)))
    for at in range(1, len(whole), max(1, len(whole) // 30)):
        yield f"cut-off-at-{at}", whole[:at]
    yield "empty", b""
    yield "text", b"id: demo\n" * 20
    yield "zip64", archive(GOOD, count=0xFFFF)
    yield "zip64-extra", archive((first, replace(second, extra=struct.pack("<2HQ", 1, 8, 5))))
    name = struct.pack("<2HBL", 0x7075, 15, 1, 0) + b"tools/b.py"
    yield "another-name-beside", archive((first, replace(second, extra=name)))
    for bit in (0, 6, 13):
        yield f"encrypted-{bit}", archive((first, replace(second, flags=1 << 11 | 1 << bit)))
    for method in (*range(1, 8), *range(9, 21), *range(93, 100)):
        yield f"method-{method}", archive((first, replace(second, method=method)))
    yield "wrong-check", archive((first, replace(second, check=1)))
    yield "no-deflate", archive((first, replace(second, packed=b"\xff\xff\xff")))
    yield "more-behind-the-stream", archive((first, replace(second, packed=second.stream() + b"x")))
    yield "cut-off-stream", archive((first, replace(second, packed=second.stream()[:-3])))
    yield "nothing-follows", archive((first, replace(second, flags=1 << 11 | 8)))
    for mode, number in MODES.items():
        yield f"mode-{mode}", archive((first, replace(second, mode=number)))
        yield f"manifest-mode-{mode}", archive((replace(first, mode=number), second))
    yield "folder-with-content", archive((*GOOD, File(b"a/", b"x", mode=MODES["folder"])))


def bombs() -> Iterator[tuple[str, bytes]]:
    """Yield archives that unpack to more than they seem to."""
    first, second = GOOD
    for size in (1 << 23, 1 << 24):
        yield f"ratio-{size}", archive((*GOOD, File(b"a", bytes(size))))
    yield "large-file", archive((*GOOD, File(b"a", bytes((16 << 20) + 1), method=0)))
    yield "says-less", archive((first, replace(second, content=TOOL * 9, size=len(TOOL))))
    yield "says-more", archive((first, replace(second, size=len(TOOL) * 9)))
    yield "says-four-gigabytes", archive((first, replace(second, size=0xFFFFFFF0)))
    yield "many-files", archive((*GOOD, *(File(b"a%d" % one) for one in range(2_000))))
    shared = File(b"a", bytes(1 << 20))
    at = len(archive(GOOD)) - 22 - sum(46 + len(one.name) for one in GOOD)
    same = tuple(replace(shared, name=b"a%d" % one, offset=at) for one in range(50))
    yield "overlap", archive((*GOOD, *same))
    part = File(b"a", bytes(range(256)) * 4096 * 2)
    yield (
        "all-together",
        archive(
            (
                *GOOD,
                *(
                    replace(part, name=b"b%d" % one, method=0, content=part.content * 7)
                    for one in range(5)
                ),
            )
        ),
    )


def manifests() -> Iterator[tuple[str, bytes]]:
    """Yield hostile manifests; ``fixtures/invalid`` has those with mistakes."""
    yield "no-text", b"\xff\xfe\x00"
    yield "empty", b""
    yield "a-tag", MANIFEST + b"description: !!python/object/apply:os.system [id]\n"
    laughs = b"a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"a%d: &a%d [%s]\n" % (one, one, b",".join([b"*a%d" % (one - 1)] * 10))
        for one in range(1, 9)
    )
    yield "laughs", laughs + MANIFEST
    yield "deep", MANIFEST + b"description: " + b"[" * 30_000
    yield "two-documents", MANIFEST + b"---\n" + MANIFEST
    yield "unknown-key", MANIFEST + b"autostart: true\n"
    yield "reserved-id", MANIFEST.replace(b"id: demo", b"id: state")
    yield "bad-id", MANIFEST.replace(b"id: demo", b"id: ../evil")
    yield "entrypoint-outside", MANIFEST.replace(b"tools.a:run", b"..os:system")
    yield "entrypoint-elsewhere", MANIFEST.replace(b"tools.a:run", b"os:system")
    yield "hidden-text", MANIFEST + "description: \u202eevil\n".encode()


FILES: dict[str, bytes] = {
    "json.py": b"raise SystemExit\n",
    "sitecustomize.py": b"",
    "usercustomize.py": b"",
    "evil.pth": b"import os\n",
    "tools/x.pth": b"import os\n",
    "covalt_toolset/__init__.py": b"",
    "tools/b.pyc": b"",
    "tools/__pycache__/a.cpython-311.pyc": b"",
}
"""Files that make a toolset another one than it seems."""


def good() -> Iterator[tuple[str, bytes]]:
    """Yield archives that are unusual, and fine."""
    first, second = GOOD
    yield "plain", archive(GOOD)
    yield "other-order", archive((second, first))
    yield "stored", archive((replace(first, method=0), replace(second, method=0)))
    yield (
        "of-windows",
        archive((replace(first, system=0, mode=0), replace(second, system=0, mode=0))),
    )
    yield "ascii-names", archive((replace(first, flags=0), replace(second, flags=0)))
    yield "executable", archive((first, second, File(b"run.sh", mode=stat.S_IFREG | 0o755)))
    yield "with-folders", archive((first, File(b"tools/", b"", mode=MODES["folder"]), second))
    yield "empty-file", archive((*GOOD, File(b"assets/empty", b"")))
    yield (
        "with-times",
        archive((first, replace(second, extra=struct.pack("<2HBL", 0x5455, 5, 1, 0)))),
    )
    for name in GOOD_NAMES:
        yield f"name-{name[:12]}", with_name(name)
    sized = struct.pack("<3L", zlib.crc32(TOOL), len(second.stream()), len(TOOL))
    told = replace(second, flags=1 << 11 | 8)
    yield "sizes-follow", archive((first, replace(told, follows=sized)))
    yield "sizes-follow-signed", archive((first, replace(told, follows=b"PK\7\x08" + sized)))
    yield "packs-well", archive((*GOOD, File(b"assets/zeros", bytes(1 << 20))))
