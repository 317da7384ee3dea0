"""Paths: one verdict for each name, wherever it comes from, compared with git's own checks."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.paths import (
    Verdict,
    check_path,
    collisions,
    is_git_file,
    typed,
)
from tests.tables import tables

TABLES = tables(__file__)


@pytest.mark.parametrize("path", TABLES["good_paths"])
def test_good_paths(path: str) -> None:
    assert check_path(path) == Verdict("good")
    assert check_path(path.encode()) == Verdict("good")


@pytest.mark.parametrize(("path", "reason"), TABLES["unportable_paths_say_why"])
def test_unportable_paths_say_why(path: str, reason: str) -> None:
    verdict = check_path(path)

    assert verdict.kind == "unportable"
    assert reason in verdict.reason


@pytest.mark.parametrize(
    "path",
    [
        *TABLES["refused_paths"],
        *("\ud800", "x" * 256, "ü" * 128, "/".join("a" * 129), "/".join(["ü" * 100] * 30)),
    ],
)
def test_refused_paths(path: str) -> None:
    verdict = check_path(path)

    assert verdict.kind == "refused"
    assert verdict.reason


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    assert check_path(b"a/\xff") == Verdict("refused", "its name is not UTF-8")
    assert check_path(b"\xed\xa0\x80") == Verdict("refused", "its name is not UTF-8")


@given(path=st.text() | st.binary() | st.text("/.\\git~1: \u200c\ud800", max_size=20))
def test_every_text_has_a_verdict_that_says_why(path: str | bytes) -> None:
    verdict = check_path(path)

    assert (verdict.kind == "good") == (verdict.reason == "")


@given(path=st.text(st.characters(codec="utf-8")) | st.text("ab/.git~ ", max_size=12))
def test_path_that_is_not_refused_stays_inside(path: str) -> None:
    if check_path(path).kind != "refused":
        assert not path.startswith("/")
        assert not {"", ".", "..", ".git"} & set(path.lower().split("/"))


GIT_FILES = [
    (".gitmodules", ".gitmodules"),  # itself
    (".GitModules", ".gitmodules"),  # case
    (".gitmodules . ", ".gitmodules"),  # dots-and-spaces
    (".gitmodules:x", ".gitmodules"),  # stream
    (".git\u200cmodules", ".gitmodules"),  # ignored-character
    ("GITMOD~1", ".gitmodules"),  # short-name
    ("gitmod~4 .", ".gitmodules"),  # last-plain-short-name
    ("gi7eba~9", ".gitmodules"),  # hashed-short-name
    ("GI7E~123", ".gitmodules"),  # hashed-with-more-digits
    ("~1234567", ".gitmodules"),  # hashed-with-digits-only
    ("gitatt~1", ".gitattributes"),  # attributes
    ("gi7d29~1", ".gitattributes"),  # hashed-attributes
]


@pytest.mark.parametrize(("name", "wanted"), GIT_FILES)
def test_name_that_some_system_takes_for_one_of_gits_files(name: str, wanted: str) -> None:
    assert is_git_file(name, wanted)


@pytest.mark.parametrize(
    "name",
    ["gitmodules", "gitmod~5", "gitmod~0", "gitmod~12", "gitmo~1", "gi7eba~0", "gi7ebb~1", "a~1"],
)
def test_name_that_no_system_takes_for_gits_modules(name: str) -> None:
    assert not is_git_file(name, ".gitmodules")


def test_git_fsck_takes_the_same_names_for_its_files(tmp_path: Path) -> None:
    def git(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(tmp_path), *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False)

    git("init", "--quiet")
    blob = git("hash-object", "-w", "--stdin", given="x").stdout.strip()
    trees = {
        git("mktree", "-z", given=f"120000 blob {blob}\t{name}\0").stdout.strip(): wanted
        for name, wanted in GIT_FILES
    }
    lines = git("fsck", "--strict").stderr.splitlines()

    assert len(trees) == len(GIT_FILES)
    for tree, wanted in trees.items():
        assert any(tree in line and f"{wanted[1:]}Symlink" in line for line in lines)


def test_collisions_are_reported_with_the_first_name() -> None:
    names = ["Readme", "a", "README", "ü", "u\u0308", "readme", "b"]

    assert list(collisions(names)) == [("Readme", "README"), ("ü", "u\u0308"), ("Readme", "readme")]


def test_path_is_written_as_a_shell_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a", "a b", "it's", "$HOME", "ü", "x\n  ! all is well\n\x1b[31m", "\n'\\a"]
    names += ["\udcff\n1"]
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for number, name in enumerate(names):
        (tmp_path / "there" / name).write_text(f"{number} ")
    written = [typed(tmp_path / "there" / name) for name in names]

    done = subprocess.run(
        ["bash", "-c", f"cat {' '.join(written)}"], capture_output=True, check=True
    )

    assert done.stdout.split() == [str(number).encode() for number in range(len(names))]
    assert all(one.isprintable() for one in written)
