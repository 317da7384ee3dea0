"""The official conformance suite of MCP against our connections, signing in included."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.stress.conformance import REVISIONS, VERSION, installed, required
from tests.stress.figures import Proof
from tests.stress.installing import LONGEST_S
from tests.workspaces.stores import scratch

PROMISE = (
    "The MCP client, with its OAuth login, passes the conformance suite of the protocol, for "
    "both versions, without a list of expected failures."
)
COUNT = 1
_CLIENT = "tests.stress.conformance_client_under_test"
_TIMEOUT_MS = "120000"
_VERDICT = re.compile(
    r"^[✓✗] (?P<name>\S+): (?P<passed>\d+) passed, (?P<failed>\d+) failed", re.MULTILINE
)


class Checks(NamedTuple):
    """How many checks of one scenario passed and failed."""

    passed: int
    failed: int


def prove(proof: Proof, count: int, seed: int) -> None:  # noqa: ARG001 - nothing is left to chance
    """Run what each revision requires of clients, ``count`` times."""
    node, suite = installed()
    proof.note("suite", VERSION)
    for turn in range(count):
        for number, revision in enumerate(REVISIONS):
            proof.progress(turn * len(REVISIONS) + number, count * len(REVISIONS))
            with scratch() as folder:
                found = run(node, suite, revision, folder)
            _tell(proof, revision, found, required(suite, revision, "client"))
    proof.progress(count * len(REVISIONS), count * len(REVISIONS))


def run(node: Path, suite: Path, revision: str, own: Path) -> dict[str, Checks]:
    """Run the suite for a person whose own folder is ``own``; return its verdict of each scenario."""
    env = os.environ | {
        "XDG_CONFIG_HOME": str(own),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    client = f"{sys.executable} -m {_CLIENT}"
    words = ["client", "--command", client, "--requirements", revision, "--timeout", _TIMEOUT_MS]
    command = [str(node), str(suite / "dist" / "index.js"), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LONGEST_S, env=env
    )
    summary = done.stdout.partition("=== SUITE SUMMARY ===")[2]
    return {
        found["name"]: Checks(int(found["passed"]), int(found["failed"]))
        for found in _VERDICT.finditer(summary)
    }


def _tell(
    proof: Proof, revision: str, found: Mapping[str, Checks], told: Mapping[str, str]
) -> None:
    needed = [name for name, why in told.items() if not why]
    missing = [name for name in needed if name not in found]
    broken = [name for name in needed if name in found and not _passed(found[name])]
    proof.check(not missing, f"{revision}: the suite did not run {', '.join(missing)}")
    proof.check(not broken, f"{revision}: {', '.join(broken)} fail")
    proof.note(f"{revision}: required scenarios, all passed", len(needed))
    proof.note(f"{revision}: checks in them", sum(found[name].passed for name in needed))
    beside = sorted(set(found) - set(needed))
    passed = [name for name in beside if _passed(found[name])]
    proof.note(f"{revision}: optional scenarios, passed", ", ".join(passed) or "none")
    failed = [name for name in beside if name not in passed]
    proof.note(f"{revision}: optional scenarios, failed", ", ".join(failed) or "none")


def _passed(checks: Checks) -> bool:
    return checks.passed > 0 and checks.failed == 0
