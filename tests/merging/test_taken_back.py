"""Merges whose changes an undo or a restore took back: a merge says so, and can merge them again."""

from collections.abc import Callable

import pytest

from covalt_git.file_edits import restoring
from covalt_git.merging import branch_merge
from covalt_git.merging.merge_conflicts import Choice, Choices
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.merging.merges import folder, merge, parted, text
from tests.workspaces.stores import Layout, checkout, fsck, git, put, save

BASE: Layout = {"a": ("file", text()), "b": ("file", b"b")}
OURS: Layout = BASE | {"a": ("file", text(_1="ours"))}
THEIRS: Layout = BASE | {"a": ("file", text(_7="theirs")), "new": ("file", b"new")}
BOTH: Layout = THEIRS | {"a": ("file", text(_1="ours", _7="theirs"))}

Act = Callable[[ChatStore], None]


def undo(chat: ChatStore) -> None:
    with writing(chat) as writer:
        restoring.undo(writer)


def restore_main(chat: ChatStore) -> None:
    """Restore all files from before the merge."""
    with writing(chat) as writer:
        restoring.restore(writer, str(chat.manifest(str(chat.head())).parent_id))


def restore_file(chat: ChatStore) -> None:
    with writing(chat) as writer:
        restoring.restore(writer, str(chat.manifest(str(chat.head())).parent_id), ("new",))


def edit(chat: ChatStore) -> None:
    put(chat.workspace, {"later": ("file", b"later")})
    save(chat)


def redo(chat: ChatStore) -> None:
    with writing(chat) as writer:
        restoring.redo(writer)


def merge_again(chat: ChatStore, choices: Choices | None = None) -> branch_merge.Merge:
    with writing(chat) as writer:
        return branch_merge.merge(writer, "idea", choices, again=True)


@pytest.mark.parametrize("acts", [(undo,), (restore_main,), (undo, edit), (undo, undo, redo)])
def test_a_merge_that_was_taken_back_can_be_made_again(
    chat: ChatStore, acts: tuple[Act, ...]
) -> None:
    parted(chat, BASE, OURS, THEIRS)
    assert merge(chat).status == "merged"
    for act in acts:
        act(chat)
    before = folder(chat)
    assert {name: before[name] for name in OURS} == OURS

    undone = merge(chat)
    assert (undone.status, folder(chat)) == ("already_merged", before)
    assert undone.taken_back_by is not None
    assert chat.manifest(undone.taken_back_by).source == "restore"

    again = merge_again(chat)
    assert (again.status, again.taken_back_by) == ("merged", None)
    assert folder(chat) == before | BOTH
    assert merge(chat).taken_back_by is None
    assert fsck(chat) == ""


@pytest.mark.parametrize(
    "acts", [(), (edit,), (undo, redo), (edit, undo), (restore_file,), (undo, undo, redo, redo)]
)
def test_a_merge_that_holds_is_not_reported(chat: ChatStore, acts: tuple[Act, ...]) -> None:
    parted(chat, BASE, OURS, THEIRS)
    merge(chat)
    for act in acts:
        act(chat)
    before = folder(chat)

    for done in (merge(chat), merge_again(chat)):
        assert (done.status, done.taken_back_by) == ("already_merged", None)
    assert folder(chat) == before


def test_a_fast_forward_that_was_taken_back_can_be_made_again(chat: ChatStore) -> None:
    parted(chat, BASE, BASE, THEIRS)
    assert merge(chat).status == "fast_forward"
    undo(chat)
    edit(chat)
    assert merge(chat).taken_back_by is not None
    assert merge_again(chat).status == "merged"
    assert folder(chat) == THEIRS | {"later": ("file", b"later")}


def test_new_commits_are_merged_without_what_was_taken_back_and_that_is_said(
    chat: ChatStore,
) -> None:
    parted(chat, BASE, OURS, THEIRS)
    merge(chat)
    undo(chat)
    checkout(chat, "idea")
    edit(chat)
    checkout(chat, "main")

    done = merge(chat)
    assert done.status == "merged"
    assert done.taken_back_by is not None
    assert folder(chat) == OURS | {"later": ("file", b"later")}
    assert merge_again(chat).status == "merged"
    assert folder(chat) == BOTH | {"later": ("file", b"later")}
    assert merge(chat).taken_back_by is None


def test_a_second_merge_can_bring_back_the_first_one(chat: ChatStore) -> None:
    parted(chat, BASE, OURS, THEIRS)
    merge(chat)
    undo(chat)
    checkout(chat, "idea")
    edit(chat)
    checkout(chat, "main")

    assert merge_again(chat).status == "merged"
    assert folder(chat) == BOTH | {"later": ("file", b"later")}


def test_conflicts_stop_it_and_resolving_one_makes_it(chat: ChatStore) -> None:
    parted(chat, BASE, OURS, THEIRS)
    merge(chat)
    undo(chat)
    put(chat.workspace, {"a": ("file", text(_7="mine"))})
    save(chat)

    assert merge_again(chat).status == "conflicts"
    assert branch_merge.stopped_branch(chat) == "idea"
    stopped = branch_merge.stopped(chat)
    assert stopped is not None
    assert stopped.again
    assert merge_again(chat, {"a": Choice("theirs")}).status == "merged"
    assert folder(chat)["a"] == ("file", text(_7="theirs"))
    assert branch_merge.stopped(chat) is None


def test_a_revert_by_git_is_an_edit(chat: ChatStore) -> None:
    parted(chat, BASE, OURS, THEIRS)
    merge(chat)
    store = chat.folder / "store.git"
    reverted = git(
        store, "commit-tree", "main~1^{tree}", "-p", "main", given=b'Revert "merge"\n'
    ).strip()
    git(store, "update-ref", "refs/heads/main", reverted)
    assert merge(chat).taken_back_by is None
