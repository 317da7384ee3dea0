"""Snapshots: what a folder holds is stored byte for byte, what cannot be stored is named."""

import os
import random
import resource
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.paths import check_element
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.examples import examples
from tests.workspaces.stores import (
    Layout,
    branch_off,
    checkout,
    fsck,
    git,
    git_tree,
    layout_of,
    open_chats,
    put,
    run_git,
    save,
    scratch,
    tree_of,
)

NAMES = st.one_of(
    st.sampled_from([".env", ".gitignore", ".gitattributes", "ü", "日本語", "-rf", "a b", "x.py"]),
    st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=12),
).filter(lambda name: check_element(name).kind != "refused")
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"a\r\nb\r\n", b"* text=auto\n", b"*\n", b"\0" * 1500, b"$Id$\n"]),
)

KINDS = ["file", "program", "link", "folder", "empty"]


@st.composite
def layouts(draw: st.DrawFn, depth: int = 0) -> Layout:
    """Return a folder: files, programs, links that stay inside, and folders, empty or not."""
    found: Layout = {}
    for name in draw(st.lists(NAMES, max_size=4, unique_by=lambda name: name.casefold())):
        kinds = ["file", "program"] if name.startswith(".git") else KINDS
        kind = draw(st.sampled_from(kinds))
        if kind == "empty" or (kind == "folder" and depth > 2):
            found[name] = ("folder", b"")
        elif kind == "folder":
            below = draw(layouts(depth=depth + 1))
            found |= {f"{name}/{path}": entry for path, entry in below.items()}
            found |= {} if below else {name: ("folder", b"")}
        elif kind == "link":
            up = draw(st.integers(0, depth))
            found[name] = ("link", ("../" * up + draw(NAMES)).encode())
        else:
            found[name] = (kind, draw(CONTENTS))
    return found


def elsewhere(chats: Chats, chat: ChatStore) -> ChatStore:
    """Return the chat from a clone of its store by stock git."""
    folder = chats.folder / f"{chat.id}-copy"
    folder.mkdir()
    git(folder, "clone", "--quiet", "--bare", str(chat.folder / "store.git"), "store.git")
    return chats.open(folder.name)


def everything_in(store: Path) -> bytes:
    """Return the content of every object of a store, one after the other."""
    done = run_git(store, "cat-file", "--batch-all-objects", "--batch")
    assert done.returncode == 0
    return done.stdout


@pytest.mark.requirement("covalt-2.2.materialize", "covalt-2.2.snapshot")
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@settings(deadline=None, max_examples=examples(50))
@given(layout=layouts())
def test_snapshot_and_checkout_elsewhere_give_the_same_files(
    object_format: str, layout: Layout
) -> None:
    config = WorkspaceConfig.model_validate(
        {"durability": "fast", "object_format": object_format, "ignore": []}
    )
    with scratch() as folder:
        chats = open_chats(folder, config)
        with chats.new("c1") as chat:
            put(chat.workspace, layout)
            with writing(chat) as writer:
                head = writer.commit_changes()

            assert (head is None) == (not layout)
            if head is None:
                return
            assert tree_of(chat, "main") == git_tree(layout, object_format)
            assert fsck(chat) == ""
            with elsewhere(chats, chat) as copy:
                with writing(copy) as writer:
                    assert writer.commit_changes() == head
                assert layout_of(copy.workspace) == layout


@pytest.mark.requirement("covalt-2.1.workspace")
@settings(deadline=None, max_examples=examples(50))
@given(first=layouts(), second=layouts())
def test_going_to_another_branch_and_back_brings_back_everything(
    first: Layout, second: Layout
) -> None:
    with scratch() as folder, open_chats(folder).new("c1") as chat:
        put(chat.workspace, {"z": ("file", b"kept")} | first)
        branch_off(chat, "idea")
        here = layout_of(chat.workspace)
        shutil.rmtree(chat.workspace)
        chat.workspace.mkdir()
        put(chat.workspace, second)
        save(chat)
        there = layout_of(chat.workspace)

        checkout(chat, "main")
        assert layout_of(chat.workspace) == here
        checkout(chat, "idea")
        assert layout_of(chat.workspace) == there
        assert fsck(chat) == ""


def test_nothing_in_the_workspace_changes_how_it_is_stored(chat: ChatStore) -> None:
    canary = chat.folder / "canary"
    layout: Layout = {
        ".gitignore": ("file", b"*\n"),
        ".gitattributes": ("file", b"* text=auto ident filter=evil working-tree-encoding=UTF-16\n"),
        "dos.txt": ("file", b"a\r\nb\r\n$Id$\r\n"),
        "build/.gitignore": ("file", b"*"),
        "build/out.o": ("file", b"\x7fELF\0"),
        ".mailmap": ("file", b"A <a@b> <c@d>\n"),
        ".lfsconfig": ("file", b"[lfs]\n"),
    }
    put(chat.workspace, layout)
    subprocess.run(["git", "init", "--quiet", str(chat.workspace)], check=True)
    script = f"#!/bin/sh\ntouch {canary}\n"
    for hook in ("pre-commit", "post-commit", "post-checkout", "reference-transaction"):
        path = chat.workspace / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)
    config = chat.workspace / ".git" / "config"
    config.write_text(
        f'[filter "evil"]\n\tclean = touch {canary}\n\tsmudge = touch {canary}\n\trequired = true\n'
        "[core]\n\tautocrlf = true\n\tfsmonitor = touch canary\n"
    )
    branch_off(chat, "idea")
    for name in layout:
        (chat.workspace / name).unlink()
    save(chat)
    checkout(chat, "main")

    assert tree_of(chat, "main") == git_tree(layout)
    assert layout.items() <= layout_of(chat.workspace).items()
    assert not canary.exists()
    assert config.exists()
    assert fsck(chat) == ""


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket may be no longer than some 100 bytes
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


def make_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def file_of(content: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(content)

    return make


def nested_repository(path: Path) -> None:
    (path / "objects").mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n")


NOT_STORABLE = [
    pytest.param(".git", nested_repository, "git directory", id="nested-repository"),
    pytest.param(".git", file_of(b"gitdir: /x\n"), "git directory", id="git-file"),
    pytest.param("a\nb", file_of(b"x"), "control character", id="line-feed"),
    pytest.param(os.fsdecode(b"caf\xe9"), file_of(b"x"), "not UTF-8", id="latin-1"),
    pytest.param("pipe", os.mkfifo, "neither a file", id="fifo"),
    pytest.param("null", make_device, "neither a file", id="device"),
    pytest.param("sock", make_socket, "neither a file", id="socket"),
    pytest.param("big", file_of(b"x" * ((1 << 20) + 1)), "larger than 1 MiB", id="over-limit"),
    pytest.param("l", link_to("/etc/passwd"), "link that may lead outside", id="absolute"),
    pytest.param("l", link_to("../../../secret"), "link that may lead outside", id="outside"),
    pytest.param("l", link_to("in/../../secret"), "link that may lead outside", id="through"),
    pytest.param("l", link_to("./../.././../secret"), "link that may lead outside", id="dots"),
    pytest.param("l", link_to("in/sub/../.."), "link that may lead outside", id="later-dots"),
    pytest.param("l", link_to(os.fsdecode(b"\xff")), "link that may lead outside", id="bytes"),
    pytest.param(".gitignore", link_to("x"), "a link with that name", id="ignore-link"),
    pytest.param(".gitattributes", link_to("x"), "a link with that name", id="attributes-link"),
    pytest.param(".mailmap", link_to("x"), "a link with that name", id="mailmap-link"),
    pytest.param(".gitmodules", link_to("x"), "a link with that name", id="modules-link"),
    pytest.param(".gitmodules", nested_repository, "a folder with that name", id="modules-folder"),
    pytest.param(
        ".gitattributes", nested_repository, "a folder with that name", id="attributes-folder"
    ),
    pytest.param(
        ".gitattributes", file_of(b"a " * 1024 + b"\n"), "long lines", id="attributes-line"
    ),
]


@pytest.mark.parametrize(("name", "make", "reason"), NOT_STORABLE)
def test_what_cannot_be_stored_stays_in_place_and_is_named(
    chats: Chats, name: str, make: Callable[[Path], None], reason: str
) -> None:
    config = WorkspaceConfig(durability="fast", max_file_mb=1)
    with open_chats(chats.folder.parent, config).new("c1") as chat:
        put(chat.workspace, {"in/sub/kept": ("file", b"kept")})
        path = f"in/sub/{name}"
        make(chat.workspace / path)
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        before = save(chat)
        (note,) = chat.manifest(before).record.workspace.not_stored

        assert note.path == shown
        assert reason in note.reason
        assert set(tree_of(chat, "main")) == {"in/sub/kept"}
        assert os.path.lexists(chat.workspace / path)
        assert fsck(chat) == ""
        assert save(chat) == before


def test_no_secret_behind_any_link_or_chain_of_links_is_ever_read(chat: ChatStore) -> None:
    secret = b"the-secret-outside"
    outside = chat.folder.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(secret)
    (outside / "sub").mkdir()
    (outside / "sub" / "also").write_bytes(secret)
    work = chat.workspace
    put(
        work,
        {
            "absolute": ("link", str(outside / "secret").encode()),
            "folder": ("link", str(outside).encode()),
            "relative": ("link", b"../../outside/secret"),
            "proc": ("link", b"/proc/self/cwd"),
            "deep/a/up": ("link", b"../.."),
            "deep/b": ("link", b"a/up"),
            "chain": ("link", b"deep/b/../../outside/secret"),
            "through": ("link", b"folder/secret"),
            "deep/through": ("link", b"../folder/sub"),
        },
    )
    first = save(chat)
    with writing(chat) as writer:
        branches.create(writer, "idea", first)
        writer.checkout("idea")
        writer.checkout("main")
    notes = chat.manifest(first).record.workspace.not_stored

    assert [note.path for note in notes] == ["absolute", "chain", "folder", "proc", "relative"]
    assert secret not in everything_in(chat.folder / "store.git")
    assert all(mode == "120000" for mode, _ in tree_of(chat, "main").values())
    assert (outside / "secret").read_bytes() == secret
    assert fsck(chat) == ""


@pytest.mark.parametrize(
    "name",
    ["a:b", "con", "nul.txt", "trailing.", " lead", "back\\slash", "u\u0308", "zero\u200bwidth"],
)
def test_unportable_names_are_stored_and_named(chat: ChatStore, name: str) -> None:
    put(chat.workspace, {f"d/{name}": ("file", b"x")})
    head = save(chat)
    (note,) = chat.manifest(head).record.workspace.unportable

    assert note.path == f"d/{name}"
    assert note.reason
    assert set(tree_of(chat, "main")) == {f"d/{name}"}
    assert fsck(chat) == ""


@pytest.mark.parametrize(
    ("layout", "named"),
    [
        pytest.param("/".join(["d"] * 101) + "/f", "/".join(["d"] * 101), id="too-deep"),
        pytest.param("/".join(["d" * 250] * 17) + "/f", None, id="too-long"),
    ],
)
def test_paths_beyond_every_limit_are_left_in_place(
    chat: ChatStore, layout: str, named: str | None
) -> None:
    handle = os.open(chat.workspace, os.O_RDONLY)
    for element in layout.split("/")[:-1]:
        os.mkdir(element, dir_fd=handle)
        below = os.open(element, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)
    put(chat.workspace, {"kept": ("file", b"kept")})
    (note,) = chat.manifest(save(chat)).record.workspace.not_stored

    assert layout.startswith(note.path)
    assert named is None or note.path == named
    assert set(tree_of(chat, "main")) == {"kept"}


MODULES_PIECES = st.sampled_from(
    [
        *('[submodule "a"]\n', '[submodule "a/b"]\n', "[core]\n", "\turl = ", "\tpath = ", "="),
        *("https://", "http:", "//", "/", "a", "example.com", ":", "0", "80", "99999", "%0a"),
        *("../", "-", "!sh", '"', "\\", "\n", " ", "#", ";", "@", "\r", "::", "\0", "ü", "?", "["),
    ]
)


@settings(deadline=None, max_examples=examples(40))
@given(pieces=st.lists(MODULES_PIECES, max_size=8))
def test_whatever_a_modules_file_says_the_store_is_well(pieces: list[str]) -> None:
    with scratch() as folder, open_chats(folder).new("c1") as chat:
        content = '[submodule "a"]\n' + "".join(pieces)
        put(chat.workspace, {".gitmodules": ("file", content.encode())})
        with writing(chat) as writer:
            writer.commit_changes()

        assert [line for line in fsck(chat).splitlines() if "notice" not in line] == []


def test_ignored_names_are_in_no_state_and_survive_every_checkout(chats: Chats) -> None:
    config = WorkspaceConfig(
        durability="fast", ignore=("__pycache__/", "*.log", "data/cache/", "docs/*.tmp", "plain")
    )
    ignored: Layout = {
        "pkg/__pycache__/m.pyc": ("file", b"1"),
        "a.log": ("file", b"2"),
        "deep/er/b.log": ("file", b"3"),
        "data/cache/x": ("file", b"4"),
        "docs/a.tmp": ("file", b"5"),
        "plain": ("file", b"6"),
        "deep/plain/x": ("file", b"7"),
    }
    stored: Layout = {
        "pkg/m.py": ("file", b"a"),
        "other/data/cache/x": ("file", b"b"),
        "a.tmp": ("file", b"c"),
        "__pycache__": ("file", b"a file is no folder"),
        "data/d.csv": ("file", b"d"),
    }
    with open_chats(chats.folder.parent, config).new("c1") as chat:
        put(chat.workspace, ignored | stored)
        branch_off(chat, "idea")
        for path in stored:
            (chat.workspace / path).unlink()
        (chat.workspace / "new").write_bytes(b"new")
        save(chat)

        assert tree_of(chat, "main") == git_tree(stored)
        checkout(chat, "main")
        assert layout_of(chat.workspace) == ignored | stored
        head = chat.head()
        assert save(chat) == head
        checkout(chat, "idea")
        assert {**ignored, "new": ("file", b"new")}.items() <= layout_of(chat.workspace).items()
        assert fsck(chat) == ""


def test_folder_that_may_not_be_read_is_named_and_not_taken_for_empty(chat: ChatStore) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    put(chat.workspace, {"closed/x": ("file", b"x"), "open": ("file", b"y")})
    (chat.workspace / "closed").chmod(0)
    try:
        notes = chat.manifest(save(chat)).record.workspace
    finally:
        (chat.workspace / "closed").chmod(0o755)

    assert [note.path for note in notes.not_stored] == ["closed"]
    assert notes.empty_folders == ()


def test_a_store_that_cannot_take_more_is_an_error_and_no_file_is_left_out(chat: ChatStore) -> None:
    """What the store cannot write is not taken for what the workspace does not let us read."""
    chance = random.Random(1)
    put(
        chat.workspace,
        {f"d{number % 7}/{number}": ("file", chance.randbytes(40_000)) for number in range(120)},
    )
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save(chat)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert chat.head() is None
    head = save(chat)
    assert tree_of(chat, head) == git_tree(layout_of(chat.workspace))
    assert chat.manifest(head).record.workspace.not_stored == ()
    assert fsck(chat) == ""


def test_a_file_that_can_be_stored_now_with_the_same_content_is_not_lost(chat: ChatStore) -> None:
    (chat.workspace / "a").write_bytes(b"1" * ((1 << 20) + 1))
    (chat.workspace / "b").write_bytes(b"1" * ((1 << 20) + 1))
    config = chat.config
    chat.config = config.model_copy(update={"max_file_mb": 1})
    before = chat.scan(None).unstored_files(chat.workspace)
    assert before.keys() == {"a", "b"}
    chat.config = config
    (chat.workspace / "a").chmod(0o600)
    (chat.workspace / "b").write_bytes(b"2")
    chat.stat_cache.clear()

    after = chat.scan(None).with_lost(before, chat.workspace)

    assert [note.path for note in after.notes.lost] == ["b"]
