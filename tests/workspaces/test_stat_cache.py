"""The stat cache: a snapshot with it always equals the snapshot that reads everything."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.scan import scan
from covalt_git.workspaces.snapshot import Snapshot
from covalt_git.workspaces.stat_cache import NOT_SCANNED, Clock, StatCache
from covalt_git.workspaces.writing import writing
from tests.examples import examples, one_in
from tests.workspaces.stores import (
    fsck,
    git,
    git_tree,
    layout_of,
    open_chats,
    put,
    save,
    scratch,
    tree_of,
)


def settle() -> None:
    """Let the clock of the file system advance, so that the current entries can be trusted."""
    time.sleep(0.03)


def restart(chat: ChatStore) -> None:
    """Know of the workspace what a process knows that opens the chat now."""
    chat.stat_cache.save()
    chat.stat_cache = StatCache.of(chat.workspace, chat.config, chat.store.object_format)


def look(chat: ChatStore) -> Snapshot:
    with writing(chat) as writer:
        return writer.scan()


def read_everything(chat: ChatStore) -> Snapshot:
    """Return the snapshot of a scan without a cache."""
    with chat.store.scratch():
        found = scan(chat.store, chat.workspace, chat.config, NOT_SCANNED, Clock(0, 0))
    return Snapshot.of(found)


# Random changes of a folder

PATHS = [
    *("a", "b", "c.py", "d/a", "d/b", "d/e/f", "g/h", "g/A", "node_modules/x", "con", ".env"),
    *("d/.gitmodules", ".gitmodules"),
]
LARGE = b"large" * 300_000
"""More than the 1 MiB that the property stores."""

REFUSED = b'[submodule "a"]\n\turl = --upload-pack=x\n\tpath = a\n'
"""A ``.gitmodules`` that git refuses."""


def rewrite(path: Path, content: bytes) -> None:
    """Change a file in place, its size and modification time as they were."""
    if path.is_file() and not path.is_symlink():
        status = path.stat()
        with path.open("r+b") as file:
            file.write((content * 50)[: status.st_size])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace_folder(folder: Path, path: Path, content: bytes) -> None:
    """Put another folder of the same names in the place of one."""
    if path.is_dir() and not path.is_symlink() and path != folder:
        shutil.copytree(path, folder / "aside", symlinks=True)
        for file in (folder / "aside").rglob("*"):
            if file.is_file() and not file.is_symlink():
                file.write_bytes(content)
        shutil.rmtree(path)
        (folder / "aside").rename(path)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def change(folder: Path, kind: str, first: str, second: str, content: bytes) -> None:
    """Make one change, where it can be made."""
    path, other = folder / first, folder / second
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        other.parent.mkdir(parents=True, exist_ok=True)
        match kind:
            case "write":
                path.write_bytes(content)
            case "rewrite":
                rewrite(path, content)
            case "rename":
                path.rename(other)
            case "rename folder":
                path.parent.rename(other)
            case "replace folder":
                replace_folder(folder, path.parent, content)
            case "chmod":
                path.chmod(path.lstat().st_mode ^ 0o100)
            case "delete":
                remove(path)
            case "delete folder":
                remove(path.parent if path.parent != folder else path)
            case "link":
                path.symlink_to(Path(second).name)
            case "hard link":
                other.hardlink_to(path)
            case "folder":
                path.mkdir()
            case "touch":
                path.touch()
    except OSError:
        pass  # the current entry does not allow it


CHANGES = st.tuples(
    st.sampled_from(
        [
            *("write", "write", "rewrite", "rename", "rename folder", "replace folder", "chmod"),
            *("delete", "delete folder", "link", "hard link", "folder", "touch"),
        ]
    ),
    st.sampled_from(PATHS),
    st.sampled_from(PATHS),
    st.sampled_from([b"", b"one", b"two", b"three" * 9, LARGE, REFUSED]),
)


@pytest.mark.parametrize("object_format", one_in(2, ["sha1", "sha256"]))
@settings(deadline=None, max_examples=examples(20))
@given(rounds=st.lists(st.lists(CHANGES, max_size=6), min_size=2, max_size=4))
def test_snapshot_with_the_cache_equals_a_full_scan(
    object_format: str, rounds: list[list[tuple[str, str, str, bytes]]]
) -> None:
    config = WorkspaceConfig.model_validate(
        {
            "durability": "fast",
            "object_format": object_format,
            "ignore": ["node_modules/"],
            "max_file_mb": 1,
        }
    )
    with scratch() as folder, open_chats(folder, config).new("c1") as chat:
        put(chat.workspace, {path: ("file", path.encode()) for path in PATHS[:6]})
        for number, changes in enumerate(rounds):
            settle()
            save(chat)
            for one in changes:
                change(chat.workspace, *one)

            assert look(chat) == read_everything(chat)
            if number % 2:
                settle()
            restart(chat)
            assert look(chat) == read_everything(chat)
            with chat.scan_in_memory() as seen:
                assert seen == read_everything(chat)


@pytest.mark.parametrize(
    ("name", "left_out", "stored"),
    [("big.bin", LARGE, b"small"), (".gitmodules", REFUSED, b""), ("d/big.bin", LARGE, b"small")],
)
def test_a_file_that_was_left_out_is_stored_once_it_may_be(
    tmp_path: Path, name: str, left_out: bytes, stored: bytes
) -> None:
    config = WorkspaceConfig.model_validate({"durability": "fast", "max_file_mb": 1})
    with open_chats(tmp_path, config).new("c1") as chat:
        path = chat.workspace / name
        put(chat.workspace, {str(Path(name).with_name("a")): ("file", b"a")})
        path.write_bytes(left_out)
        save(chat)
        settle()
        look(chat)
        settle()
        path.write_bytes(stored)

        assert look(chat) == read_everything(chat)
        save(chat)
        assert git(chat.store.path, "show", f"main:{name}").encode() == stored


def test_rewrites_in_one_tick_are_all_seen(chat: ChatStore) -> None:
    path = chat.workspace / "a"
    for number in range(40):
        path.write_bytes(b"%02d" % number)
        head = save(chat)

        assert chat.read_file(head, "a") == b"%02d" % number


def test_what_only_another_branch_held_is_written_again_once_that_is_gone(chat: ChatStore) -> None:
    put(chat.workspace, {"a": ("file", b"1"), "d/b": ("file", b"2")})
    save(chat)
    with writing(chat) as writer:
        branches.create(writer, "idea", chat.head())
        writer.checkout("idea")
    put(chat.workspace, {"a": ("file", b"idea"), "d/c": ("file", b"3")})
    settle()
    save(chat)
    idea = save(chat)
    chat.store.set_head("refs/heads/main")  # the files stay
    assert chat.store.swap_ref("refs/heads/idea", idea, None)
    git(chat.folder / "store.git", "gc", "--quiet", "--prune=now")
    save(chat)

    assert tree_of(chat, "main") == git_tree(layout_of(chat.workspace))
    assert fsck(chat) == ""


DAMAGE: list[Callable[[bytes], bytes]] = [
    lambda _: b"",
    lambda content: content[: len(content) // 2],
    lambda content: content[:-1],
    lambda content: content[:200] + b"\xff" + content[201:],
    lambda content: content[: len(content) // 2] + bytes(len(content) // 2),
    lambda content: b"other" + content,
    lambda content: content + b"\0" * 4096,
]


@pytest.mark.parametrize("damage", range(len(DAMAGE)))
def test_damaged_file_is_as_none(chat: ChatStore, damage: int) -> None:
    put(chat.workspace, {f"{top}/{name}": ("file", b"x") for top in "abc" for name in "xyz"})
    settle()
    save(chat)
    restart(chat)
    file = chat.folder / "stat.cache"
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    (chat.workspace / "a/x").write_bytes(b"changed")

    assert look(chat) == read_everything(chat)


def test_copy_of_a_chat_folder_has_an_empty_stat_cache(chats: Chats, chat: ChatStore) -> None:
    put(chat.workspace, {"a": ("file", b"1"), "d/b": ("file", b"2")})
    settle()
    save(chat)
    look(chat)
    restart(chat)
    shutil.copytree(chat.folder, chats.folder / "c2")
    with chats.open("c2") as copy:
        rewrite(copy.workspace / "a", b"3")
        copied = copy.workspace / "a"
        status = (chat.workspace / "a").stat()
        os.utime(copied, ns=(status.st_atime_ns, status.st_mtime_ns))

        assert look(copy) == read_everything(copy)
        assert copy.read_file(save(copy), "a") == b"3"
