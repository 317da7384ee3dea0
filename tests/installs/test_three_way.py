"""Merging the files of a toolset: changes of both sides stay, and a conflict loses nothing."""

import pytest

from covalt_git.bundles.archive_reader import Entry
from covalt_git.installs.three_way import ClashingNamesError, merge_files

NAMES = ("yours", "1.1/x")
OLD, MINE, NEW = b"1\n2\n3\n", b"one\n2\n3\n", b"1\n2\nthree\n"
PICTURE = b"\x89PNG\0"


def entries(**contents: bytes) -> list[Entry]:
    return [Entry(path, content, executable=False) for path, content in sorted(contents.items())]


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "result", "kind", "words"),
    [
        (OLD, OLD, OLD, OLD, None, ""),
        (OLD, OLD, NEW, NEW, "updated", ""),
        (OLD, MINE, OLD, MINE, "kept", ""),
        (OLD, MINE, MINE, MINE, None, ""),
        (OLD, MINE, NEW, b"one\n2\nthree\n", "merged", ""),
        (None, None, NEW, NEW, "added", ""),
        (None, MINE, None, MINE, "kept", "added here"),
        (None, MINE, MINE, MINE, None, ""),
        (OLD, OLD, None, None, "removed", ""),
        (OLD, None, OLD, None, "kept", "removed here"),
        (OLD, None, None, None, None, ""),
        (OLD, MINE, None, MINE, "conflict", "removed in 1.1/x, changed here: your file is kept"),
        (OLD, None, NEW, NEW, "conflict", "changed in 1.1/x, removed here: the file is restored"),
        (
            OLD,
            b"a\n2\n3\n",
            b"b\n2\n3\n",
            b"<<<<<<< yours\na\n=======\nb\n>>>>>>> 1.1/x\n2\n3\n",
            "conflict",
            "changed in both",
        ),
        (
            None,
            b"a",
            b"b\n",
            b"<<<<<<< yours\na\n=======\nb\n>>>>>>> 1.1/x\n",
            "conflict",
            "changed in both",
        ),
    ],
)
def test_every_way_of_changing_a_file(
    base: bytes | None,
    ours: bytes | None,
    theirs: bytes | None,
    result: bytes | None,
    kind: str | None,
    words: str,
) -> None:
    sides = [entries(**({} if one is None else {"f.txt": one})) for one in (base, ours, theirs)]

    merged, steps = merge_files(sides[0], sides[1], sides[2], NAMES)

    assert merged == entries(**({} if result is None else {"f.txt": result}))
    assert [(step.path, step.kind, step.words) for step in steps] == (
        [] if kind is None else [("f.txt", kind, words)]
    )


def test_the_other_version_of_a_binary_file_gets_a_name_of_its_own() -> None:
    base, ours, theirs = (entries(logo=PICTURE + bytes([number])) for number in range(3))

    merged, steps = merge_files(base, ours, theirs, NAMES)

    assert merged == entries(**{"logo": PICTURE + b"\1", "logo.theirs-1.1-x": PICTURE + b"\2"})
    assert [step.kind for step in steps] == ["conflict"]
    assert "the other one is logo.theirs-1.1-x" in steps[0].words


@pytest.mark.parametrize(
    ("ours", "theirs"), [("a", "a/b"), ("a/b", "a"), ("a/b/c", "a"), ("Note", "note")]
)
def test_names_that_clash_are_refused(ours: str, theirs: str) -> None:
    with pytest.raises(ClashingNamesError):
        merge_files([], entries(**{ours: OLD}), entries(**{theirs: NEW, "a-b": NEW}), NAMES)
