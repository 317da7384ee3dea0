"""Files that lose their name: held for as long as a switch or packing up takes, and let go of."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

import pytest

from covalt_git.git_store import GitStore
from covalt_git.git_store.freeing import Freeing
from tests.workspaces.stores import branch_off, checkout, open_chats, put, save

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files are held on Linux only")


def held(folder: Path) -> list[str]:
    """Return the files of a folder that this process holds, whether or not they have a name."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.name.endswith("(_let_go)"):
            thread.join()
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            found.append(str(handle.readlink()))
    return sorted(one for one in found if one.startswith(str(folder)))


def test_what_is_held_goes_after_the_block(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    parent = os.open(tmp_path, os.O_RDONLY)
    with Freeing() as freeing:
        freeing.hold("a", folder=parent)
        freeing.hold(str(tmp_path / "b"))
        freeing.hold("none", folder=parent)
        os.close(parent)
        (tmp_path / "a").unlink()
        (tmp_path / "c").replace(tmp_path / "b")

        assert held(tmp_path) == [f"{tmp_path}/a (deleted)", f"{tmp_path}/b (deleted)"]
    assert held(tmp_path) == []


def test_no_more_are_held_than_a_process_can_spare(tmp_path: Path) -> None:
    with Freeing() as freeing:
        for number in range(300):
            (tmp_path / f"{number}").touch()
            freeing.hold(str(tmp_path / f"{number}"))

        assert 0 < len(held(tmp_path)) < 200
    assert held(tmp_path) == []


def test_what_is_held_is_let_go_of_after_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with contextlib.suppress(InterruptedError), Freeing() as freeing:
        freeing.hold(str(tmp_path / "a"))
        raise InterruptedError

    assert held(tmp_path) == []


def test_a_switch_leaves_no_file_open(tmp_path: Path) -> None:
    with open_chats(tmp_path).new("c1") as chat:
        put(chat.workspace, {f"f{number}": ("file", b"main") for number in range(150)})
        save(chat)
        branch_off(chat, "idea")
        put(chat.workspace, {f"f{number}": ("file", b"idea") for number in range(150)})
        save(chat)
        before = held(chat.workspace)
        for name in ("main", "idea"):
            checkout(chat, name)

            assert held(chat.workspace) == before


def test_packing_up_holds_what_it_removes_and_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, seen = Freeing.hold, set[Path]()

    def note(freeing: Freeing, path: str) -> None:
        seen.update({Path(path)} if os.path.lexists(path) else ())
        hold(freeing, path)

    monkeypatch.setattr(Freeing, "hold", note)
    with GitStore.create(tmp_path / "s.git") as store:
        with store.together():
            for number in range(5):
                store.write_blob(b"%d" % number)
        store.flush()
        old = set(store.path.glob("objects/pack/*"))
        store.write_blob(b"loose")
        store.flush()
        old |= set(store.path.glob("objects/??/*"))
        store.pack_up()

        assert len(old) == 3
        assert seen == old
        assert not any(path.exists() for path in old)
        assert [one for one in held(store.path) if one.endswith(" (deleted)")] == []
