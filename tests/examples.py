"""How many examples hypothesis makes up for a law: some in every run, many in ``python -m tests.stress laws``."""

import os

FACTOR = float(os.environ.get("COVALT_EXAMPLES", "0.4"))
"""What every number of examples is multiplied by."""


def examples(number: int) -> int:
    """Return how many examples to try where ``number`` are thought to be enough for long."""
    return max(1, round(number * FACTOR))
