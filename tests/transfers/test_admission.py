"""Admission of foreign histories into a chat: each object is checked."""

import hashlib
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.git_store.graph import CommitGraph
from covalt_git.git_store.store import GitStore
from covalt_git.transfers import admission
from covalt_git.transfers.admission import Admitted, NotAdmittedError, admit
from covalt_git.workspaces.chat import ChatStore
from tests.workspaces.stores import FAST, fsck, git, scratch

Entry = tuple[str, bytes, str]

PERSON = "Ann <ann@example.com> 1700000000 +0100"


@pytest.fixture
def store(chat: ChatStore) -> Path:
    return chat.folder / "store.git"


def put_object(store: Path, kind: str, content: bytes) -> str:
    """Store arbitrary bytes as a loose object, as an attacker would; git would need a process for each."""
    data = f"{kind} {len(content)}\0".encode() + content
    oid = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    file = store / "objects" / oid[:2] / oid[2:]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(zlib.compress(data))
    return oid


def put_tree(store: Path, *entries: Entry) -> str:
    """Store a tree of (mode, name, id) exactly so."""
    lines = [
        mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries
    ]
    return put_object(store, "tree", b"".join(lines))


def put_blob(store: Path, content: bytes = b"content\n") -> str:
    return put_object(store, "blob", content)


def put_commit(store: Path, tree: str, *parents: str, at: int = 1_700_000_000) -> str:
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author Ann <ann@example.com> {at} +0100"]
    lines += [f"committer Ann <ann@example.com> {at} +0100", "", "a message\n"]
    return put_object(store, "commit", "\n".join(lines).encode())


def admitted(chat: ChatStore, *new: str, known: tuple[str, ...] = ()) -> Admitted:
    with GitStore(chat.folder / "store.git") as store:
        return admit(CommitGraph(store), new, known, config=FAST)


def refusals(chat: ChatStore, *new: str, known: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return what is refused, each path with the reason."""
    with pytest.raises(NotAdmittedError) as caught:
        admitted(chat, *new, known=known)
    assert caught.value.hint
    return [(problem.path, problem.message) for problem in caught.value.problems]


def test_signatures_and_odd_but_legal_headers_come_in(chat: ChatStore, store: Path) -> None:
    header = (
        f"tree {put_tree(store)}\nauthor {PERSON}\ncommitter  <> 0 -1200\n"
        "encoding ISO-8859-1\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n"
    )
    commit = put_object(store, "commit", header.encode() + b"\nno newline at the end \xe9")
    git(store, "update-ref", "refs/heads/main", commit)

    assert admitted(chat, commit).commits == (commit,)
    assert chat.manifest(commit).source == "push"
    assert fsck(chat) == ""


def test_a_tree_that_is_good_in_one_place_is_judged_again_in_another(
    chat: ChatStore, store: Path
) -> None:
    below = put_tree(store, ("120000", b"link", put_blob(store, b"../a.txt")))
    good = put_commit(store, put_tree(store, ("40000", b"d", below)))
    bad = put_commit(store, below, good)

    assert admitted(chat, good).commits == (good,)
    for known in ((), (good,)):
        ((path, said),) = refusals(chat, bad, known=known)
        assert (path, bad[:12] in said) == ("link", True)


def test_a_file_is_not_a_folder_in_another_place(chat: ChatStore, store: Path) -> None:
    blob = put_blob(store)
    tree = put_tree(store, ("100644", b"a", blob), ("40000", b"b", blob))

    ((path, said),) = refusals(chat, put_commit(store, tree))

    assert (path, "missing or damaged" in said) == ("b", True)


def nested(store: Path, wide: int, deep: int) -> str:
    tree = put_tree(store, ("100644", b"file", put_blob(store)))
    for _ in range(deep):
        tree = put_tree(store, *(("40000", b"%02d" % number, tree) for number in range(wide)))
    return put_commit(store, tree)


def test_a_few_trees_that_spell_a_billion_files_are_refused(chat: ChatStore, store: Path) -> None:
    ((_, said),) = refusals(chat, nested(store, 10, 9))

    assert "more than 1,000,000 files" in said


def test_a_small_file_in_many_places_may_not_fill_the_disk(
    chat: ChatStore, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "MOST_BYTES", 5000)
    assert admitted(chat, nested(store, 5, 3)).commits

    ((_, said),) = refusals(chat, nested(store, 10, 3))

    assert "together" in said


@pytest.mark.parametrize(("deep", "good"), [(100, True), (101, False), (600, False)])
def test_paths_deeper_than_a_snapshot_goes_are_refused(
    chat: ChatStore, store: Path, deep: int, *, good: bool
) -> None:
    commit = nested(store, 1, deep)
    if good:
        assert admitted(chat, commit).commits == (commit,)
    else:
        assert refusals(chat, commit)


def test_a_commit_after_one_with_deep_folders_is_refused(chat: ChatStore, store: Path) -> None:
    known = nested(store, 1, 600)
    new = put_commit(store, git(store, "rev-parse", f"{known}^{{tree}}").strip(), known)

    assert refusals(chat, new, known=(known,))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_exactly_the_commits_that_known_ones_do_not_reach_are_new(data: st.DataObject) -> None:
    """Whatever the history's shape and the commits' clocks: none is missed."""
    with scratch() as folder, GitStore.create(folder / "store.git", durable=False) as store:
        path = folder / "store.git"
        commits: list[str] = []
        tree = put_tree(path)
        for _ in range(data.draw(st.integers(1, 9))):
            parents = (
                data.draw(st.lists(st.sampled_from(commits), max_size=2, unique=True))
                if commits
                else []
            )
            at = data.draw(st.integers(1, 6))
            commits.append(put_commit(path, tree, *parents, at=at))
        new = data.draw(st.lists(st.sampled_from(commits), min_size=1, max_size=3))
        known = data.draw(st.lists(st.sampled_from(commits), max_size=3))

        found = admit(CommitGraph(store), new, known, config=FAST).commits

        wanted = git(path, "rev-list", *new, *(f"^{oid}" for oid in known)).split()
        assert set(found) == set(wanted)
        assert len(set(found)) == len(found)
        for child, parent in ((a, b) for a in found for b in store.read_commit(a).parents):
            assert parent not in found or found.index(parent) < found.index(child)
