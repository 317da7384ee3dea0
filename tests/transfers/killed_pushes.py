"""A process that takes in a push in copies of a chat, and is killed at each change of the disk in turn.

``python -m tests.transfers.killed_pushes FOLDER REF OLD NEW`` does with the pack at FOLDER/pack what
:mod:`tests.workspaces.killed_steps` does with its steps; ``-`` as OLD stands for no branch.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from covalt_git.git_store.serving import Command, PushRequest
from covalt_git.transfers import pushing
from covalt_git.workspaces.writing import writing
from tests.workspaces.killed_steps import CHANGES, seen
from tests.workspaces.stores import open_chats


def main(folder: Path, command: Command) -> None:
    """Kill, look, and print, until nothing is left to be killed."""
    for number in itertools.count(1):
        copy = folder / f"killed-{number}"
        shutil.copytree(folder / "chats", copy / "chats", symlinks=True)
        child = os.fork()
        if child == 0:
            take_in(copy, folder / "pack", command, die_at=number)
        _, status = os.waitpid(child, 0)
        with open_chats(copy).open("c1") as chat, writing(chat, timeout_s=0) as writer:
            writer.commit_changes()
            left = sorted(path.name for path in chat.folder.iterdir())
            sys.stdout.write(json.dumps(seen(chat) | {"left": left}) + "\n")
        shutil.rmtree(copy)
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))


def take_in(folder: Path, pack: Path, command: Command, *, die_at: int) -> None:
    """Take in the push, and die at a change of the disk on the way."""
    changes = itertools.count(1)

    def watch(event: str, args: tuple[Any, ...]) -> None:
        writes = (
            event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if (event in CHANGES or writes) and next(changes) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        with open_chats(folder).open("c1") as chat, pack.open("rb") as stream:
            sys.addaudithook(watch)
            report = pushing.push(chat, PushRequest((command,)), stream, timeout_s=0)
        code = 2 if report.refused else 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Command(sys.argv[2], None if sys.argv[3] == "-" else sys.argv[3], sys.argv[4]),
    )
