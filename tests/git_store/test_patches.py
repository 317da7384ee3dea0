"""Patches of files, which stock git and ``patch`` apply."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.git_store.objects import EXECUTABLE, FILE, LINK
from covalt_git.git_store.outer_repository import create_work_repository
from covalt_git.git_store.patches import Side, file_patch
from covalt_git.git_store.store import GitStore
from tests.examples import examples
from tests.workspaces.stores import git, scratch

NAMES = st.text(st.sampled_from([*'a" \\\t\r\v\x07\x7fä€ 😀']), min_size=1, max_size=6).filter(
    lambda name: name.strip(" .") != ""
)
LINES = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"a\rb\n", b"\x0c\n", b"\xc3\xa4\n", b"c"]), max_size=8
)
TEXTS = LINES.map(b"".join)
CONTENTS = st.one_of(TEXTS, st.binary(max_size=200), st.just(b"\0" * 100), st.just(b"\xe4\n"))
SIDES = st.none() | st.tuples(st.sampled_from([FILE, EXECUTABLE, LINK]), CONTENTS)


def applied(
    folder: Path, path: str, old: Side | None, new: Side | None, *, object_format: str = "sha1"
) -> list[str]:
    """Return what ``git apply --cached`` makes of the patch: the mode and id of the path, if it is left."""
    git(folder, "init", "--quiet", f"--object-format={object_format}")
    with GitStore(folder / ".git", durable=False) as store:
        oid = None if old is None else store.write_blob(old[1])
        store.flush()
    if old is not None and oid is not None:
        staged = f"{old[0]:o} {oid}\t{path}\0".encode()
        git(folder, "update-index", "--add", "-z", "--index-info", given=staged)
    patch = file_patch(path, old, new, binary=True, object_format=object_format)
    git(folder, "apply", "--cached", "--allow-empty", "--whitespace=nowarn", given=patch)
    return git(folder, "ls-files", "--stage", "-z").split("\0")[:-1]


@settings(max_examples=examples(150), deadline=None)
@given(NAMES, SIDES, SIDES, st.sampled_from(["sha1", "sha256"]))
def test_git_applies_a_patch_of_any_file(
    path: str, old: Side | None, new: Side | None, object_format: str
) -> None:
    if old == new:
        return
    with scratch() as folder:
        staged = applied(folder, path, old, new, object_format=object_format)
        with GitStore(folder / ".git", durable=False) as store:
            oid = None if new is None else store.write_blob(new[1])
    assert staged == ([] if new is None else [f"{new[0]:o} {oid} 0\t{path}"])


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch")
@pytest.mark.parametrize("name", ["two words.txt", "plain.txt", 'with "quotes".txt', "ä ö"])
def test_the_program_patch_applies_a_patch_of_text(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"a\nb\n")
    patch = file_patch(name, (FILE, b"a\nb\n"), (FILE, b"a\nc\n"))
    subprocess.run(
        ["patch", "--batch", "-p1"], cwd=tmp_path, input=patch, check=True, capture_output=True
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: b"a\nc\n"}


def test_the_bytes_of_a_patch_are_those_of_git(tmp_path: Path) -> None:
    create_work_repository(tmp_path)
    for name, content in {"a b": b"1\n2\n", "c": b"1", "d": b"\0" + bytes(range(256)) * 3}.items():
        (tmp_path / name).write_bytes(content)
        git(tmp_path, "add", "-A")
        (tmp_path / name).write_bytes(content + b"3\n")
        theirs = git(tmp_path, "diff", "--binary", "--", name)
        ours = file_patch(name, (FILE, content), (FILE, content + b"3\n"), binary=True).decode()
        if name != "d":  # git writes a delta where that is shorter
            assert ours == theirs
        git(tmp_path, "apply", "--check", "--cached", given=ours.encode())
