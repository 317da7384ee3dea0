"""The official conformance suite of MCP against our connections, signing in included."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.stress.conformance import (
    REVISIONS,
    VERSION,
    Checks,
    Found,
    check_others,
    check_reasons,
    check_revision,
    checks_in,
    installed,
    listed,
    required,
)
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


UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(
        ("auth/client-credentials-basic", "auth/client-credentials-jwt"),
        "a user signs in to a server, and never the client itself",
    ),
    **dict.fromkeys(
        ("auth/dpop", "auth/dpop-nonce"), "the SDK does not bind tokens to keys (DPoP)"
    ),
    **dict.fromkeys(
        ("auth/enterprise-managed-authorization", "auth/wif-jwt-bearer"),
        "tokens of an identity provider are not exchanged for those of a server",
    ),
}
"""Scenarios for clients that do not pass, and why."""


def prove(proof: Proof, count: int, seed: int) -> None:  # noqa: ARG001 - nothing is left to chance
    """Run what each revision requires of clients, ``count`` times."""
    node, suite = installed()
    proof.note("suite", VERSION)
    for _ in range(count):
        started: Found = {}
        for revision in REVISIONS:
            with scratch() as folder:
                found = run(node, suite, folder, "--requirements", revision)
            started |= found
            check_revision(proof, revision, found, required(suite, revision, "client"))
        others = [name for name in listed(node, suite, "client") if name not in started]
        alone: Found = {}
        for number, name in enumerate(others):
            proof.progress(number + 1, len(others))
            with scratch() as folder:
                run(node, suite, folder, "--scenario", name, "--output-dir", folder / "results")
                (checks,) = (folder / "results").rglob("checks.json")
                alone[name] = checks_in(checks)
        check_others(proof, others, alone)
        check_reasons(proof, {**started, **alone}, UNSUPPORTED)


def run(node: Path, suite: Path, own: Path, *options: str | Path) -> Found:
    """Run scenarios for a person whose own folder is ``own``; return the verdicts of the suite's summary, if it prints one."""
    env = os.environ | {
        "XDG_CONFIG_HOME": str(own),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    client = f"{sys.executable} -m {_CLIENT}"
    words = ["client", "--command", client, "--timeout", _TIMEOUT_MS, *map(str, options)]
    command = [str(node), str(suite / "dist" / "index.js"), *words]
    # In a folder of its own: the client takes its folder for the project, which must ask for no trust.
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LONGEST_S, env=env, cwd=own
    )
    summary = done.stdout.partition("=== SUITE SUMMARY ===")[2]
    return {
        found["name"]: Checks(int(found["passed"]), int(found["failed"]))
        for found in _VERDICT.finditer(summary)
    }
