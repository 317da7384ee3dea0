"""Where two histories parted, as stock git sees it, whatever the clocks said."""

from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.git_store.graph import CommitGraph, peeled
from covalt_git.git_store.objects import CommitObject
from covalt_git.git_store.store import GitStore
from tests.workspaces.stores import git, run_git, scratch

HISTORIES = st.lists(
    st.tuples(st.lists(st.integers(0, 30), max_size=2), st.integers(0, 9)), min_size=2, max_size=14
)
"""For each commit which of those before it are its parents, and its time."""


def commit(store: GitStore, name: str, *parents: str, time: int = 0) -> str:
    who = "Ann <ann@example.com>"
    return store.write_commit(CommitObject(store.write_tree([]), parents, who, who, time, name))


def merge_base(store: GitStore, ours: str, theirs: str) -> str | None:
    return CommitGraph(store).merge_base(ours, theirs)


@settings(deadline=None)
@given(HISTORIES)
def test_git_finds_the_same(history: list[tuple[list[int], int]]) -> None:
    with scratch() as folder, GitStore.create(folder / "s.git", durable=False) as store:
        made: list[str] = []
        for number, (parents, time) in enumerate(history):
            before = dict.fromkeys(made[parent % len(made)] for parent in parents if made)
            made.append(commit(store, str(number), *before, time=time))
        ours, theirs = made[-1], made[-2]
        store.flush()

        found = merge_base(store, ours, theirs)

        listed = run_git(folder / "s.git", "merge-base", "--all", ours, theirs)
        bases = listed.stdout.decode().split()
        assert found == merge_base(store, theirs, ours)
        assert found in bases if bases else found is None
        if found is not None:
            times = {oid: int(git(store.path, "log", "-1", "--format=%ct", oid)) for oid in bases}
            assert found == max(bases, key=lambda oid: (times[oid], oid))


def test_a_commit_that_is_wanted_often_is_read_once() -> None:
    with scratch() as folder, GitStore.create(folder / "s.git", durable=False) as store:
        oid = commit(store, "one")
        assert peeled(store, [oid] * 3) == ([oid], set())
