"""Each change of the corpus is reported with its verdict, its message and its place."""

import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from covalt_git.authority import Comparison, ProjectSnapshot, compare, read_commit
from tests.authority.corpus import CASES, changed, sample


def stream(branches: Mapping[str, Mapping[str, str]]) -> bytes:
    """Return input of ``git fast-import``: a commit ``main``, and on it one commit for each branch."""
    lines = []
    for name, files in branches.items():
        lines += [f"commit refs/heads/{name}", "committer A <a@example.com> 1763600000 +0000"]
        lines += ["data 1", "x", *["from refs/heads/main"] * (name != "main"), "deleteall"]
        for path, text in files.items():
            lines += [f"M 100644 inline {path}", f"data {len(text.encode())}", text]
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("corpus")
    branches = {"main": sample()} | {f"case-{at}": changed(case) for at, case in enumerate(CASES)}
    git = ["git", "-C", str(root)]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "fast-import", "--quiet"], input=stream(branches), check=True)
    return root


@pytest.fixture(scope="module")
def base(repository: Path) -> ProjectSnapshot:
    return read_commit(repository, "main")


def test_the_corpus_changes_a_project_without_problems_in_150_ways(base: ProjectSnapshot) -> None:
    assert base.problems == ()
    assert len({case.name for case in CASES}) == len(CASES) >= 150
    assert all(changed(case) != sample() for case in CASES)
    assert sum(case.permits_nothing_more for case in CASES) <= 6


@pytest.mark.parametrize("at", range(len(CASES)), ids=[case.name for case in CASES])
def test_a_change_is_judged_as_what_it_is(at: int, repository: Path, base: ProjectSnapshot) -> None:
    case, head = CASES[at], read_commit(repository, f"case-{at}")
    found, back = compare(base, head), compare(head, base)
    shown = "\n".join(f"{one.verdict}: {one.message}" for one in found.changes)

    for verdict, expected in (("widening", case.wider), ("narrowing", case.narrower)):
        lines = [one.message for one in found.changes if one.verdict == verdict]
        assert [words for words in expected if not any(words in one for one in lines)] == [], shown
        assert bool(lines) == bool(expected), shown
    assert found.grown == bool(case.wider)
    check_the_opposite(found, back)
    assert without_a_line(found) == []
    assert compare(head, head).changes == ()


def check_the_opposite(found: Comparison, back: Comparison) -> None:
    """Check that the change back has the opposite verdicts."""
    there, again = (Counter(one.verdict for one in side.changes) for side in (found, back))
    if all(one.certain for side in (found, back) for one in side.changes):
        assert there["widening"] == again["narrowing"]
        assert there["narrowing"] == again["widening"]
    assert back.grown or not there["narrowing"]
    assert found.grown or not again["narrowing"]


def without_a_line(found: Comparison) -> list[str]:
    """Return the changes that do not name a line of a file."""
    return [
        one.message
        for one in found.changes
        if one.verdict != "neutral" and one.kind != "unreadable"
        if (place := one.at or one.was) is None or not place.line
    ]
