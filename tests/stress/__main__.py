"""Run all or the named stress tests, and store their figures: ``python -m tests.stress [NAME ...]``."""

import argparse
import importlib
import sys
import time

from tests.stress.figures import DisprovedError, Proof, keep

NAMES = (
    "laws",
    "random_trees",
    "repository_trees",
    "many_writers",
    "killed_writers",
    "power_cuts",
    "failing_disk",
    "validate_touches_nothing",
    "hostile_bundles",
    "real_clients",
    "mcp_soak",
    "scripts",
    "conformance",
    "conformance_client",
    "servers",
    "rules",
    "authority_diff",
    "policy_machine",
    "leases",
    "cluster",
    "capacity",
)
_WITH_ROWS = "servers"
"""The test whose name may be followed by those of rows of its table, which are then run alone."""


def main() -> int:
    """Run what was asked for; the status is 1 when something was disproved."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.stress", description="Prove what is promised."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--count", type=int, help="how many kills, trees ...; fewer prove less")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rows: list[str] = []
    if asked.names[:1] == [_WITH_ROWS] and not {*asked.names[1:]} <= {*NAMES}:
        rows, asked.names = asked.names[1:], [_WITH_ROWS]
    unknown = sorted(set(asked.names) - set(NAMES))
    if unknown:
        parser.error(f"there is no stress test {', '.join(unknown)}; there are {', '.join(NAMES)}")
    status = 0
    for name in asked.names or NAMES:
        module = importlib.import_module(f"tests.stress.{name}")
        proof = Proof(name, module.PROMISE)
        count = asked.count or module.COUNT
        started = time.monotonic()
        try:
            module.prove(proof, count, asked.seed, *([rows] if rows else ()))
        except DisprovedError as error:
            print(f"disproved: {error}", file=sys.stderr)
            status = 1
            continue
        if not rows:
            proof.note("seconds", round(time.monotonic() - started))
        print(f"{name}: " + ", ".join(f"{what} {n}" for what, n in proof.figures.items()))
        if count == module.COUNT:
            keep(proof, f"python -m tests.stress {name}")
    return status


if __name__ == "__main__":
    sys.exit(main())
