"""Merge, or decide a conflict, and be killed before the n-th change of the disk, for every n.

Run as a program it prints, as JSON, what each next writer found: whether the manifest is the old or
the new one, and whether the folder is that manifest's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from covalt_git.merging import branch_merge, resolving
from covalt_git.merging.merge_conflicts import Choice, Choices
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.merging.merges import TEXT, folder, merge, parted, text
from tests.workspaces.stores import FAST, Layout, open_chats, run_git

BASE: Layout = {
    "a": ("file", TEXT),
    "b": ("file", b"\0"),
    "f": ("file", b"f"),
    "e": ("folder", b""),
}
OURS = BASE | {"a": ("file", text(_1="ours")), "b": ("file", b"\0ours")}
THEIRS: Layout = {
    "a": ("program", text(_7="theirs")),
    "b": ("file", b"\0theirs"),
    "f/g": ("link", b"../a"),
    "n": ("file", b"n"),
}
_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.chmod", "os.link"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def be_killed_before(number: int) -> None:
    """Let this process be killed when it is about to change the disk for the n-th time."""
    changes = 0

    def watch(event: str, args: tuple[object, ...]) -> None:
        nonlocal changes
        opens = event == "open" and isinstance(args[2], int) and args[2] & _WRITING
        if opens or event in _CHANGES:
            changes += 1
            if changes == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def act(chat: ChatStore, action: str) -> None:
    with writing(chat) as writer:
        if action == "merge":
            branch_merge.merge(writer, "idea", Choices(rest="both"))
        else:
            resolving.resolve(writer, "b", Choice("theirs"))


def found(place: Path, old: str | None) -> str:
    """Return what the next writer finds."""
    with ChatStore("c1", place / "chats/c1", FAST) as chat:
        with writing(chat) as writer:
            head = writer.commit_changes()
        files = {path: (mode, oid) for path, (mode, oid) in _listed(chat, str(head)).items()}
        right = files == _listed_folder(chat)
        fsck = run_git(chat.folder / "store.git", "fsck", "--strict", "--no-dangling")
        clean = fsck.returncode == 0 and not (chat.folder / "switch.json").exists()
        made = chat.manifest(str(head)).source
    return f"{'old' if head == old else made} {'right' if right and clean else 'wrong'}"


def _listed(chat: ChatStore, oid: str) -> dict[str, tuple[int, str]]:
    return {path: (state.mode, state.oid) for path, state in chat.files(oid).items()}


def _listed_folder(chat: ChatStore) -> dict[str, tuple[int, str]]:
    with chat.scan_in_memory() as seen:
        changed = chat.tree_changes(chat.state(chat.head()).tree, seen.tree)
    return _listed(chat, str(chat.head())) if not changed and folder(chat) else {}


def main(place: Path, action: str) -> None:
    with open_chats(place / "start").new("c1") as chat:
        parted(chat, BASE, OURS, THEIRS)
        if action == "resolve":
            merge(chat, choices=Choices(rest="both"))
        old = chat.head()
    ends: list[str] = []
    for number in range(1, 1_000):
        copy = Path(shutil.copytree(place / "start", place / str(number), symlinks=True))
        child = os.fork()
        if child == 0:
            with ChatStore("c1", copy / "chats/c1", FAST) as chat:
                be_killed_before(number)
                act(chat, action)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        ends.append(found(copy, old))
        shutil.rmtree(copy)
        if status == 0:
            break
    sys.stdout.write(json.dumps(ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
