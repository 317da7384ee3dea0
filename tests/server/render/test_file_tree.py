"""The tree of a workspace's files."""

from hypothesis import given
from hypothesis import strategies as st

from covalt_server.render.file_tree import tree

NAMES = st.text("abAB", min_size=1, max_size=2)
PATHS = st.sets(st.lists(NAMES, min_size=1, max_size=3).map("/".join))


def test_folders_come_first_and_names_are_sorted_without_case() -> None:
    paths = ("b.txt", "A.txt", "c/d.txt", "C.txt", "c/a/e.txt")

    found = tree({path: path for path in paths}, ["empty/inside"])

    assert list(found.folders) == ["c", "empty"]
    assert list(found.files) == ["A.txt", "b.txt", "C.txt"]
    assert list(found) == ["c/a/e.txt", "c/d.txt", "A.txt", "b.txt", "C.txt"]
    assert found.folders["c"].folders["a"].path == "c/a"
    assert len(found.folders["c"]) == 2
    assert len(found.folders["empty"]) == 0


@given(PATHS)
def test_every_file_is_in_the_tree_once(paths: set[str]) -> None:
    found = tree({f"{path}.txt": path for path in paths})

    assert sorted(found) == sorted(paths)
    assert len(found) == len(paths)
