"""A process that changes a chat and says so, a line for each manifest, only once it is made.

``python busy_writer.py FOLDER SEED STEPS`` works on the chat c1 of the project data in FOLDER.
"""

import random
import sys
from pathlib import Path

from covalt_git.file_edits import uploads
from covalt_git.file_edits.uploads import NewFile
from covalt_git.models.commit_record import MessageRecord
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.names import new_id
from covalt_git.workspaces import branches
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import FAST, call_record, open_chats, pending_call


def main(folder: Path, seed: int, steps: int, config: WorkspaceConfig = FAST) -> None:
    """Take so many random steps, each under the lock."""
    chance = random.Random(seed)
    with open_chats(folder, config).open("c1") as chat:
        for _ in range(steps):
            with writing(chat, timeout_s=60) as writer:
                manifest_id = chance.choice([add_files, go, talk, call])(writer, chance)
            say(str(manifest_id))


def say(line: str) -> None:
    """Report to the parent process, without buffering."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def add_files(writer: Writer, chance: random.Random) -> str | None:
    """Upload some files, a large one among them."""
    names = [f"d{chance.randrange(3)}-{chance.randrange(9)}.txt" for _ in range(4)]
    large = chance.randbytes(200_000)
    uploads.upload(writer, [NewFile(name, new_id().encode()) for name in names])
    uploads.upload(writer, [NewFile("large.bin", large)], folder=f"sub/{chance.randrange(3)}")
    return writer.chat.head()


def go(writer: Writer, chance: random.Random) -> str | None:
    """Go to another branch, or make one and go there, its files quite others."""
    names = [branch.name for branch in writer.chat.branches()]
    if len(names) < 4 and writer.chat.head() is not None:
        name = f"b{len(names)}"
        branches.create(writer, name, writer.chat.head())
        names.append(name)
    writer.checkout(chance.choice(names))
    return writer.chat.head()


def talk(writer: Writer, chance: random.Random) -> str:
    """Make a manifest of a long message, whose text is stored next to the commit."""
    writer.commit_changes()
    message = MessageRecord(role="user", text=chance.choice("abc") * 20_000 + new_id())
    return writer.commit("message", writer.scan(), subject="a message", message=message)


def call(writer: Writer, _: random.Random) -> str:
    """Make a call that writes and removes files, as a tool would."""
    base = writer.commit_changes()
    running = pending_call(writer.chat, base=base)
    writer.put_call(running)
    for path in sorted(writer.chat.workspace.glob("d1-*"))[:2]:
        path.unlink()
    (writer.chat.workspace / "made-by-call").write_text(running.id)
    return writer.finish_call(running, call_record(), snapshot=writer.scan())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
