"""A process that wants to write to a chat again as soon as it has: ``fair_writer.py FOLDER COUNT``.

It prints ``waiting`` when it waits first, and the id of each commit, whose author is the number of the process.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from covalt_git.models.commit_record import CommitRecord, MessageRecord
from covalt_git.names import new_id
from covalt_git.workspaces import commits
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import open_chats

WAITED = threading.Event()


def report(_: str) -> None:
    """Print once that this process waits."""
    if not WAITED.is_set():
        WAITED.set()
        sys.stdout.write("waiting\n")
        sys.stdout.flush()


if __name__ == "__main__":
    by = f"p{os.getpid()}"
    with open_chats(Path(sys.argv[1])).open("c1") as chat:
        for _ in range(int(sys.argv[2])):
            with writing(chat, by=by, timeout_s=60, waiting=report) as writer:
                message = MessageRecord(role="user", text="hello")
                record = CommitRecord(id=new_id(), at=commits.now(), by=by, message=message)
                made = writer.commit("message", record, writer.scan().tree, subject="hello")
            sys.stdout.write(f"{made}\n")
            sys.stdout.flush()
