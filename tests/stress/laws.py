"""Every law that the tests state with examples or kills, tried with many more than a test run has time for."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.stress.figures import Proof

PROMISE = "No example and no kill violates a property of the tests."
COUNT = 10
"""How many times the examples that are thought to be enough for long (:mod:`tests.examples`)."""

_ROOT = Path(__file__).parents[2]


def prove(proof: Proof, count: int, seed: int) -> None:
    """Run the tests with examples of hypothesis, ``count`` times as many as they name, and those with kills, at every step."""
    command = [
        sys.executable,
        *["-m", "pytest", "-q", "-n", "auto", "-m", "hypothesis or kills", "--timeout=0"],
    ]
    done = subprocess.run(
        [*command, f"--hypothesis-seed={seed}"],
        cwd=_ROOT,
        env=os.environ | {"COVALT_EXAMPLES": str(count)},
        capture_output=True,
        text=True,
        check=False,
    )
    proof.check(done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:])
    passed = re.search(r"(\d+) passed", done.stdout)
    proof.check(passed, "no law was tried")
    proof.note("laws", int(passed[1]) if passed else 0)
    proof.note("times the examples that they name", count)
    proof.note("laws that were broken", 0)
