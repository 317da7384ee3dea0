"""Git's objects and refs: what we write is what git writes, and a ref moves only from where it was."""

import multiprocessing
from pathlib import Path

import pytest
from dulwich.refs import DiskRefsContainer, Ref

from covalt_git.git_store.objects import (
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    BrokenStoreError,
    CommitObject,
    TreeEntry,
)
from covalt_git.git_store.outer_repository import create_work_repository
from covalt_git.git_store.patches import file_patch
from covalt_git.git_store.store import GitStore
from tests.workspaces.stores import git, run_git, scratch

FORMATS = pytest.mark.parametrize("object_format", ["sha1", "sha256"])
MAIN = "refs/heads/main"


def commit_of(tree: str, *parents: str, message: str = "m\n") -> CommitObject:
    return CommitObject(tree, parents, "A <a@b.c>", "C <c@d.e>", 1_700_000_000, message)


def a_commit(store: GitStore, message: str = "m\n") -> str:
    return store.write_commit(commit_of(store.write_tree([]), message=message))


@FORMATS
def test_tree_equals_the_tree_of_git(tmp_path: Path, object_format: str) -> None:
    with GitStore.create(tmp_path / "s.git", object_format=object_format) as store:
        blob, below = store.write_blob(b"x"), store.write_tree([])
        entries = [
            TreeEntry(b"foo.bar", FILE, blob),
            TreeEntry(b"foo", FOLDER, below),
            TreeEntry(b"foo-bar", EXECUTABLE, blob),
            TreeEntry(b"foo0", LINK, blob),
            TreeEntry("ü".encode(), FILE, blob),
            TreeEntry(b'"q" \\', FILE, blob),
        ]
        oid = store.write_tree(entries)
        store.flush()
        kinds = {FOLDER: "tree"}
        given_lines = "".join(
            f"{entry.mode:06o} {kinds.get(entry.mode, 'blob')} {entry.oid}\t{entry.name.decode()}\0"
            for entry in entries
        )

        assert oid == git(store.path, "mktree", "-z", given=given_lines.encode()).strip()
        assert sorted(store.read_tree(oid), key=lambda one: one.name) == sorted(
            entries, key=lambda one: one.name
        )


# Refs


@FORMATS
def test_ref_moves_only_from_where_it_was(tmp_path: Path, object_format: str) -> None:
    with GitStore.create(tmp_path / "s.git", object_format=object_format) as store:
        one, two, three = (a_commit(store, message) for message in ("1\n", "2\n", "3\n"))

        assert not store.swap_ref(MAIN, one, two)
        assert store.read_ref(MAIN) is None
        assert store.swap_ref(MAIN, None, one)
        assert not store.swap_ref(MAIN, None, two)
        assert not store.swap_ref(MAIN, three, two)
        assert store.read_ref(MAIN) == one
        assert store.swap_ref(MAIN, one, two)
        assert not store.swap_ref(MAIN, one, None)
        assert git(store.path, "rev-parse", MAIN).strip() == two
        assert store.swap_ref(MAIN, two, None)
        assert not store.swap_ref(MAIN, None, None)
        assert store.refs("refs/heads/") == {}


def test_packed_ref_moves_and_goes_like_a_loose_one(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git") as store:
        one, two = a_commit(store, "1\n"), a_commit(store, "2\n")
        for ref in (MAIN, "refs/heads/a/b", "refs/covalt/x"):
            store.swap_ref(ref, None, one)
        assert store.read_ref(MAIN) == one
        git(store.path, "pack-refs", "--all", "--prune")

        assert store.refs("refs/heads/") == {"refs/heads/a/b": one, MAIN: one}
        assert not store.swap_ref(MAIN, None, two)
        assert not store.swap_ref(MAIN, two, one)
        assert store.swap_ref(MAIN, one, two)
        assert store.swap_ref("refs/heads/a/b", one, None)
        assert store.refs("refs/heads/") == {MAIN: two}
        assert git(store.path, "for-each-ref", "--format=%(refname)").split() == [
            "refs/covalt/x",
            MAIN,
        ]


def count_up(path: Path, name: int, steps: int) -> int:
    """Add so many commits of a name to main, each on what it reads; return the refused tries."""
    refused = 0
    with GitStore(path, durable=False) as store:
        tree = store.write_tree([])
        for step in range(steps):
            while True:
                before = store.read_ref(MAIN)
                parents = () if before is None else (before,)
                message = f"{name} {step} {before}\n"
                after = store.write_commit(commit_of(tree, *parents, message=message))
                if store.swap_ref(MAIN, before, after):
                    break
                refused += 1
    return refused


def test_compare_and_swap_of_four_processes_without_any_lock_loses_nothing() -> None:
    with scratch() as folder:
        path = folder / "s.git"
        GitStore.create(path, durable=False).close()
        with multiprocessing.get_context("fork").Pool(4) as pool:
            # Names, because a quick process of the pool may do the work of two: process ids repeat.
            pool.starmap(count_up, [(path, name, 25) for name in range(4)])
        subjects = git(path, "log", "--format=%s", "main").splitlines()

        assert len(subjects) == 100
        assert len({" ".join(subject.split(" ")[:2]) for subject in subjects}) == 100
        assert list(path.rglob("*.lock")) == []


def test_a_ref_that_another_process_creates_while_it_is_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GitStore.create(tmp_path / "s.git") as store, GitStore(store.path) as other:
        commit = a_commit(other)
        read = DiskRefsContainer.read_loose_ref

        def overtaken(refs: DiskRefsContainer, name: Ref) -> bytes | None:
            found = read(refs, name)
            monkeypatch.undo()
            assert other.swap_ref(MAIN, None, commit)
            return found

        monkeypatch.setattr(DiskRefsContainer, "read_loose_ref", overtaken)

        assert store.read_ref(MAIN) is None
        assert store.read_ref(MAIN) == commit


def test_store_of_a_newer_format_is_refused_by_name_before_anything_is_written(
    tmp_path: Path,
) -> None:
    GitStore.create(tmp_path / "s.git").close()
    git(tmp_path / "s.git", "config", "covalt.format", "3")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    with pytest.raises(BrokenStoreError, match="has format 3"):
        GitStore(tmp_path / "s.git")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


# What git does with it


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(None, (FILE, b"a\n"), id="added"),
        pytest.param((FILE, b"a\n"), None, id="deleted"),
        pytest.param((FILE, b"a\nb\nc\n"), (FILE, b"a\nB\nc\n"), id="modified"),
        pytest.param((FILE, b"a"), (EXECUTABLE, b"a"), id="mode"),
        pytest.param((EXECUTABLE, b"a\n"), (FILE, b" file mode \n"), id="mode-and-content"),
        pytest.param((FILE, b"a\n"), (LINK, b"a"), id="file-to-link"),
        pytest.param((LINK, b"a"), (LINK, b"b"), id="link"),
        pytest.param((FILE, b"a\r\n"), (FILE, b"a\n"), id="line-ends"),
        pytest.param((FILE, b"a"), (FILE, b"a\n"), id="last-line"),
        pytest.param(None, (FILE, b""), id="empty"),
    ],
)
def test_git_applies_the_patch(
    tmp_path: Path, old: tuple[int, bytes] | None, new: tuple[int, bytes] | None
) -> None:
    create_work_repository(tmp_path)
    with GitStore(tmp_path / ".git") as store:
        before, after = (
            None if side is None else (side[0], store.write_blob(side[1])) for side in (old, new)
        )
        store.flush()
    if before is not None:
        git(tmp_path, "update-index", "--add", "--cacheinfo", f"{before[0]:o},{before[1]},d/ä b")
    patch = file_patch("d/ä b", old, new)
    git(tmp_path, "apply", "--cached", "--whitespace=nowarn", given=patch)
    staged = git(tmp_path, "ls-files", "--stage").split()[:2]

    assert staged == ([] if after is None else [f"{after[0]:o}", after[1]])


def test_alternates_that_name_each_other_are_damage(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git") as store:
        (store.path / "objects/info").mkdir()
        (store.path / "objects/info/alternates").write_text(f"{store.path}/objects\n")

    with GitStore(tmp_path / "s.git") as store:
        with pytest.raises(BrokenStoreError):
            store.read_blob("0" * 40)
        assert not store.has("0" * 40)


def test_push_into_the_folder_of_a_store_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "c1" / "store.git"
    store.parent.mkdir()
    GitStore.create(store, durable=False).close()
    git(tmp_path, "clone", "--quiet", str(store), "copy")
    git(tmp_path / "copy", "commit", "--quiet", "--allow-empty", "-m", "mine")
    pushed = run_git(tmp_path / "copy", "push", "origin", "HEAD:refs/heads/main")

    assert pushed.returncode == 1
    assert b"/git/c1" in pushed.stderr
    with GitStore(store) as opened:
        assert opened.refs("refs/") == {}
