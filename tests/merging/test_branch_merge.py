"""Merging branches: what goes together is joined, exactly as stock git would, and all at once."""

import pytest
from hypothesis import HealthCheck, assume, given, settings

from covalt_git.merging import branch_merge
from covalt_git.merging.merge_conflicts import Choice
from covalt_git.workspaces.chat import ChatStore, MovedError
from covalt_git.workspaces.folders import Folder
from covalt_git.workspaces.switching import Switch
from covalt_git.workspaces.writing import writing
from tests.examples import examples
from tests.merging.merges import (
    TEXT,
    differ_in_how_both_made_one,
    folder,
    gits_tree,
    histories,
    merge,
    parted,
    text,
    tree_id,
    waiting,
)
from tests.workspaces.stores import (
    Layout,
    branch_off,
    checkout,
    clear,
    fsck,
    git,
    open_chats,
    put,
    save,
    scratch,
)

BASE: Layout = {"a": ("file", TEXT), "b": ("file", b"b"), "d/c": ("file", b"c")}


def test_a_push_that_comes_first_takes_the_switch_back(chat: ChatStore) -> None:
    parted(chat, BASE, BASE | {"o": ("file", b"o")}, BASE | {"t": ("file", b"t")})
    head, theirs = chat.head(), chat.branch("idea").manifest_id
    with writing(chat) as writer:
        git(chat.folder / "store.git", "update-ref", "refs/heads/main", "main~1")
        with pytest.raises(MovedError, match="the branch 'main' has moved"):
            writer.switch("main", old=head, before=head, new=theirs)

    assert folder(chat) == BASE | {"o": ("file", b"o")}
    assert not (chat.folder / "switch.json").exists()


@pytest.mark.parametrize("active", ["main", "new"], ids=["a-branch", "a-branch-without-commits"])
def test_a_killed_undo_of_a_switch_is_finished_by_the_next_writer(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch, active: str
) -> None:
    parted(chat, BASE, BASE | {"o": ("file", b"o")}, BASE | {"t": ("file", b"t")})
    store, theirs = chat.folder / "store.git", chat.branch("idea").manifest_id
    if active == "new":
        clear(chat.workspace)
        git(store, "symbolic-ref", "HEAD", "refs/heads/new")
    head = chat.head()
    place, places = Switch.place, list[Switch]()

    def killed_in_undo(switch: Switch, root: Folder) -> bool:
        places.append(switch)
        if len(places) > 1:
            raise KeyboardInterrupt
        return place(switch, root)

    monkeypatch.setattr(Switch, "place", killed_in_undo)
    git(store, "update-ref", f"refs/heads/{active}", "main~1" if active == "main" else "main")
    moved = chat.head()
    with pytest.raises(KeyboardInterrupt), writing(chat) as writer:
        writer.switch(active, old=head, before=head, new=theirs)
    monkeypatch.undo()
    assert "t" in folder(chat)

    saved = save(chat)
    assert folder(chat) == BASE | {"o": ("file", b"o")}
    assert not (chat.folder / "switch.json").exists()
    assert saved == moved or active == "main"


def test_files_are_not_committed_on_a_commit_that_was_pushed_meanwhile(chat: ChatStore) -> None:
    parted(chat, BASE, BASE | {"o": ("file", b"o")}, BASE | {"t": ("file", b"t")})
    with writing(chat) as writer:
        head = writer.commit_changes()
        git(chat.folder / "store.git", "update-ref", "refs/heads/main", "idea")
        with pytest.raises(MovedError, match="the branch 'main' has moved"):
            writer.commit_files("edit", chat.state(f"{head}"), head, subject="edit")

    assert chat.head() == chat.branch("idea").manifest_id
    assert folder(chat) == BASE | {"o": ("file", b"o")}


def test_a_preview_into_a_branch_without_commits_returns_the_status_of_the_merge(
    chat: ChatStore,
) -> None:
    put(chat.workspace, BASE)
    save(chat)
    branch_off(chat, "idea")
    clear(chat.workspace)
    git(chat.folder / "store.git", "symbolic-ref", "HEAD", "refs/heads/new")

    with chat.scan_in_memory() as scan:
        told = branch_merge.preview(chat, scan, "idea", fast_forward=False)
    assert (told.status, merge(chat, ff=False).status) == ("fast_forward", "fast_forward")
    assert folder(chat) == BASE


def test_a_preview_returns_the_result_of_a_merge_and_stores_nothing(chat: ChatStore) -> None:
    parted(chat, BASE, BASE, BASE | {"a": ("file", text(_7="theirs"))})
    put(chat.workspace, {"a": ("file", text(_1="not saved")), "b": ("file", b"not saved")})
    before = {str(path) for path in chat.folder.rglob("*")}, folder(chat), chat.head()

    with chat.scan_in_memory() as scan:
        told = branch_merge.preview(chat, scan, "idea")

    assert ({str(path) for path in chat.folder.rglob("*")}, folder(chat), chat.head()) == before
    done = merge(chat)
    assert (told.status, told.changes, told.conflicts) == (done.status, done.changes, ())
    assert told.notes == done.notes
    assert told.manifest_id is None


SLOW = settings(
    deadline=None,
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@SLOW
@given(histories())
def test_stock_git_makes_the_same_tree(history: tuple[Layout, Layout, Layout]) -> None:
    assume(not differ_in_how_both_made_one(*history))
    with scratch() as place, open_chats(place).new("c1") as chat:
        parted(chat, *history)
        before, head = folder(chat), chat.head()
        gits = gits_tree(chat, "main", "idea")

        with chat.scan_in_memory() as scan:
            told = branch_merge.preview(chat, scan, "idea")
        done = merge(chat)

        assert (told.status, told.changes, told.conflicts, told.notes) == (
            done.status,
            done.changes,
            done.conflicts,
            done.notes,
        )
        if done.status == "conflicts":
            assert gits is None
            assert (folder(chat), chat.head()) == (before, head)
            assert merge(chat, choices={None: Choice("both")}).status == "merged"
            assert waiting(chat).keys() == {conflict.path for conflict in done.conflicts}
        elif gits is not None:
            assert tree_id(chat, "main") == gits
        assert fsck(chat) == ""


@SLOW
@given(histories())
def test_either_side_may_be_merged_into_the_other(history: tuple[Layout, Layout, Layout]) -> None:
    base, ours, theirs = history
    with scratch() as place, open_chats(place).new("c1") as chat:
        parted(chat, base, ours, theirs)
        branch_off(chat, "copy")
        checkout(chat, "main")
        done = merge(chat, ff=False)
        checkout(chat, "idea")
        other = merge(chat, "copy", ff=False)

        assert [one.path for one in done.conflicts] == [one.path for one in other.conflicts]
        if done.status == "merged":
            assert tree_id(chat, "main") == tree_id(chat, "idea")
            states = [chat.state(chat.branch(name).manifest_id) for name in ("main", "idea")]
            assert states[0] == states[1]
