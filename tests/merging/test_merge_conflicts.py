"""Conflicts of a merge: reported, resolved, or saved with both versions."""

from collections.abc import Iterator

import pytest

from covalt_git.errors import CovaltError
from covalt_git.merging import branch_merge
from covalt_git.merging.merge_conflicts import Choice, Choices
from covalt_git.models.commit_record import MergeDecision
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.merging.merges import TEXT, folder, merge, parted, resolve, text, waiting
from tests.workspaces.stores import Layout, fsck, git, open_chats

BOTH: Choices = {None: Choice("both")}
SEED: Layout = {"seed": ("file", b"")}

Case = tuple[Layout, Layout, Layout]

CASES: dict[str, Case] = {
    "text": (
        {"d/a.md": ("file", TEXT)},
        {"d/a.md": ("program", text(_4="ours"))},
        {"d/a.md": ("file", text(_4="theirs"))},
    ),
    "binary": (
        {"d/a.md": ("file", b"\0")},
        {"d/a.md": ("file", b"\0ours")},
        {"d/a.md": ("file", b"\0theirs")},
    ),
    "add_add": ({}, {"d/a.md": ("file", b"ours")}, {"d/a.md": ("program", b"theirs")}),
    "link": (
        {"d/a.md": ("link", b"b")},
        {"d/a.md": ("link", b"ours")},
        {"d/a.md": ("link", b"theirs")},
    ),
    "type": (
        {"d/a.md": ("file", b"b")},
        {"d/a.md": ("file", b"ours")},
        {"d/a.md": ("link", b"theirs")},
    ),
    "file_folder": (
        {},
        {"d/a.md": ("file", b"ours")},
        {"d/a.md/b": ("file", b"theirs"), "d/a.md/c/d": ("link", b"../b")},
    ),
}


def moved(layout: Layout, old: str, new: str) -> Layout:
    """Return a layout with a path, or all below it, somewhere else."""
    return {path.replace(old, new, 1): thing for path, thing in layout.items()}


@pytest.mark.parametrize("swapped", [False, True], ids=["as-written", "sides-swapped"])
@pytest.mark.parametrize("kind", CASES)
def test_both_versions_are_saved_and_either_may_be_taken_later(
    chats: Chats, kind: str, *, swapped: bool
) -> None:
    base, ours, theirs = CASES[kind]
    if swapped:
        ours, theirs = theirs, ours
    beside = moved(theirs, "d/a.md", "d/a.md.theirs-idea")
    for decision in ("ours", "theirs"):
        with chats.new() as chat:
            parted(chat, base | SEED, ours | SEED, theirs | SEED)

            assert merge(chat, choices=BOTH).status == "merged"
            assert folder(chat) == ours | beside | SEED
            assert waiting(chat) == {"d/a.md": "d/a.md.theirs-idea"}
            resolve(chat, "d/a.md", Choice(decision))
            assert folder(chat) == (ours if decision == "ours" else theirs) | SEED
            assert waiting(chat) == {}
            assert [one.source for one in chat.log(chat.head())][:2] == ["edit", "merge"]
            assert fsck(chat) == ""


@pytest.mark.parametrize(
    ("ours", "theirs", "deleted", "saved"),
    [
        pytest.param({}, {"a": ("file", b"2")}, "ours", ("a.theirs-idea", b"2"), id="by-ours"),
        pytest.param(
            {"a": ("file", b"2")}, {}, "theirs", ("a.deleted-in-idea", b"1"), id="by-theirs"
        ),
    ],
)
def test_what_one_deleted_and_the_other_changed_is_saved_too(
    chats: Chats, ours: Layout, theirs: Layout, deleted: str, saved: tuple[str, bytes]
) -> None:
    base: Layout = {"a": ("file", b"1")}
    ends: tuple[tuple[MergeDecision, Layout], ...] = (("ours", ours), ("theirs", theirs))
    for decision, after in ends:
        with chats.new() as chat:
            parted(chat, base | SEED, ours | SEED, theirs | SEED)
            done = merge(chat, choices=BOTH)

            (conflict,) = done.conflicts
            assert (conflict.kind, conflict.deleted) == ("modify_delete", deleted)
            assert folder(chat) == ours | SEED | {saved[0]: ("file", saved[1])}
            resolve(chat, "a", Choice(decision))
            assert folder(chat) == after | SEED
            with chats.new() as other:
                parted(other, base | SEED, ours | SEED, theirs | SEED)
                merge(other, choices={None: Choice(decision)})
                assert folder(other) == after | SEED


@pytest.fixture
def small(chats: Chats) -> Iterator[ChatStore]:
    """A chat that stores files of at most 1 MiB."""
    config = WorkspaceConfig(durability="fast", max_file_mb=1)
    with open_chats(chats.folder.parent, config).new() as opened:
        yield opened


def test_a_content_that_cannot_be_stored_is_refused_and_nothing_merged(small: ChatStore) -> None:
    base, ours, theirs = CASES["text"]
    parted(small, base, ours, theirs)
    choices: Choices = {"d/a.md": Choice("content", b"a" * (1 << 20) + b"a")}
    with writing(small) as writer, pytest.raises(CovaltError, match="larger than 1 MiB"):
        branch_merge.merge(writer, "idea", choices)

    assert folder(small) == ours


def test_lines_that_make_too_large_a_file_together_are_a_conflict(small: ChatStore) -> None:
    half = b"".join(b"%d\n" % number for number in range(90_000))
    texts = (TEXT, half + TEXT, TEXT + half)
    parted(small, *({"a": ("file", text)} for text in texts))

    assert [one.kind for one in merge(small).conflicts] == ["text"]


def test_many_conflicts_are_all_recorded_and_history_stays_readable_without_them(
    chat: ChatStore,
) -> None:
    names = [f"a file with a rather long name, number {number}" for number in range(150)]
    ours, theirs = (dict.fromkeys(names, ("file", side)) for side in (b"o", b"t"))
    parted(chat, SEED, SEED | ours, SEED | theirs)
    merge(chat, choices=BOTH)

    assert len(waiting(chat)) == 150
    copy = chat.folder.parent / "copy"
    store = chat.folder / "store.git"
    git(
        chat.folder, "clone", "-q", "--bare", "--single-branch", str(store), str(copy / "store.git")
    )
    with type(chat)("copy", copy, chat.config) as clone:
        manifest = clone.manifest(str(chat.head()))
        assert (manifest.source, manifest.record.merge) == ("merge", None)
        assert waiting(clone) == {}
