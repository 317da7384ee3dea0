"""Formats of problems for GitHub, SARIF readers and CI servers, and baselines."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.errors import Problem
from covalt_git.problems.baseline import (
    BrokenBaselineError,
    baseline_text,
    problem_key,
    read_baseline,
)
from covalt_git.problems.explain import titles
from covalt_git.problems.github import github_command
from covalt_git.problems.junit import junit_report
from covalt_git.problems.repository import repository_prefix
from covalt_git.problems.sarif import sarif_log
from tests.toolsets.projects import REPOSITORY

SARIF = json.loads((REPOSITORY / "fixtures/sarif/sarif-2.1.0.json").read_text(encoding="utf-8"))
for one in ("run", "toolComponent"):
    # As published this pattern has a bracket too many, and strict validators refuse it.
    assert SARIF["definitions"][one]["properties"]["language"].pop("pattern").endswith("]?$")

PROBLEMS = st.builds(
    Problem,
    path=st.text(min_size=1, max_size=12),
    line=st.integers(0, 3),
    col=st.integers(1, 9),
    code=st.sampled_from([*titles()]),
    message=st.text(max_size=30),
    hint=st.text(max_size=9),
    severity=st.sampled_from(["error", "warning"]),
    item=st.sampled_from(["", "tools[a]"]),
)

ONE = Problem("a.yaml", 2, 3, "CG201", "x: unknown", "write y", item="x")


# GitHub


def test_workflow_command_is_escaped_for_the_runner() -> None:
    odd = Problem("a,b:c%.yaml", 2, 3, "CG201", "100%\r\nsure: a,b", "write y", "warning")

    assert github_command(odd, "sub/") == (
        "::warning file=sub/a%2Cb%3Ac%25.yaml,line=2,col=3,title=covalt-git CG201::"
        "CG201 100%25%0D%0Asure: a,b%0Ahint: write y"
    )


@given(PROBLEMS)
def test_problem_is_one_workflow_command(problem: Problem) -> None:
    said = github_command(problem, "")

    assert "\n" not in said
    assert "\r" not in said
    assert said.count("::", 2) >= 1


def test_paths_are_relative_to_the_repository_of_the_project(tmp_path: Path) -> None:
    project = tmp_path / "repo/tools/project"
    project.mkdir(parents=True)

    assert repository_prefix(project) in {"", "repo/tools/project/"}  # tmp may be in a repository
    (tmp_path / "repo/.git").mkdir()
    assert repository_prefix(project) == "tools/project/"
    assert repository_prefix(tmp_path / "repo") == ""


# SARIF


@given(st.lists(PROBLEMS, max_size=4))
def test_sarif_log_satisfies_its_schema(problems: list[Problem]) -> None:
    log = sarif_log(problems, "sub dir/")

    validator = jsonschema_rs.validator_for(SARIF)
    assert [error.message for error in validator.iter_errors(json.loads(json.dumps(log)))] == []
    found = [(one["ruleId"], one["level"]) for one in log["runs"][0]["results"]]
    assert found == [(one.code, one.severity) for one in problems]


# JUnit


@given(st.lists(PROBLEMS, max_size=5))
def test_junit_report_is_xml_with_correct_counts(problems: list[Problem]) -> None:
    report = junit_report(sorted(problems), ["sound.yaml"], {"error"})

    root = ET.fromstring(report)
    cases = root.findall("testsuite/testcase")
    failures = root.findall("testsuite/testcase/failure")
    assert len(cases) == len(problems) + 1 == int(root.get("tests", ""))
    assert len(failures) == sum(one.severity == "error" for one in problems)
    assert int(root.get("failures", "")) == len(failures)
    for suite in root:
        assert int(suite.get("tests", "")) == len(suite)
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))


def test_names_of_junit_cases_are_the_same_on_other_lines_and_differ() -> None:
    problems = [ONE, replace(ONE, line=5)]
    names = [
        [case.get("name") for case in ET.fromstring(report).iter("testcase")]
        for report in (
            junit_report(problems, [], {"error"}),
            junit_report(
                [replace(problem, line=problem.line + 7) for problem in problems], [], set()
            ),
        )
    ]

    assert names == [["CG201 x", "CG201 x (2)"]] * 2


# baselines


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "problems": []}',
        '{"version": 1, "problems": [1]}',
        "[" * 5000,
        baseline_text(Counter({problem_key(ONE): 1})).replace('"count": 1', '"count": 0'),
    ],
)
def test_invalid_baseline_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "b.json"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(BrokenBaselineError, match="is not a baseline"):
        read_baseline(file)
    with pytest.raises(BrokenBaselineError, match="cannot be read"):
        read_baseline(tmp_path / "gone.json")
