"""How often a step waits for the disk, and for what: a flush takes as long as much of the rest, or longer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalt_git.git_objects import blob_id
from covalt_git.git_objects.write_ahead import this_boot
from covalt_git.models.commit_record import CommitRecord, MessageRecord
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.names import new_id
from covalt_git.workspaces import commits
from covalt_git.workspaces.uploads import Upload
from covalt_git.workspaces.writing import Writer, writing
from tests.workspaces.stores import call_record, open_chats, pending_call

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(this_boot() is None, reason="nothing tells the boots apart here")


def edit(writer: Writer) -> None:
    (writer.chat.workspace / "edited").write_text(new_id())
    writer.save_edits()


def talk(writer: Writer) -> None:
    record = CommitRecord(
        id=new_id(), at=commits.now(), by="busy", message=MessageRecord(role="user", text="hi")
    )
    writer.commit("message", record, writer.look().tree, subject="a message")


def branch(writer: Writer) -> None:
    writer.create_branch(f"b-{new_id()}", writer.chat.head())


def call(writer: Writer) -> None:
    running = pending_call(writer.chat, base=writer.chat.head())
    writer.put_call(running)
    (writer.chat.workspace / "made-by-call").write_text(running.id)
    writer.finish_call(running, call_record(), seen=writer.look())


@pytest.mark.parametrize(
    ("step", "flushes"),
    [(edit, 1), (talk, 1), (branch, 1), pytest.param(call, 2, id="call, also before it runs")],
)
def test_step_waits_for_the_disk_so_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Callable[[Writer], None], flushes: int
) -> None:
    with open_chats(tmp_path, WorkspaceConfig(durability="full")).new("c1") as chat:
        for taken in (edit, step):
            with writing(chat) as writer:
                taken(writer)
        seen: list[int] = []
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(f"os.{name}", seen.append)
        with writing(chat) as writer:
            step(writer)

    assert len(seen) == flushes


def test_what_is_put_into_the_folder_is_durable_with_all_names_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging, workspace = (tmp_path / "chats/c1" / name for name in ("staging", "workspace"))
    contents: list[bytes] = []
    flushed: list[str] = []
    fsync = os.fsync

    def note(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path.parent == staging:
            contents.append(path.read_bytes())
        if path.is_relative_to(workspace):
            flushed.append(str(path.relative_to(workspace)))
        fsync(handle)

    monkeypatch.setattr("os.fsync", note)
    with open_chats(tmp_path, WorkspaceConfig(durability="full")).new("c1") as chat:
        (chat.workspace / "there").mkdir()
        with writing(chat) as writer:
            writer.upload([Upload("x", b"1"), Upload("y", b"2")], folder="there/new/deep")
        assert (sorted(contents), flushed) == (
            [b"1", b"2"],
            ["there", "there/new", "there/new/deep"],
        )

        flushed.clear()
        with writing(chat) as writer:
            oid = writer.edit_file("there/x", b"3", before=None)
            writer.edit_file("there/x", b"4", before=oid)
        assert (contents[2:], flushed) == ([b"3", b"4"], ["there", "there"])

        flushed.clear()
        with writing(chat) as writer:
            for name in ("x", "y"):
                path = f"there/new/deep/{name}"
                writer.delete_file(
                    path, before=blob_id((chat.workspace / path).read_bytes(), "sha1")
                )
        assert flushed == ["there/new/deep", "there"]
