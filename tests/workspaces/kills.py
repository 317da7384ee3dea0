"""Processes that are killed: at each change of the disk in turn, or after a block."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.examples import EVERY
from tests.killing import killed_at
from tests.workspaces.stores import fsck, layout_of, open_chats

REPOSITORY = Path(__file__).resolve().parents[2]
State = dict[str, object]


@contextlib.contextmanager
def process(name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run one of the programs of this folder, and kill it after the block."""
    with subprocess.Popen(
        [sys.executable, "-m", f"tests.workspaces.{name}", *arguments],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def seen(chat: ChatStore) -> State:
    """Return everything in which two states of a chat can differ."""
    return {
        "active": chat.active_branch(),
        "branches": {
            branch.name: [
                (one.source, one.subject, one.tree_id) for one in chat.log(branch.manifest_id)
            ]
            for branch in chat.branches()
        },
        "deleted": [one.name for one in branches.deleted(chat)],
        "files": layout_of(chat.workspace),
        "left": sorted({"lock", "lock.next", *(path.name for path in chat.folder.iterdir())}),
    }


def states_after_kills(
    chats: Chats, step: Callable[[ChatStore], object], *, first: int = 1
) -> list[State]:
    """Return what each next writer finds, in copies of c1, last where the step was not killed.

    The ``first`` kill is before that change of the disk, each other one :data:`EVERY` changes later.
    """
    found: list[State] = []
    killed = True
    while killed:
        copy = chats.folder.parent / f"killed-{len(found)}"
        shutil.copytree(chats.folder, copy / "chats", symlinks=True)
        killed = killed_at(first + len(found) * EVERY, partial(_take, copy, step))
        with open_chats(copy).open("c1") as chat:
            with writing(chat, timeout_s=0) as writer:
                writer.commit_changes()
            found.append(seen(chat))
            if len(found) % 3 == 0:  # git takes longer than all the rest
                assert fsck(chat) == ""
        shutil.rmtree(copy)
    return found


def _take(folder: Path, step: Callable[[ChatStore], object]) -> None:
    with open_chats(folder).open("c1") as chat:
        step(chat)
