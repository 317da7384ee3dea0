"""``covalt-git doctor``: the machine, the sandbox levels, and when it exits with 1."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.cli import doctor
from covalt_git.models.calls import SandboxLevel
from covalt_git.runtime import probes, sandbox_levels
from covalt_git.runtime.probes import Finding
from covalt_git.runtime.sandbox.trial import Verdict

Cli = Callable[..., tuple[int, str]]
LEVELS = ["full", "landlock", "seatbelt", "process"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder without a project, which doctor does not need."""
    return tmp_path


def finding(verdict: Verdict) -> Finding:
    return Finding("project", "reads the project's covalt.yaml", "full", verdict, "what it said")


def test_the_machine_and_each_level_are_shown(cli: Cli) -> None:
    code, shown = cli("doctor", "--quick")
    lines = shown.splitlines()

    assert (code, lines[0]) == (0, "MACHINE")
    facts = {line.split()[0] for line in lines if line}
    assert facts >= {"covalt-git", "python", "system", "git", "disk"}
    assert [line.split()[0] for line in lines[-4:]] == LEVELS


@pytest.mark.parametrize(
    ("level", "verdict", "effective", "code"),
    [
        ("full", "refused", "full", 0),
        ("full", "through", "full", 1),
        ("full", "broken", "full", 1),
        ("full", "through", "process", 1),
        ("process", "through", "landlock", 0),
        ("process", "through", "process", 1),
    ],
)
def test_a_probe_that_got_through_is_an_error(
    level: SandboxLevel, verdict: Verdict, effective: SandboxLevel, code: int
) -> None:
    found: doctor.Findings = {level: [finding("refused"), finding(verdict)]}

    assert doctor.exit_code(found, effective=effective) == code


@pytest.mark.rest
def test_every_level_of_this_machine_is_probed(cli: Cli) -> None:
    code, shown = cli("doctor", "--json")
    verdicts: dict[str, dict[str, str]] = {}
    for one in json.loads(shown)["probes"]:
        verdicts.setdefault(one["level"], {})[one["probe"]] = one["verdict"]
    at_process = verdicts.pop("process")

    assert code == int(sandbox_levels.level() == "process")
    assert list(at_process) == [probe.name for probe in probes.PROBES]
    assert {at_process[name] for name in ("read-outside", "tcp", "signal")} == {"through"}
    assert {*verdicts} == {one.level for one in sandbox_levels.levels() if one.here} - {"process"}
    assert {verdict for one in verdicts.values() for verdict in one.values()} <= {"refused"}
