"""Every one-change commit of the corpus is judged, in words, and at a line of a file."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from covalt_git.authority import Comparison, State, compare, state_at
from tests.authority.corpus import CASES, changed
from tests.authority.sample_project import sample

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WHO = "A <a@example.com> 1763600000 +0000"


def stream(branches: Mapping[str, Mapping[str, str]]) -> bytes:
    """Return what ``git fast-import`` makes a repository of: ``main``, and each branch one commit on."""
    lines = []
    for name, files in branches.items():
        above = [] if name == "main" else ["from refs/heads/main"]
        lines += [
            f"commit refs/heads/{name}",
            f"committer {WHO}",
            "data 1",
            "x",
            *above,
            "deleteall",
        ]
        for path, text in files.items():
            lines += [f"M 100644 inline {path}", f"data {len(text.encode())}", text]
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("corpus")
    branches = {"main": sample()} | {f"case-{at}": changed(case) for at, case in enumerate(CASES)}
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    subprocess.run(
        ["git", "-C", str(root), "fast-import", "--quiet"], input=stream(branches), check=True
    )
    return root


@pytest.fixture(scope="module")
def base(repository: Path) -> State:
    return state_at(repository, "main")


def told(found: Comparison) -> str:
    return "\n".join(f"{one.verdict}: {one.message}" for one in found.changes)


def test_the_sample_is_a_project_without_problems(base: State) -> None:
    assert base.problems == ()


def test_the_corpus_has_at_least_150_commits_that_differ() -> None:
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(changed(case) != sample() for case in CASES)


def test_at_most_six_changes_count_as_wider_and_permit_nothing_more() -> None:
    assert sum(case.is_false for case in CASES) <= 6


@pytest.mark.parametrize("at", range(len(CASES)), ids=[case.name for case in CASES])
def test_a_change_is_judged_as_what_it_is(at: int, repository: Path, base: State) -> None:
    case, head = CASES[at], state_at(repository, f"case-{at}")
    found, back = compare(base, head), compare(head, base)

    for verdict, expected in (("widening", case.wider), ("narrowing", case.narrower)):
        lines = [one.message for one in found.changes if one.verdict == verdict]
        missing = [words for words in expected if not any(words in line for line in lines)]
        assert missing == [], told(found)
        assert bool(lines) == bool(expected), told(found)
    assert found.grown == bool(case.wider)
    check_it_goes_the_other_way_round(found, back)
    assert without_a_line(found) == []
    assert compare(head, head).changes == ()


def check_it_goes_the_other_way_round(there: Comparison, back: Comparison) -> None:
    if all(one.certain for found in (there, back) for one in found.changes):
        assert len(there.of("widening")) == len(back.of("narrowing"))
        assert len(there.of("narrowing")) == len(back.of("widening"))
    assert back.grown or not there.of("narrowing")
    assert there.grown or not back.of("narrowing")


def without_a_line(found: Comparison) -> list[str]:
    """Return the changes that do not say where in a file they stand."""
    return [
        one.message
        for one in found.changes
        if one.verdict != "neutral" and one.kind != "unreadable"
        if (place := one.at or one.was) is None or not place.line
    ]
