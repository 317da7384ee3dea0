"""Probes of the sandbox: each is refused at every level that holds, and gets through without one."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from covalt_git.runtime.probes import Finding
from tests.runtime.in_sandbox import HOLDING, LEVELS, python_for_everybody
from tests.stress import probe_runner
from tests.stress.sandbox_probes import PASSES, PROBES

ORDINARY = 60_000 + os.getpid() % 5_000
"""An unused id, of this process alone: the kernel counts the processes of other test runs with the same id."""

AS_ROOT = os.geteuid() == 0
WHERE = [*LEVELS, *([f"{level} as a user" for level in HOLDING] if AS_ROOT else [])]
NAMES = [probe.name for probe in PROBES]


@pytest.fixture
def findings(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str, where: str
) -> dict[str, Finding]:
    """Return the findings of all probes at a level; they run once for all pytest workers."""
    base = tmp_path_factory.getbasetemp()
    base = base if worker_id == "master" else base.parent
    kept = base / f"probes-{where.replace(' ', '-')}.json"
    with (base / f"{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(json.dumps([finding._asdict() for finding in run(where)]))
    found = [Finding(**one) for one in json.loads(kept.read_text())]
    return {finding.probe: finding for finding in found}


def run(where: str) -> list[Finding]:
    level, _, user = where.partition(" as ")
    if not user:
        return probe_runner.run(level)  # type: ignore[arg-type] # one of LEVELS
    python = python_for_everybody()
    if python is None or not Path(probe_runner.__file__).stat().st_mode & 0o004:
        pytest.skip("no interpreter here that another user can start")
    return probe_runner.run(level, python=python, user=ORDINARY)  # type: ignore[arg-type]


def test_every_probe_has_a_name_and_no_probe_was_lost() -> None:
    assert len(set(NAMES)) == len(NAMES) == 72
    assert set(PASSES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", [one for one in WHERE if not one.startswith("process")])
def test_probe_is_refused(findings: dict[str, Finding], name: str) -> None:
    finding = findings[name]

    assert (finding.verdict, finding.said) == ("refused", finding.said)


@pytest.mark.parametrize(
    "name",
    [name for name, passes in PASSES.items() if passes == "all" or (passes == "root" and AS_ROOT)],
)
@pytest.mark.parametrize("where", ["process"])
def test_probe_succeeds_without_a_sandbox(findings: dict[str, Finding], name: str) -> None:
    finding = findings[name]

    assert (finding.verdict, finding.said) == ("through", finding.said)


@pytest.mark.parametrize("name", [name for name, passes in PASSES.items() if passes == "none"])
@pytest.mark.parametrize("where", ["process"])
def test_limits_hold_at_process_too(findings: dict[str, Finding], name: str) -> None:
    assert findings[name].verdict == "refused"


def test_level_that_cannot_be_entered_leaves_every_probe_broken() -> None:
    missing = "seatbelt" if "seatbelt" not in LEVELS else "full"

    (finding,) = probe_runner.run(missing, only=["project"])  # type: ignore[arg-type] # as above

    assert finding.verdict == "broken"
