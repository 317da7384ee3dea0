"""One step on a chat in a process of its own, for :mod:`tests.stress.failing_disk`: ``FOLDER STEP``.

It says that it starts, and then what it made, each once that is so.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from covalt_git.conversations import messages
from covalt_git.conversations.commit_names import resolve
from covalt_git.file_edits import restoring
from covalt_git.git_store import repacking
from covalt_git.merging import branch_merge
from covalt_git.merging.merge_conflicts import Choice
from covalt_git.models.commit_record import MessageRecord
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.names import new_id
from covalt_git.workspaces import branches, collecting
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import call_record, open_chats, pending_call

STARTED = b"the step starts\n"


def snapshot(writer: Writer) -> str | None:
    """Save what was edited in the folder."""
    return writer.commit_changes()


def call(writer: Writer) -> str:
    """Make a call that changes files, and whose result is stored next to its commit."""
    running = pending_call(writer.chat, base=writer.commit_changes())
    writer.put_call(running)
    (writer.chat.workspace / "made-by-call").write_text(running.id)
    (writer.chat.workspace / "both").unlink()
    record = call_record(result="a long text " * 3000)
    return writer.finish_call(running, record, snapshot=writer.scan())


def checkout(writer: Writer) -> str | None:
    """Bring the folder to the other branch."""
    writer.checkout("other")
    return writer.chat.head()


def merge(writer: Writer) -> str | None:
    """Merge the other branch, its version winning where both changed the same."""
    branch_merge.merge(writer, "other", {None: Choice("theirs")})
    return writer.chat.head()


def restore(writer: Writer) -> str | None:
    """Bring all files back to what they are on the other branch."""
    restoring.restore(writer, resolve(writer.chat, "other"), ())
    return writer.chat.head()


def retry(writer: Writer) -> str | None:
    """Add a message to the other branch, and go back to before it on a branch of its own."""
    message = MessageRecord(role="user", text="make it better")
    messages.add(writer, message, parent=None, branch=None)
    return messages.retry(writer, None, branch=None).manifest_id


def collect(writer: Writer) -> str | None:
    """Delete the unreachable objects, of which there are some, and repack the rest."""
    collecting.collect(writer, everything=True)
    return writer.chat.head()


def branch(writer: Writer) -> str | None:
    """Make a branch."""
    branches.create(writer, f"b{new_id()}", writer.chat.head())
    return writer.chat.head()


def pack(writer: Writer) -> str | None:
    """Combine the small packs into one."""
    repacking.combine(writer.chat.store, most=0)
    return writer.chat.head()


STEPS: dict[str, Callable[[Writer], str | None]] = {
    step.__name__: step
    for step in (snapshot, call, checkout, merge, restore, retry, branch, pack, collect)
}


def main(folder: Path, step: str) -> None:
    """Do one step under the chat's lock."""
    with open_chats(folder, WorkspaceConfig()).open("c1") as chat:
        os.write(2, STARTED)
        with writing(chat) as writer:
            made = STEPS[step](writer)
    os.write(1, f"{made}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
