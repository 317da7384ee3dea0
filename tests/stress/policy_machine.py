"""Calls, approvals, spent tokens and changed rules in any order, in many more steps than a test run has time for."""

import os
import subprocess
import sys
from pathlib import Path

from tests.issuers.test_policy_in_any_order import STEPS, WORLDS
from tests.stress.figures import Proof

PROMISE = (
    "In any order of calls, approvals, denials, changed rules, spent tokens and changed rows of the index, no call "
    "runs unapproved, and none runs twice."
)
COUNT = 100_000

_TEST = "tests/issuers/test_policy_in_any_order.py"


def prove(proof: Proof, count: int, seed: int) -> None:
    """Run the machine for about ``count`` steps."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--timeout=0", _TEST]
    run = subprocess.run(
        [*command, f"--hypothesis-seed={seed}"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"COVALT_EXAMPLES": str(count / (STEPS * WORLDS))},
        capture_output=True,
        text=True,
        check=False,
    )
    proof.check(run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:])
    proof.note("steps, at most", count)
    proof.note("calls that ran unapproved, or twice", 0)
