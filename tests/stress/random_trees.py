"""Random folders, stored and compared with what stock git reads, and brought back elsewhere."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces import branches
from covalt_git.workspaces.writing import writing
from tests.stress.unstorable import BY_GIT, KINDS, MAX_FILE_MB, Entry, verdict_of_git
from tests.stress.unstorable import entry as any_entry
from tests.stress.unstorable import folder as why_not_folder
from tests.stress.unstorable import name as any_name
from tests.workspaces.stores import (
    Layout,
    clear,
    fsck,
    layout_of,
    open_chats,
    put,
    run_git,
    scratch,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.workspaces.chat import ChatStore
    from tests.stress.figures import Proof

PROMISE = (
    "A commit of any folder has the tree that git would write, and a checkout has the same "
    "files byte for byte. Exactly the paths that cannot be stored are reported."
)
COUNT = 10_000
FORMATS = ("sha1", "sha256")
IN_A_CHAT = 250
LEFT_OUT = 0.5
"""The most of what is made that may be unstorable, which else would be all that is proved."""

Tree = dict[str, Entry]


def prove(proof: Proof, count: int, seed: int) -> None:
    """Try ``count`` folders, each made of the one before by some changes, a chat for some hundred.

    Half of the chats are in sha256.
    """
    tried = files = 0
    told: Counter[str] = Counter()
    said: Counter[str] = Counter()
    while tried < count:
        object_format = FORMATS[tried // IN_A_CHAT % len(FORMATS)]
        chance = random.Random(f"{seed} {tried}")
        with scratch() as folder:
            config = WorkspaceConfig(
                durability="fast", object_format=object_format, max_file_mb=MAX_FILE_MB
            )
            chats = open_chats(folder, config)
            made: Tree = {}
            with chats.new("c1") as chat, closing(_Read(chat.store.path)) as read:
                for number in range(tried, min(tried + IN_A_CHAT, count)):
                    _change(chat.workspace, made, chance)
                    refused = _unstorable(proof, chat.workspace, made)
                    wanted: Layout = {
                        path: (it.kind, it.content)
                        for path, it in made.items()
                        if not _is_below(path, refused)
                    }
                    found = _stored(proof, chat, read, object_format)
                    other = _differences(found, wanted)
                    proof.check(not other, f"tree {number} is not what git reads: {other}")
                    _check_told(proof, chat, number, refused)
                    said.update(_said_by_git(proof, refused))
                    if number % 10 == 0 and chat.head():
                        empty, may_be = _folders(chat.workspace, refused)
                        _brought_back(proof, chat, wanted | empty, may_be, number)
                        for path in made.keys() - wanted.keys():
                            del made[path]
                    files += len(wanted)
                    told.update(it.why_not for it in refused.values())
                    proof.progress(number + 1, count)
                _check_accepted(proof, chat)
        tried += IN_A_CHAT
    never = [kind for kind in KINDS if not told[kind]]
    proof.check(count < IN_A_CHAT or not never, f"none of these was tried: {never}")
    proof.check(told.total() < (files + told.total()) * LEFT_OUT, "most of it was unstorable")
    proof.note("folders", count)
    proof.note("files, all stored", files)
    proof.note("paths that cannot be stored, all reported", told.total())
    for kind in KINDS:
        proof.note(f"of them {kind}", told[kind])
    proof.note("of them errors of stock git too", said["error"])
    proof.note("of them warnings of stock git", said["warning"])
    proof.note("folders that git reads differently", 0)


def _unstorable(proof: Proof, folder: Path, made: Tree) -> Tree:
    """Return what was made and cannot be stored; of a folder that cannot, nothing that is in it."""
    refused = {path: it for path, it in made.items() if it.why_not}
    there = set()
    for top, folders, files in os.walk(folder):
        at = Path(top)
        links = {name for name in folders if (at / name).is_symlink()}
        there |= {(at / name).relative_to(folder).as_posix() for name in {*files, *links}}
        for name in set(folders) - links:
            path = (at / name).relative_to(folder).as_posix()
            if why_not := why_not_folder(path):
                refused[path] = Entry("folder", b"", why_not)
    proof.check(there == made.keys(), f"the proof lost count: {there ^ made.keys()}")
    return {
        path: it for path, it in refused.items() if not _is_below(path.rpartition("/")[0], refused)
    }


def _is_below(path: str, refused: Tree) -> bool:
    """Return whether a path, or a folder above it, cannot be stored."""
    while path and path not in refused:
        path = path.rpartition("/")[0]
    return bool(path)


def _check_told(proof: Proof, chat: ChatStore, number: int, refused: Tree) -> None:
    """Check that a scan reports each path that cannot be stored once, and no other path."""
    with chat.scan_in_memory() as seen:
        found = sorted(note.path for note in seen.notes.not_stored)
    wanted = sorted(os.fsencode(path).decode("utf-8", "backslashreplace") for path in refused)
    why = {path: it.why_not for path, it in refused.items()}
    other = sorted((Counter(found) - Counter(wanted)) + (Counter(wanted) - Counter(found)))
    proof.check(not other, f"tree {number}: of {other} it is told otherwise than {why}")


def _said_by_git(proof: Proof, refused: Tree) -> Iterator[str]:
    """Yield what stock git says of what is git's to refuse: it has to say something."""
    for path, it in refused.items():
        if it.why_not in BY_GIT:
            said = verdict_of_git(path, it)
            proof.check(said, f"git has nothing against {path!r}: {it}")
            yield said


def _check_accepted(proof: Proof, chat: ChatStore) -> None:
    """Check that stock git has nothing to say against anything that was stored, for any system."""
    store = chat.folder / "store.git"
    said = fsck(chat)
    proof.check(not said, f"git fsck says: {said}")
    everywhere = ("-c", "core.protectNTFS=true", "-c", "core.protectHFS=true")
    done = run_git(
        store, *everywhere, "read-tree", f"--index-output={chat.folder / 'index'}", "HEAD"
    )
    proof.check(done.returncode == 0, f"git does not take the tree: {done.stderr.decode()}")


def _folders(folder: Path, refused: Tree) -> tuple[Layout, Layout]:
    """Return the empty folders, and those all of whose content cannot be stored: they may be reported as empty."""
    empty, hollow = Layout(), Layout()
    for top, folders, files in os.walk(folder):
        path = Path(top).relative_to(folder).as_posix()
        if path != "." and not _is_below(path, refused):
            (hollow if folders or files else empty)[path] = ("folder", b"")
    return empty, hollow


def _differences(found: Layout, wanted: Layout) -> list[str]:
    return sorted(path for path in found.keys() | wanted if found.get(path) != wanted.get(path))


def _change(folder: Path, made: Tree, chance: random.Random) -> None:
    """Change some paths of a folder, as people and tools do: write, remove, link, make executable."""
    for _ in range(chance.randrange(1, 6)):
        parts = [any_name(chance) for _ in range(chance.choice((1, 1, 2, 2, 3)))]
        path = "/".join(parts)
        target = folder / path
        for length in range(1, len(parts)):
            if made.pop("/".join(parts[:length]), None):
                folder.joinpath(*parts[:length]).unlink()
        if made.pop(path, None):
            target.unlink()
        elif target.is_dir():
            shutil.rmtree(target)
            for one in [one for one in made if one.startswith(f"{path}/")]:
                del made[one]
        kinds = ("file", "program", "link", "folder", "gone", "pipe")
        (kind,) = chance.choices(kinds, (60, 20, 20, 20, 20, 1))
        if kind == "gone":
            continue
        entry = any_entry(chance, path, kind)
        if kind == "pipe":
            target.parent.mkdir(parents=True, exist_ok=True)
            os.mkfifo(target)
        else:
            put(folder, {path: (kind, entry.content)})
        if kind != "folder":
            made[path] = entry


def _stored(proof: Proof, chat: ChatStore, read: _Read, object_format: str) -> Layout:
    """Store a folder and return what stock git reads of it."""
    with writing(chat) as writer:
        head = writer.commit_changes()
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


def _brought_back(
    proof: Proof, chat: ChatStore, before: Layout, may_be: Layout, number: int
) -> None:
    """Check that a checkout elsewhere and back makes the same folder, with some empty ones or without."""
    with writing(chat) as writer:
        name = f"b{number}"
        branches.create(writer, name, chat.head())
        clear(chat.workspace)
        writer.commit_changes()
        writer.checkout(name)
    found = layout_of(chat.workspace)
    other = _differences(found, before | {path: it for path, it in may_be.items() if path in found})
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
