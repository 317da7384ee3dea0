"""A process that makes one step in copies of a chat, and is killed at each change of the disk in turn.

``python -m tests.workspaces.killed_steps FOLDER STEP`` copies the project data in FOLDER, makes the
step in a child that dies with SIGKILL at its first change, lets the next writer in, and prints what
is there then, a line of JSON; and so on with the second change, until a child came to its end.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git.conversations import conversation, messages
from covalt_git.file_edits import restoring
from covalt_git.models.commit_record import MessageRecord
from covalt_git.workspaces import branches
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import layout_of, open_chats

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.workspaces.chat import ChatStore

CHANGES = {
    *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink"),
    *("os.chmod", "os.truncate", "os.utime"),
}


def first(writer: Writer) -> conversation.Message:
    """Return the chat's first message."""
    return next(iter(conversation.Conversation.of(writer.chat).messages.values()))


STEPS: dict[str, Callable[[Writer], object]] = {
    "add": lambda writer: messages.add(writer, MessageRecord(role="user", text="new")),
    "add-elsewhere": lambda writer: messages.add(
        writer, MessageRecord(role="user", text="new"), parent=first(writer).id
    ),
    "retry-first": lambda writer: messages.retry(writer, first(writer).id),
    "edit": lambda writer: messages.edit(writer, first(writer).id, text="new"),
    "restore": lambda writer: restoring.restore(writer, first(writer).own_manifest_id),
    "keep-files": lambda writer: restoring.keep_files(writer, first(writer).own_manifest_id),
    "rename-active": lambda writer: branches.rename(writer, "main", "trunk"),
    "rename": lambda writer: branches.rename(writer, "idea", "blue"),
    "delete": lambda writer: branches.delete(writer, "idea", force=True),
}


def main(folder: Path, step: str) -> None:
    """Kill, look, and print, until nothing is left to be killed."""
    for number in itertools.count(1):
        copy = folder / f"killed-{number}"
        shutil.copytree(folder / "chats", copy / "chats", symlinks=True)
        child = os.fork()
        if child == 0:
            make(copy, step, die_at=number)
        _, status = os.waitpid(child, 0)
        with open_chats(copy).open("c1") as chat, writing(chat, timeout_s=0) as writer:
            writer.commit_changes()
            sys.stdout.write(json.dumps(seen(chat)) + "\n")
        shutil.rmtree(copy)
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))


def make(folder: Path, step: str, *, die_at: int) -> None:
    """Make the step, and die at a change of the disk on the way."""
    changes = itertools.count(1)

    def watch(event: str, args: tuple[Any, ...]) -> None:
        writes = (
            event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if (event in CHANGES or writes) and next(changes) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        with open_chats(folder).open("c1") as chat:
            sys.addaudithook(watch)
            with writing(chat, timeout_s=0) as writer:
                STEPS[step](writer)
        code = 0
    finally:
        os._exit(code)


def seen(chat: ChatStore) -> dict[str, object]:
    """Return all that tells two states of a chat apart."""
    return {
        "active": chat.active_branch(),
        "branches": {
            branch.name: [
                [one.source, one.subject, one.tree_id] for one in chat.log(branch.manifest_id)
            ]
            for branch in chat.branches()
        },
        "deleted": [one.name for one in branches.deleted(chat)],
        "files": {
            path: [kind, text.hex()] for path, (kind, text) in layout_of(chat.workspace).items()
        },
        "journals": sorted(path.name for path in chat.folder.glob("*.json")),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
