"""Probes of the sandbox: each is refused at every level that holds, and gets through without one."""

import os
import shutil
from pathlib import Path

import pytest

from covalt_git.runtime import probes
from tests.examples import covering, one_in
from tests.runtime.in_sandbox import HOLDING, LEVELS, python_for_everybody
from tests.stress import probe_runner
from tests.stress.sandbox_probes import PASSES, PROBES

ORDINARY = 60_000 + os.getpid() % 5_000
"""An unused id, of this process alone: the kernel counts the processes of other test runs with the same id."""

AS_ROOT = os.geteuid() == 0
NAMES = [probe.name for probe in PROBES]


def test_every_probe_has_a_name_and_no_probe_was_lost() -> None:
    assert len(set(NAMES)) == len(NAMES) == 72
    assert set(PASSES) == set(NAMES)


@pytest.mark.parametrize(
    ("level", "as_user"), covering(HOLDING, [False, True] if AS_ROOT else [False])
)
def test_probe_is_refused(level: str, *, as_user: bool) -> None:
    options = {}
    if as_user:
        python = python_for_everybody()
        if python is None or not Path(probe_runner.__file__).stat().st_mode & 0o004:
            pytest.skip("no interpreter here that another user can start")
        options = {"python": python, "user": ORDINARY}

    found = probe_runner.run(level, **options)  # type: ignore[arg-type] # one of the levels

    assert [one.probe for one in found] == NAMES
    assert [one for one in found if one.verdict != "refused"] == []


SERVERS = [name for name in ("python", "node") if name == "python" or shutil.which("node")]
IN_SERVERS = [name for name in NAMES if name != "memory-bomb"]
"""It only reserves memory, which programs of MCP servers may: test_server_programs.py has one that uses it."""


OF_EACH_CLASS = [probe.name for probe in probes.PROBES if probe.name in IN_SERVERS]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(OF_EACH_CLASS, id="one-of-each-class"),
        pytest.param(IN_SERVERS, id="all", marks=pytest.mark.rest),
    ],
)
@pytest.mark.parametrize(("level", "server"), covering(HOLDING, SERVERS))
def test_probe_inside_an_mcp_server_is_refused(level: str, server: str, names: list[str]) -> None:
    found = probe_runner.run(level, server=server, only=names)  # type: ignore[arg-type] # as above

    assert [one.probe for one in found] == names
    assert [one for one in found if one.verdict != "refused"] == []


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([probe.name for probe in probes.PROBES], id="one-of-each-class"),
        pytest.param(NAMES, id="all", marks=pytest.mark.rest),
    ],
)
@pytest.mark.parametrize("level", HOLDING)
def test_probe_inside_the_process_of_a_script_is_refused(level: str, names: list[str]) -> None:
    found = probe_runner.run(level, server="script", only=names)  # type: ignore[arg-type] # as above

    assert [one.probe for one in found] == names
    assert [one for one in found if one.verdict != "refused"] == []


@pytest.mark.parametrize("server", one_in(2, ["python", "script"]))
def test_probe_inside_a_program_succeeds_without_a_sandbox(server: str) -> None:
    names = ["read-outside", "write-outside", "tcp", "environment", "signal"]

    found = probe_runner.run("process", server=server, only=names)

    assert {one.probe: one.verdict for one in found} == dict.fromkeys(names, "through"), found


@pytest.mark.rest
def test_probe_succeeds_without_a_sandbox_unless_a_limit_refuses_it() -> None:
    passing = {"all": "through", "root": "through", "none": "refused"}
    if not AS_ROOT:
        del passing["root"]
    expected = {name: passing[passes] for name, passes in PASSES.items() if passes in passing}

    found = probe_runner.run("process", only=[*expected])

    assert {one.probe: one.verdict for one in found} == expected, found


def test_level_that_cannot_be_entered_leaves_every_probe_broken() -> None:
    missing = "seatbelt" if "seatbelt" not in LEVELS else "full"

    (finding,) = probe_runner.run(missing, only=["project"])  # type: ignore[arg-type] # as above

    assert finding.verdict == "broken"
