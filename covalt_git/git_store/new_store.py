"""A store as it begins: written as plain files, since nobody sees it before its folder has its name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from covalt_git.git_store.compression import deflate
from covalt_git.git_store.objects import header, object_id
from covalt_git.git_store.ref_files import write_new

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONFIG = """\
[core]
\trepositoryformatversion = {version}
\tfilemode = true
\tbare = true
\thooksPath = /dev/null
\tlogAllRefUpdates = false
[gc]
\tauto = 0
[receive]
\tfsckObjects = true
"""
CONFIGS = {
    "sha1": _CONFIG.format(version=0),
    "sha256": _CONFIG.format(version=1) + "[extensions]\n\tobjectFormat = sha256\n",
}
"""What the configuration says of a store of either hash; hooks are off: git runs nothing of a chat."""

_ROOM = (4 << 10) - 11
"""Bytes of content for which a block of a disk has room, beside what a stream begins and ends with."""


def make_store(
    path: str,
    object_format: str,
    *,
    objects: Iterable[tuple[bytes, bytes, str]] = (),
) -> None:
    """Make a bare repository at ``path``, its HEAD on the unborn branch main; nothing of it is flushed.

    ``objects`` are kinds and contents, each with the ref that is at it.
    """
    files = {"config": CONFIGS[object_format].encode(), "HEAD": b"ref: refs/heads/main\n"}
    loose = {}
    for kind, content, ref in objects:
        oid = object_id(kind, content, object_format)
        loose[f"objects/{oid[:2]}/{oid[2:]}"] = loose_stream(kind, content)
        files[ref] = f"{oid}\n".encode()
    folders = {name.rpartition("/")[0] for name in (*files, *loose)}
    for folder in sorted({"", "objects", "refs"} | folders):
        os.mkdir(f"{path}/{folder}")  # noqa: PTH102 - new chats are to be there at once
    for name, content in files.items():
        write_new(f"{path}/{name}", content)
    for name, content in loose.items():
        write_new(f"{path}/{name}", content, mode=0o444)


def loose_stream(kind: bytes, content: bytes) -> bytes:
    """Return what the file of a loose object holds; one that takes no more of a disk so is not compressed."""
    whole = header(kind, content) + content
    return deflate(whole, in_haste=len(whole) <= _ROOM)
