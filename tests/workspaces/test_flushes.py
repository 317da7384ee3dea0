"""Which names are fsynced when covalt-git changes files of a workspace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalt_git.file_edits import edits, uploads
from covalt_git.file_edits.uploads import Upload
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import open_chats

if TYPE_CHECKING:
    pass


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
            uploads.upload(writer, [Upload("x", b"1"), Upload("y", b"2")], folder="there/new/deep")
        assert sorted(contents) == [b"1", b"2"]
        assert flushed == ["there", "there/new", "there/new/deep"]

        flushed.clear()
        with writing(chat) as writer:
            edits.edit_file(writer, "there/x", b"3", before=None)
        assert (contents[2:], flushed) == ([b"3"], ["there"])
