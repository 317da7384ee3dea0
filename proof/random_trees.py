"""Random folders, stored and compared with what stock git reads, and brought back elsewhere."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.writing import writing
from proof.stores import chats_in, scratch
from tests.workspaces.stores import Layout, layout_of, put

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.git_objects import GitStore
    from covalt_git.workspaces.chats import ChatStore
    from proof.figures import Proof

PROMISE = "What a folder holds is stored as git would store it, read by git as it was, and brought back byte for byte."
COUNT = 10_000
FORMATS = ("sha1", "sha256")
IN_A_CHAT = 250

Tree = dict[str, tuple[str, bytes]]
_NAMES = (
    "a",
    "b",
    "A",
    "read me",
    ".env",
    ".gitignore",
    ".gitattributes",
    "\u00e9",
    "e\u0301",
    "-x",
    "a.b",
    "x" * 200,
)
_CONTENTS = (b"", b"\n", b"* text=auto\n", b"*\n", b"a\r\nb\r\n", b"\0\xff\xfe", b"x" * 5000)


def prove(proof: Proof, count: int, seed: int) -> None:
    """Try ``count`` folders, each made of the one before by some changes, a chat for some hundred.

    Half of the chats are in sha256.
    """
    tried = files = told = 0
    while tried < count:
        object_format = FORMATS[tried // IN_A_CHAT % len(FORMATS)]
        chance = random.Random(f"{seed} {tried}")
        with scratch() as folder:
            config = WorkspaceConfig(durability="fast", object_format=object_format)
            chats = chats_in(folder, config)
            with chats.new("c1") as chat, _objects(chat.store) as read:
                for number in range(tried, min(tried + IN_A_CHAT, count)):
                    _change(chat.workspace, chance)
                    before = layout_of(chat.workspace)
                    found = _stored(proof, chat, read, object_format)
                    refused = _refused(chat)
                    kept = {path: it for path, it in before.items() if path not in refused}
                    wanted = {path: it for path, it in kept.items() if it[0] != "folder"}
                    other = _differences(found, wanted)
                    proof.check(not other, f"tree {number} is not what git reads: {other}")
                    if number % 10 == 0 and chat.head():
                        _brought_back(proof, chat, kept, number)
                    files += len(before)
                    told += len(refused)
                    proof.progress(number + 1, count)
        tried += IN_A_CHAT
    proof.note("folders", count)
    proof.note("files in them", files)
    proof.note("paths that git refuses, each told", told)
    proof.note("folders that git reads otherwise", 0)


def _refused(chat: ChatStore) -> set[str]:
    """Return the paths that are not stored, as a look tells; of a folder, all that is in it."""
    with chat.looking() as seen:
        told = [note.path for note in seen.notes.not_stored]
    layout = layout_of(chat.workspace)
    return {path for path in layout for one in told if f"{path}/".startswith(f"{one}/")}


def _differences(found: Layout, wanted: Layout) -> list[str]:
    return sorted(path for path in found.keys() | wanted if found.get(path) != wanted.get(path))


def _change(folder: Path, chance: random.Random) -> None:
    """Change some paths of a folder, as people and tools do: write, remove, link, make executable."""
    for _ in range(chance.randrange(1, 6)):
        parts = [chance.choice(_NAMES) for _ in range(chance.choice((1, 1, 2, 2, 3)))]
        target = folder.joinpath(*parts)
        for above in reversed(list(target.parents)[: len(parts) - 1]):
            if above.is_symlink() or above.is_file():
                above.unlink()
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        elif os.path.lexists(target):
            target.unlink()
        kind = chance.choice(("file", "file", "file", "program", "link", "folder", "gone"))
        content = (
            chance.choice(_CONTENTS)
            if chance.random() < 0.5
            else chance.randbytes(chance.randrange(3000))
        )
        if kind == "link":
            content = os.fsencode(chance.choice(_NAMES))
        if kind != "gone":
            put(folder, {"/".join(parts): (kind, content)})


def _stored(proof: Proof, chat: ChatStore, read: _Read, object_format: str) -> Layout:
    """Store a folder and return what stock git reads of it."""
    with writing(chat) as writer:
        head = writer.save_edits()
    if head is None:
        return {}
    tree = read(head)[1].partition(b"\n")[0].removeprefix(b"tree ").decode()
    return dict(_walk(proof, read, tree, "", hashlib.new(object_format).digest_size))


def _walk(
    proof: Proof, read: _Read, oid: str, prefix: str, length: int
) -> Iterator[tuple[str, tuple[str, bytes]]]:
    kinds = {b"100644": "file", b"100755": "program", b"120000": "link"}
    content = read(oid)[1]
    while content:
        mode, _, rest = content.partition(b" ")
        name, _, rest = rest.partition(b"\0")
        below, content = rest[:length].hex(), rest[length:]
        path = prefix + os.fsdecode(name)
        if mode == b"40000":
            yield from _walk(proof, read, below, f"{path}/", length)
        else:
            yield path, (kinds[mode], read(below)[1])


def _brought_back(proof: Proof, chat: ChatStore, before: Layout, number: int) -> None:
    """Check that a checkout elsewhere and back makes the same folder."""
    with writing(chat) as writer:
        name = f"b{number}"
        writer.create_branch(name, chat.head())
        for path in list(chat.workspace.iterdir()):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        writer.save_edits()
        writer.checkout(name)
    found = layout_of(chat.workspace)
    other = _differences(found, before)
    proof.check(not other, f"tree {number} came back otherwise: {other}")


class _Read:
    """Reads objects through one ``git cat-file --batch``."""

    def __init__(self, store: Path) -> None:
        self._process = subprocess.Popen(
            ["git", "-C", str(store), "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(self, oid: str) -> tuple[str, bytes]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{oid}\n".encode())
        process.stdin.flush()
        _, kind, size = process.stdout.readline().decode().split()
        content = process.stdout.read(int(size))
        process.stdout.read(1)
        return kind, content

    def close(self) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()


@contextmanager
def _objects(store: GitStore) -> Iterator[_Read]:
    read = _Read(store.path)
    try:
        yield read
    finally:
        read.close()
