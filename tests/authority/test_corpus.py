"""Each change of the corpus is reported with its verdict, its message and its place."""

from collections import Counter
from pathlib import Path

import pytest

from covalt_git.authority import Comparison, ProjectSnapshot, compare, read_files
from tests.authority.corpus import CASES, GUEST, GUEST_STATE, Case, Files, changed, sample
from tests.examples import one_in


def snapshot_of(root: Path, files: Files) -> ProjectSnapshot:
    """Write these files into a new folder, and return the snapshot of the project in it."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return read_files(root)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> ProjectSnapshot:
    return snapshot_of(tmp_path_factory.mktemp("base"), sample())


def test_the_corpus_changes_a_project_without_problems_in_150_ways(base: ProjectSnapshot) -> None:
    assert base.problems == ()
    assert compare(base, base).changes == ()
    assert len({case.name for case in CASES}) == len(CASES) >= 150
    assert all(changed(case) != sample() for case in CASES)
    assert sum(case.permits_nothing_more for case in CASES) <= 6


@pytest.mark.parametrize("case", one_in(3, CASES), ids=[case.name for case in CASES])
def test_a_change_is_judged_as_what_it_is(
    case: Case, tmp_path: Path, base: ProjectSnapshot
) -> None:
    head = snapshot_of(tmp_path, changed(case))
    found, back = compare(base, head), compare(head, base)
    shown = "\n".join(f"{one.verdict}: {one.message}" for one in found.changes)

    for verdict, expected in (("widening", case.wider), ("narrowing", case.narrower)):
        lines = [one.message for one in found.changes if one.verdict == verdict]
        assert [words for words in expected if not any(words in one for one in lines)] == [], shown
        assert bool(lines) == bool(expected), shown
    assert found.grown == bool(case.wider)
    check_the_opposite(found, back)
    assert without_a_line(found) == []


def check_the_opposite(found: Comparison, back: Comparison) -> None:
    """Check that the change back has the opposite verdicts."""
    there, again = (Counter(one.verdict for one in side.changes) for side in (found, back))
    if all(one.certain for side in (found, back) for one in side.changes):
        # All grants that end are one change, and each that holds again is one.
        assert bool(there["widening"]) == bool(again["narrowing"])
        assert bool(there["narrowing"]) == bool(again["widening"])
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


NOTES = "toolsets/notes/tools/notes.py"
LIMITED = "from typing import Annotated\nfrom pydantic import Field\nLEAST = 5\n"


def with_limit(limit: str, least: int = 5, more: str = "") -> Files:
    files = sample()
    text = files[NOTES].replace("deep: bool = False", f"deep: Annotated[int, Field({limit})] = 9")
    head, _, rest = text.partition("from covalt_toolset")
    limited = LIMITED.replace("5", str(least))
    return files | {NOTES: f"{head}{limited}{more}from covalt_toolset{rest}"}


@pytest.mark.parametrize(
    ("before", "now", "is_wider"),
    [
        (with_limit("ge=LEAST - 3"), with_limit("ge=LEAST - 30"), True),
        (with_limit("ge=LEAST - 3"), with_limit("ge=LEAST - 3", least=2), True),
        (with_limit("ge=LEAST - 3"), with_limit("strict=False"), True),
        (with_limit("strict=False"), with_limit("ge=LEAST - 3"), False),
        (with_limit("ge=LEAST - 3"), with_limit("ge=LEAST-3", more="OTHER = 1\n"), False),
        (with_limit("ge=LEAST - 3"), sample() | {NOTES: with_limit("")[NOTES].replace(", deep: Annotated[int, Field()] = 9", "")}, False),
    ],
)  # fmt: skip
def test_another_limit_that_cannot_be_read_counts_as_wider(
    before: Files, now: Files, *, is_wider: bool, tmp_path: Path
) -> None:
    found = compare(snapshot_of(tmp_path / "before", before), snapshot_of(tmp_path / "now", now))

    assert found.grown == is_wider, found.changes
    if is_wider:
        (change,) = [one for one in found.changes if one.verdict == "widening"]
        assert "'deep'" in change.message
        assert not change.certain


def test_the_grants_that_only_http_tools_keep_are_one_line(tmp_path: Path) -> None:
    whole = snapshot_of(tmp_path / "whole", sample())
    (ask,) = [tool for one in whole.toolsets for tool in one.tools if tool.tool_id == "guest:ask"]
    state = sample()[GUEST_STATE]
    kept = state.replace("digest:", f"requests: {{ask: '{ask.request_digest}'}}, digest:", 2)
    before = sample() | {GUEST_STATE: kept}
    now = before | {GUEST: f"# A comment\n{before[GUEST]}"}

    found = compare(snapshot_of(tmp_path / "before", before), snapshot_of(tmp_path / "now", now))

    (message,) = [one.message for one in found.changes if "HTTP" in one.message]
    secret = "send the secret GUEST_KEY to guest.example.com"
    grants = f"guest may reach *.example.com, reach guest.example.org, {secret}"
    assert message == f"{grants}: only its HTTP tools ask (was all its tools)"
    assert not found.grown


EVIL = "https://git.evil.example/p.git"


def test_a_node_that_follows_another_repository_may_do_more(tmp_path: Path) -> None:
    def node(name: str, host: str, *, password: bool) -> ProjectSnapshot:
        login = ', username: bot, password: "${GIT_TOKEN}"' if password else ""
        project = f'version: 1\nproject: {{url: "https://{host}/p.git"{login}}}\n'
        return snapshot_of(tmp_path / name, {"covalt.yaml": project})

    changes = compare(
        node("a", "git.example.com", password=False), node("b", "git.evil.example", password=True)
    )

    assert [(change.verdict, change.message) for change in changes.changes] == [
        (
            "widening",
            f"the project runs the project of {EVIL} at main (was https://git.example.com/p.git at main)",
        ),
        ("widening", "the project sends ${GIT_TOKEN} of bot to the git server of the project"),
    ]
