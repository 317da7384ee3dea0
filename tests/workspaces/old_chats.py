"""Chats as version 0.1 left them on the disk: ``python -m tests.workspaces.old_chats write`` made them.

Each is a ``.tar.gz`` in ``fixtures/chats-0.1``, with what has to be found in it in ``expected.json``: the
branches, the active one, deleted branches, pending calls and approvals, and the files of the folder.  The
program is kept to say how they came about; what it writes today is of today's engine.  ``BOOT`` stands in
a log for the boot id of the machine that opens the chat.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git.conversations import messages
from covalt_git.models.calls import Approval
from covalt_git.models.commit_record import MessageRecord
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.system.boot import boot_id
from covalt_git.workspaces import branches, collecting, commits
from covalt_git.workspaces.writing import writing
from tests.workspaces.killed_steps import CHANGES
from tests.workspaces.stores import (
    DIGEST,
    branch_off,
    call_record,
    git,
    layout_of,
    open_chats,
    pending_call,
    save,
)

if TYPE_CHECKING:
    from covalt_git.workspaces.chat import ChatStore

FOLDER = Path(__file__).parents[2] / "fixtures/chats-0.1"
DURABLE = WorkspaceConfig()
A_BOOT = b"BOOT" * 9  # as long as a boot id


def edit(chat: ChatStore, path: str, content: str) -> str:
    """Write a file in the folder and commit it."""
    (chat.workspace / path).parent.mkdir(parents=True, exist_ok=True)
    (chat.workspace / path).write_text(content, encoding="utf-8")
    return save(chat)


def log_of_this_boot(chat: ChatStore) -> None:
    """Leave commits in the log that were stored as well."""
    for number in range(3):
        edit(chat, "a.txt", f"{number}\n")


def power_cut(chat: ChatStore) -> None:
    """Leave commits in the log whose packs and refs a power cut emptied."""
    store = chat.store.path
    edit(chat, "a.txt", "first\n")
    with tempfile.TemporaryDirectory() as folder:
        flushed = Path(folder) / "flushed"
        chat.store.combine(most=0)  # it empties the log
        shutil.copytree(store, flushed)
        for number in range(3):
            edit(chat, "a.txt", f"{number}\n")
        cut_off(store, flushed, lambda path: "empty" if "pack" in path else "missing")


def cut_off(store: Path, flushed: Path, state_of: Callable[[str], str]) -> None:
    """Leave of a store what was ``flushed``, its log, and of each other file what ``state_of`` says.

    ``flushed`` is a copy of it from when its log was empty.
    """
    for path in sorted(store.rglob("*")):
        before = flushed / path.relative_to(store)
        if path.name == "wal" or not path.is_file():
            continue
        content = path.read_bytes()
        if before.exists() and before.read_bytes() == content:
            continue
        state = state_of(str(path.relative_to(store)))
        if state == "missing":
            path.unlink()
            if before.exists():
                shutil.copy2(before, path)
        elif state != "whole":
            path.chmod(0o644)
            path.write_bytes(bytes(len(content)) if state == "zeros" else b"")
    for before in flushed.rglob("*"):
        path = store / before.relative_to(flushed)
        if before.is_file() and not path.exists():  # its removal was not flushed either
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(before, path)
    for folder in (path for path in store.rglob("*") if path.is_dir()):
        os.utime(folder, (0, 0))  # what came into it last is not in it
    log = store / "wal"
    log.write_bytes(log.read_bytes().replace(boot_id().encode(), b"0" * 36))


def torn_record(chat: ChatStore) -> None:
    """Leave a log whose last record a power cut interrupted, so that it was never acknowledged."""
    edit(chat, "a.txt", "first\n")
    log = chat.store.path / "wal"
    record = log.read_bytes().rstrip(b"\0")
    log.write_bytes(record + record[: len(record) // 2])


def pending(chat: ChatStore) -> None:
    """Leave a call that waits for approval, both as notes that are tag objects."""
    edit(chat, "a.txt", "one\n")
    call = pending_call(chat, status="pending", id="01900000-0000-7000-8000-000000000001")
    call = call.model_copy(update={"execution_id": "01900000-0000-7000-8000-000000000002"})
    approval = Approval(
        execution_id=str(call.execution_id),
        call_id=call.id,
        chat_id=chat.id,
        branch=call.branch,
        tool_id=call.tool_id,
        args=call.args,
        args_digest=DIGEST,
        definition_digest=DIGEST,
        by="local",
        base=call.base,
        created_at=commits.now(),
        expires_at="2126-01-01T00:00:00.000Z",
    )
    with writing(chat) as writer:
        writer.put_call(call)
        writer.put_approval(approval)


def running(chat: ChatStore) -> None:
    """Leave a call that ran when its process was killed."""
    edit(chat, "a.txt", "one\n")
    with writing(chat) as writer:
        writer.put_call(pending_call(chat, id="01900000-0000-7000-8000-000000000003"))


def switching(chat: ChatStore) -> None:
    """Leave a switch of branches in the middle: its process was killed at a change of the disk."""
    edit(chat, "a.txt", "one\n")
    branch_off(chat, "other")
    for number in range(5):
        edit(chat, f"f{number}.txt", f"{number}\n")
    child = os.fork()
    if child == 0:
        _switch_until_killed(chat)
    os.waitpid(child, 0)
    assert (chat.folder / "switch.json").exists()


def _switch_until_killed(chat: ChatStore) -> None:
    changes = itertools.count(1)

    def watch(event: str, _: tuple[Any, ...]) -> None:
        if (chat.folder / "switch.json").exists() and event in CHANGES and next(changes) == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    try:
        with writing(chat) as writer:
            writer.checkout("main")
    finally:
        os._exit(0)


def renamed_and_deleted(chat: ChatStore) -> None:
    """Rename a branch, and delete one that has commits of its own."""
    edit(chat, "a.txt", "one\n")
    branch_off(chat, "gone")
    edit(chat, "gone.txt", "gone\n")
    with writing(chat) as writer:
        writer.checkout("main")
        branches.delete(writer, "gone", force=True)
        branches.rename(writer, "main", "trunk")


def large_records(chat: ChatStore) -> None:
    """Make a call with a large result, and a long message."""
    edit(chat, "a.txt", "one\n")
    with writing(chat) as writer:
        call = pending_call(chat)
        writer.put_call(call)
        writer.finish_call(
            call, call_record(result="a long text " * 20_000), snapshot=writer.scan()
        )
        messages.add(writer, MessageRecord(role="user", text="long " * 30_000))


def loose_objects(chat: ChatStore) -> None:
    """Let stock git unpack everything."""
    edit(chat, "a.txt", "one\n")
    edit(chat, "a.txt", "two\n")
    chat.store.combine(most=0)
    store = chat.store.path
    for pack in [*(store / "objects/pack").glob("*.pack")]:
        content = pack.read_bytes()
        pack.unlink()
        pack.with_suffix(".idx").unlink()
        git(store, "unpack-objects", "-q", given=content)


def gc_by_git(chat: ChatStore) -> None:
    """Let stock git collect the garbage, which packs the refs."""
    branch_off_twice(chat)
    chat.store.combine(most=0)
    git(chat.store.path, "gc", "-q", "--prune=now")


def gc_by_us(chat: ChatStore) -> None:
    """Collect the garbage as ``chat gc --now`` does."""
    branch_off_twice(chat)
    with writing(chat) as writer:
        collecting.collect(writer, everything=True)


def branch_off_twice(chat: ChatStore) -> None:
    """Make two branches with a commit each."""
    edit(chat, "a.txt", "one\n")
    for name in ("b1", "b2"):
        branch_off(chat, name)
        edit(chat, f"{name}.txt", name)


def many_commits(chat: ChatStore) -> None:
    """Make 3,000 commits."""
    for number in range(3000):
        edit(chat, f"f{number % 7}.txt", f"{number}\n")


CHATS: dict[str, Callable[[ChatStore], None]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        *(log_of_this_boot, power_cut, torn_record, pending, running, switching),
        *(renamed_and_deleted, large_records, loose_objects, gc_by_git, gc_by_us, many_commits),
    )
}
SHA256 = "sha256"
NAMES = (*CHATS, SHA256)


def seen(chat: ChatStore) -> dict[str, Any]:
    """Return what has to be in a chat."""
    return {
        "active": chat.active_branch(),
        "branches": {one.name: one.manifest_id for one in chat.branches()},
        "commits": len(
            {one.id for branch in chat.branches() for one in chat.log(branch.manifest_id)}
        ),
        "deleted": [one.name for one in branches.deleted(chat)],
        "calls": [one.id for one in chat.calls()],
        "approvals": [one.execution_id for one in chat.approvals()],
        "files": {
            path: text.decode() for path, (_, text) in sorted(layout_of(chat.workspace).items())
        },
    }


def unpack(name: str, folder: Path, boot: str) -> None:
    """Put a chat below ``folder``, as it was on a machine that was started as this one."""
    with tarfile.open(FOLDER / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    for log in folder.rglob("wal"):
        log.write_bytes(log.read_bytes().replace(A_BOOT, boot.encode()))


def write(boot: str) -> None:
    """Make the chats, and look at what a copy of each has once it was opened."""
    FOLDER.mkdir(exist_ok=True)
    expected = {}
    for name in NAMES:
        with tempfile.TemporaryDirectory() as place:
            config = DURABLE.model_copy(
                update={"object_format": "sha256" if name == SHA256 else "sha1"}
            )
            folder = Path(place) / "made"
            with open_chats(folder, config).new("c1") as chat:
                CHATS.get(name, branch_off_twice)(chat)
            for log in folder.rglob("wal"):
                log.write_bytes(log.read_bytes().replace(boot.encode(), A_BOOT))
            _pack(folder / "chats", FOLDER / f"{name}.tar.gz")
            unpack(name, Path(place) / "copy", boot)
            with open_chats(Path(place) / "copy", config).open("c1") as chat:
                with writing(chat):
                    pass
                expected[name] = seen(chat)
    text = json.dumps(expected, indent=1, sort_keys=True)
    (FOLDER / "expected.json").write_text(f"{text}\n", encoding="utf-8")


def _pack(chats: Path, archive: Path) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as made:
        made.add(chats, "chats")
    archive.write_bytes(content.getvalue())


if __name__ == "__main__":
    write(sys.argv[1])
