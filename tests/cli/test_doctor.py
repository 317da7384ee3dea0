"""``covalt-git doctor``: what it prints of the machine and of its walls, and when it exits with 1."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from covalt_git.cli import cli, doctor
from covalt_git.runtime import sandbox
from covalt_git.runtime.probes import PROBES
from covalt_git.runtime.probing import Finding, Verdict
from covalt_git.runtime.sandbox import Available

if TYPE_CHECKING:
    from covalt_git.models.calls import SandboxLevel


def finding(verdict: Verdict) -> Finding:
    return Finding("project", "reads the project's covalt.yaml", "full", verdict, "what it said")


def test_machine_and_every_level_are_shown() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--quick"])

    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "MACHINE"
    assert {"covalt-git", "python", "system", "git", "disk"} <= {
        line.split()[0] for line in lines if line
    }
    assert [line.split()[0] for line in lines[-4:]] == ["full", "landlock", "seatbelt", "process"]
    assert f"{sandbox.level()} " in result.output
    assert sum("in force" in line for line in lines) == 1


def test_json_has_the_same() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--quick", "--json"])

    told = json.loads(result.stdout)
    assert told["level"] == sandbox.level()
    assert [one["level"] for one in told["levels"]] == ["full", "landlock", "seatbelt", "process"]
    assert told["machine"]["covalt-git"]["value"]
    assert told["probes"] == []


@pytest.mark.parametrize(("verdict", "code"), [("refused", 0), ("through", 1), ("broken", 1)])
def test_exit_code_tells_of_a_probe_that_was_not_refused(verdict: Verdict, code: int) -> None:
    found = [finding("refused"), finding(verdict)]

    assert doctor.exit_code({"full": found}, in_force="full") == code
    assert doctor.exit_code({"full": found}, in_force="process") == code


@pytest.mark.parametrize(("in_force", "code"), [("landlock", 0), ("process", 1)])
def test_what_gets_through_to_a_process_counts_where_there_is_nothing_stronger(
    in_force: SandboxLevel, code: int
) -> None:
    assert doctor.exit_code({"process": [finding("through")]}, in_force=in_force) == code


def test_every_level_that_is_here_is_probed_and_process_is_told_as_it_is() -> None:
    result = CliRunner().invoke(cli, ["doctor"])

    assert result.exit_code == int(sandbox.level() == "process")
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    for level in (one.level for one in sandbox.levels() if one.here):
        counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (\w+)", lines[level])}
        assert sum(counts.values()) == len(PROBES)
        if level == "process":
            assert counts["through"] > counts["refused"] > 0
            assert "keeps accidents apart, not malice" in lines[level]
        else:
            assert counts == {"refused": len(PROBES)}


def test_probe_that_got_through_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    levels = [
        Available("full", here=True),
        Available("landlock", here=False, why="old", hint="new"),
    ]

    doctor.print_levels(levels, {"full": [finding("refused"), finding("through")]}, verbose=False)

    assert capsys.readouterr().out.splitlines()[1:] == [
        f"full      {'in force' if sandbox.level() == 'full' else 'yes     '}  1 refused, 1 through",
        "landlock  no        -                     old; new"
        if sandbox.level() == "full"
        else "landlock  in force  -                     old; new",
        "full: through: a tool reads the project's covalt.yaml: what it said",
    ]
