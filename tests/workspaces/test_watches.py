"""A watched workspace: the look that believes the kernel's queue is the one at everything."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from covalt_git.models.commit_record import CommitRecord
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.names import new_id
from covalt_git.workspaces import watches
from covalt_git.workspaces.commits import now
from covalt_git.workspaces.stat_cache import StatCache
from covalt_git.workspaces.watches import Watch, watch_of
from covalt_git.workspaces.writing import writing
from tests.kernel_queues import open_queues
from tests.workspaces import merges
from tests.workspaces.stores import (
    branch_off,
    checkout,
    fsck,
    git_tree,
    layout_of,
    open_chats,
    put,
    save,
    scratch,
    tree_of,
)
from tests.workspaces.test_stat_cache import CHANGES, PATHS, change, read_everything, settle
from tests.workspaces.watched import believed_at, come_to_rest, doubtful, look

if TYPE_CHECKING:
    from covalt_git.workspaces.chats import Chats, ChatStore

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="there is no inotify"),
    pytest.mark.usefixtures("watching"),
]

REPOSITORY = Path(__file__).resolve().parents[2]
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


@pytest.fixture
def watched(chat: ChatStore) -> ChatStore:
    """A chat whose workspace is watched, and saved."""
    put(chat.workspace, {path: ("file", path.encode() * 9) for path in ("a", "b", "d/a", "d/e/f")})
    save(chat)
    come_to_rest(chat)
    assert doubtful(chat) == {}
    return chat


def is_seen(one: tuple[str, str, str, bytes]) -> bool:
    """Tell whether a change is none that only a look at everything finds: a link made elsewhere."""
    kind, *paths, _ = one
    return kind != "hard link" or not any(path.startswith("node_modules/") for path in paths)


@settings(deadline=None, max_examples=40)
@example(rounds=[[], [], [("hard link", "a", ".env", b""), ("write", ".env", "a", b"")]])
@given(rounds=st.lists(st.lists(CHANGES.filter(is_seen), max_size=6), min_size=2, max_size=5))
def test_a_look_that_believes_the_watch_is_one_at_everything(
    rounds: list[list[tuple[str, str, str, bytes]]],
) -> None:
    config = WorkspaceConfig.model_validate({"durability": "fast", "ignore": ["node_modules/"]})
    with scratch() as folder, open_chats(folder, config).new("c1") as chat:
        put(chat.workspace, {path: ("file", path.encode()) for path in PATHS[:6]})
        for _ in range(3):
            save(chat)
        for number, changes in enumerate(rounds):
            for one in changes:
                change(chat.workspace, *one)
            if number % 2:
                assert look(chat) == read_everything(chat)

            with writing(chat) as writer:
                assert writer.look() == read_everything(chat)
                writer.save_edits()
            assert look(chat) == read_everything(chat)
        assert fsck(chat) == ""


def test_a_look_that_commits_nothing_loses_nothing_of_what_it_saw(watched: ChatStore) -> None:
    (watched.workspace / "a").write_bytes(b"seen")
    (watched.workspace / "new/folder").mkdir(parents=True)
    (watched.workspace / "new/folder/f").write_bytes(b"seen, too")
    look(watched)
    with writing(watched) as writer:
        writer.look()
    head = save(watched)

    assert tree_of(watched, head) == git_tree(layout_of(watched.workspace))
    assert fsck(watched) == ""


def test_only_what_may_have_changed_is_looked_at(watched: ChatStore) -> None:
    (watched.workspace / "d/a").write_bytes(b"changed")

    assert doubtful(watched) == {"d": {"a"}}
    assert look(watched) == read_everything(watched)
    come_to_rest(watched)
    assert doubtful(watched) == {}


def test_a_switch_is_seen_like_any_other_change(watched: ChatStore) -> None:
    branch_off(watched, "idea")
    put(watched.workspace, {"d/a": ("file", b"idea"), "n/m/o": ("program", b"new")})
    save(watched)
    for name in ("main", "idea", "main", "idea"):
        checkout(watched, name)
        head = watched.branch(name).manifest_id

        assert doubtful(watched) != {}
        assert save(watched) == head
        assert look(watched) == read_everything(watched)


@pytest.mark.parametrize("branch", [None, "main"])
def test_the_manifest_that_was_made_of_a_look_needs_no_other(
    watched: ChatStore, branch: str | None
) -> None:
    (watched.workspace / "d/a").write_bytes(b"changed")
    with writing(watched) as writer:
        seen = writer.look()
        record = CommitRecord(id=new_id(), at=now(), by="local")
        head = writer.commit("edit", record, seen.tree, subject="d/a", branch=branch)

    assert doubtful(watched) == {}
    assert believed_at(watched, head) == watched.state(head).tree
    assert look(watched) == read_everything(watched)


def test_a_manifest_of_other_files_than_were_seen_is_not_believed_to_be_there(
    watched: ChatStore,
) -> None:
    branch_off(watched, "idea")
    (watched.workspace / "d/a").write_bytes(b"changed")
    with writing(watched) as writer:
        seen = writer.look()
        before = watched.state(watched.head()).tree
        record = CommitRecord(id=new_id(), at=now(), by="local")
        one = writer.commit("edit", record, before, subject="as it was")
        other = writer.commit("edit", record, seen.tree, subject="elsewhere", branch="main")

    assert believed_at(watched, one) is None
    assert believed_at(watched, other) is None
    assert look(watched) == read_everything(watched)


def test_of_which_manifest_the_folder_is_who_only_reads_finds_too(watched: ChatStore) -> None:
    come_to_rest(watched)
    head, root = str(watched.head()), look(watched).root
    assert root is not None
    root.anchor = None
    assert believed_at(watched, head) is None

    look(watched)

    assert believed_at(watched, head) == root.tree


def test_where_nothing_was_done_nothing_is_asked_of_the_folder(watched: ChatStore) -> None:
    come_to_rest(watched)
    cache = watched.workspace.with_name("stat.cache")
    os.utime(cache, ns=(0, 0))  # each look that asks for anything has it touched

    for _ in range(3):
        assert list(watched.workspace.iterdir())  # of which the kernel tells, too
        look(watched)
        with writing(watched) as writer:
            writer.look()
            writer.save_edits()

    assert cache.stat().st_mtime_ns == 0


# What makes everything be looked at


def test_a_full_queue_makes_everything_be_looked_at(watched: ChatStore) -> None:
    most = int(QUEUE.read_text())
    if most > 1 << 17:
        pytest.skip("the queue is very long here")
    (watched.workspace / "d/e/f").write_bytes(b"told first, or not at all")
    for _ in range(most // 2):
        (watched.workspace / "a").touch()
        (watched.workspace / "b").touch()
    (watched.workspace / "b").write_bytes(b"not told any more")
    (watched.workspace / "untold").mkdir()

    assert doubtful(watched) is None
    assert look(watched) == read_everything(watched)
    come_to_rest(watched)
    (watched.workspace / "untold/f").write_bytes(b"in a folder that no event told of")
    assert doubtful(watched) == {"untold": {"f"}}
    assert look(watched) == read_everything(watched)


def test_a_folder_that_was_put_there_is_looked_through(watched: ChatStore) -> None:
    aside = watched.folder / "aside"
    put(aside, {"x": ("file", b"1"), "deep/er/y": ("file", b"2")})
    aside.rename(watched.workspace / "put")
    head = save(watched)
    assert tree_of(watched, head) == git_tree(layout_of(watched.workspace))

    come_to_rest(watched)
    (watched.workspace / "put/deep/er/y").write_bytes(b"3")
    assert doubtful(watched) == {"put/deep/er": {"y"}}


def test_a_renamed_folder_is_watched_under_its_new_name(watched: ChatStore) -> None:
    (watched.workspace / "d").rename(watched.workspace / "z")
    (watched.workspace / "z/e/f").write_bytes(b"changed on the way")
    head = save(watched)
    assert tree_of(watched, head) == git_tree(layout_of(watched.workspace))

    come_to_rest(watched)
    (watched.workspace / "z/e/f").write_bytes(b"changed there")
    assert doubtful(watched) == {"z/e": {"f"}}
    head = save(watched)
    assert tree_of(watched, head) == git_tree(layout_of(watched.workspace))


def test_a_folder_that_went_and_came_back_is_looked_through(watched: ChatStore) -> None:
    aside = watched.folder / "aside"
    (watched.workspace / "d").rename(aside)
    save(watched)
    (aside / "e/f").write_bytes(b"changed while it was away")
    aside.rename(watched.workspace / "d")
    head = save(watched)

    assert tree_of(watched, head) == git_tree(layout_of(watched.workspace))


def test_another_folder_of_the_same_name_is_looked_through(watched: ChatStore) -> None:
    aside = watched.folder / "aside"
    put(aside, {"a": ("file", b"another"), "e/f": ("file", b"another, too")})
    (watched.workspace / "d").rename(watched.folder / "was")
    aside.rename(watched.workspace / "d")
    head = save(watched)

    assert tree_of(watched, head) == git_tree(layout_of(watched.workspace))


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_workspace_that_was_moved_is_looked_through(
    watched: ChatStore, *, comes_back: bool
) -> None:
    away = watched.folder / "away"
    watched.workspace.rename(away)
    if comes_back:
        away.rename(watched.workspace)
    else:
        put(watched.workspace, {"other": ("file", b"another folder")})
    (watched.workspace / "after").write_bytes(b"written then")

    assert doubtful(watched) is None
    assert look(watched) == read_everything(watched)


def test_whoever_removes_the_cache_makes_everything_be_looked_at(watched: ChatStore) -> None:
    outside = watched.folder / "outside"
    outside.hardlink_to(watched.workspace / "a")
    outside.write_bytes(b"no event tells this")
    (watched.folder / "stat.cache").unlink()

    assert look(watched).tree != watched.state(watched.head()).tree


def test_other_settings_have_a_watch_of_their_own(chats: Chats, watched: ChatStore) -> None:
    put(watched.workspace, {"a.log": ("file", b"1")})
    save(watched)
    config = watched.config.model_copy(update={"ignore": ("*.log",)})
    with open_chats(chats.folder.parent, config).open("c1") as other:
        assert look(other).ignored == ("a.log",)
    assert look(watched).ignored == ()


# What no event tells


def test_a_file_that_somebody_has_open_is_looked_at(watched: ChatStore) -> None:
    """Stores through a mapping make no event; that the file is open says that there may be any."""
    path = watched.workspace / "d/a"
    path.write_bytes(b"a" * mmap.PAGESIZE)
    save(watched)
    settle()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        come_to_rest(watched)
        mapped[0] = ord("b")

        assert "a" in (doubtful(watched) or {})["d"]
        head = save(watched)
        assert watched.read_file(head, "d/a")[:2] == b"ba"
    come_to_rest(watched)
    assert doubtful(watched) == {}


def test_what_was_stored_through_a_mapping_is_told_when_it_ends(watched: ChatStore) -> None:
    program = (
        "import mmap, sys; file = open(sys.argv[1], 'r+b'); mmap.mmap(file.fileno(), 0)[0] = 88"
    )
    subprocess.run([sys.executable, "-c", program, watched.workspace / "d/e/f"], check=True)

    assert doubtful(watched) == {"d/e": {"f"}}
    assert watched.read_file(save(watched), "d/e/f")[:2] == b"X/"


def test_a_mapping_from_before_the_watch_is_seen_by_the_next_look_at_everything(
    chat: ChatStore,
) -> None:
    put(chat.workspace, {"a": ("file", b"a" * mmap.PAGESIZE)})
    with (chat.workspace / "a").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        settle()
        for _ in range(3):
            before = save(chat)
        mapped[0] = ord("b")

        assert doubtful(chat) == {}
        assert save(chat) == before, "the watch was believed"
        watches.end()
        watches.begin(trusted_s=0)
        assert chat.read_file(save(chat), "a")[:2] == b"ba"


def test_a_file_with_another_name_is_always_looked_at(watched: ChatStore) -> None:
    """Writing by a name that is not in the workspace makes no event in it."""
    outside = watched.folder / "outside"
    outside.write_bytes(b"first")
    (watched.workspace / "d/linked").hardlink_to(outside)
    come_to_rest(watched)
    assert doubtful(watched) == {"d": {"linked"}}
    for content in (b"other", b"again, and longer"):
        outside.write_bytes(content)
        assert watched.read_file(save(watched), "d/linked") == content
    outside.unlink()
    come_to_rest(watched)
    assert doubtful(watched) == {}


def test_a_link_made_in_the_workspace_makes_everything_be_looked_at(watched: ChatStore) -> None:
    """No event tells that the file was written by its first name, too."""
    (watched.workspace / "d/e/again").hardlink_to(watched.workspace / "a")
    (watched.workspace / "d/e/again").write_bytes(b"written by the second name")
    head = save(watched)

    assert tree_of(watched, head) == git_tree(layout_of(watched.workspace))
    come_to_rest(watched)
    assert doubtful(watched) == {"": {"a"}, "d/e": {"again"}}


def test_a_link_that_goes_is_seen_by_the_look_that_commits(watched: ChatStore) -> None:
    (watched.workspace / "d/again").hardlink_to(watched.workspace / "a")
    come_to_rest(watched)
    (watched.workspace / "d/again").write_bytes(b"written by the second name")
    (watched.workspace / "d/again").unlink()
    look(watched)

    assert watched.read_file(save(watched), "a") == b"written by the second name"


def test_a_name_that_came_and_went_makes_everything_be_looked_at(watched: ChatStore) -> None:
    (watched.workspace / "d/link").hardlink_to(watched.workspace / "a")
    (watched.workspace / "d/link").write_bytes(b"written by a name that is gone")
    (watched.workspace / "d/link").unlink()

    assert doubtful(watched) is None
    assert watched.read_file(save(watched), "a") == b"written by a name that is gone"


@pytest.mark.parametrize("way", ["renamed out", "renamed over", "taken along", "in a new folder"])
def test_a_link_that_no_event_tells_the_end_of_makes_everything_be_looked_at(
    watched: ChatStore, way: str
) -> None:
    """Each is a way to write a file by a name that is gone when the next look comes."""
    folder, outside = watched.workspace, watched.folder / "outside"
    link = folder / "d/e/link"
    if way == "in a new folder":
        link = folder / "new/link"
        link.parent.mkdir()
    link.hardlink_to(folder / "a")
    if way == "renamed out":
        link = link.rename(outside)
    elif way == "taken along":
        link.parent.rename(outside)
        link = outside / "link"
    link.write_bytes(b"written by another name")
    if way == "renamed over":
        (folder / "b").rename(folder / "c")
        (folder / "c").rename(link)
    elif way == "in a new folder":
        link.unlink()

    assert doubtful(watched) is None
    assert watched.read_file(save(watched), "a") == b"written by another name"


def test_a_file_that_is_written_aside_and_renamed_is_all_that_is_looked_at(
    watched: ChatStore,
) -> None:
    (watched.workspace / "d/a.tmp").write_bytes(b"new")
    (watched.workspace / "d/a.tmp").replace(watched.workspace / "d/a")
    (watched.workspace / "b.tmp").write_bytes(b"new")
    (watched.workspace / "b.tmp").replace(watched.workspace / "d/e/b")

    assert doubtful(watched) == {"d": {"a.tmp", "a"}, "": {"b.tmp"}, "d/e": {"b"}}
    assert look(watched) == read_everything(watched)


def test_a_link_made_elsewhere_is_seen_by_the_next_look_at_everything(chats: Chats) -> None:
    watches.begin(trusted_s=0)
    with chats.new("c1") as chat:
        put(chat.workspace, {"a": ("file", b"1")})
        for _ in range(3):
            save(chat)
        (chat.folder / "outside").hardlink_to(chat.workspace / "a")
        (chat.folder / "outside").write_bytes(b"2")

        assert doubtful(chat) is None, "the time is over for which the watch is believed"
        assert chat.read_file(save(chat), "a") == b"2"


def test_a_change_that_the_watch_cannot_know_is_never_overwritten(watched: ChatStore) -> None:
    branch_off(watched, "idea")
    (watched.workspace / "a").write_bytes(b"idea")
    save(watched)
    checkout(watched, "main")
    come_to_rest(watched)
    (watched.folder / "outside").hardlink_to(watched.workspace / "a")
    (watched.folder / "outside").write_bytes(b"mine")
    checkout(watched, "idea")

    assert (watched.workspace / "a").read_bytes() == b"mine"
    assert watched.read_file(save(watched), "a") == b"mine"


# Where there is no watch


def test_a_file_system_that_others_write_to_is_not_watched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = Watch("/proc/self", was_used=True)
    assert watch.since() is None
    handle = os.open("/proc/self/fdinfo", os.O_RDONLY | os.O_DIRECTORY)
    try:
        watch.enter("", handle, os.fstat(handle))
    finally:
        os.close(handle)

    assert [watch.since() for _ in range(3)] == [None] * 3
    assert len(caplog.messages) <= 1
    assert open_queues() == 0


LIMITED = """
import sys
from pathlib import Path
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces import watches
from covalt_git.workspaces.chats import Chats
from covalt_git.workspaces.writing import writing
watches.begin(trusted_s=1000)
for name in ("c1", "c2"):
    with Chats(Path(sys.argv[1]), WorkspaceConfig(durability="fast")).new(name) as chat:
        for number in range(6):
            (chat.workspace / f"d{number}").mkdir()
            (chat.workspace / f"d{number}/f").write_text(name)
            with writing(chat) as writer:
                writer.save_edits()
        print(len(chat.files(chat.head())))
"""


@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_a_limit_means_no_watch_which_is_said_once(tmp_path: Path, limit: str) -> None:
    command = f"echo 0 > /proc/sys/user/{limit} && exec {sys.executable} - {tmp_path}"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", command],
        input=LIMITED,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare failed" in done.stderr or "cannot create" in done.stderr:
        pytest.skip("a process may have no limits of its own here")

    assert (done.returncode, done.stdout) == (0, "6\n6\n"), done.stderr
    assert done.stderr.count("no watch of") == 1
    assert f"the limit fs.inotify.{limit.replace('inotify', 'user')} is reached" in done.stderr


def test_a_look_does_not_wait_for_one_that_uses_the_watch(watched: ChatStore) -> None:
    (watched.workspace / "a").write_bytes(b"changed")
    cache = StatCache.beside(watched.workspace, watched.config, watched.store.object_format)
    seen: list[bytes] = []

    def read() -> None:
        with open_chats(watched.folder.parents[1]).open("c1") as chat:
            seen.append(chat.read_file(save(chat), "a"))

    with watch_of(watched.workspace, cache.settings):
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()

    assert seen == [b"changed"]
    assert look(watched) == read_everything(watched)


def test_only_chats_in_use_are_watched(chats: Chats) -> None:
    opened = [chats.new() for _ in range(20)]
    for chat in opened:
        put(chat.workspace, {"a": ("file", b"1")})
        save(chat)
    assert open_queues() == 0
    for chat in opened:
        save(chat)
        save(chat)
    assert 0 < open_queues() <= 16
    for chat in opened:
        assert look(chat) == read_everything(chat)
        chat.store.close()
    watches.end()
    assert open_queues() == 0


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_missed_of_what_others_do_while_it_looks(chat: ChatStore, seed: int) -> None:
    program = f"""
import random, sys
from pathlib import Path
from tests.workspaces.test_stat_cache import PATHS, change
chance = random.Random({seed})
kinds = ["write", "rename", "rename folder", "replace folder", "delete", "delete folder", "folder"]
for _ in range(1500):
    content = b"%d" % chance.randrange(10**6)
    change(Path(sys.argv[1]), chance.choice(kinds), *chance.choices(PATHS, k=2), content)
"""
    command = [sys.executable, "-c", program, str(chat.workspace)]
    with subprocess.Popen(command, cwd=REPOSITORY) as changing:
        while changing.poll() is None:
            with writing(chat) as writer:
                writer.save_edits()
    assert changing.returncode == 0
    with writing(chat) as writer:
        assert writer.look() == read_everything(chat)
        writer.save_edits()
    come_to_rest(chat)

    assert doubtful(chat) is not None, "the watch is believed"
    assert look(chat) == read_everything(chat)
    # A look that has doubts is made again, and leaves the trees of the first.
    assert merges.fsck(chat) == ""
