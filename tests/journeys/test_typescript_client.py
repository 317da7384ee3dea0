"""Errors of tools with an output schema, as the client of the TypeScript SDK 1.x receives them; most hosts use it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import missing
from tests.mcp_client import make_project
from tests.uvicorn_server import TOKEN, served

pytestmark = pytest.mark.servers

MODULES = Path(sys.prefix) / "servers" / "node_modules"
CLIENT = Path(__file__).with_name("typescript_client.mjs")
CALLS = [
    ["demo_write", {"path": "a.txt", "content": "hi"}],
    ["demo_write", {"path": "missing/a.txt", "content": "hi"}],
    ["demo_write", {}],
    ["demo_asks", {"path": "a.txt", "content": "hi"}],
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (MODULES / "@modelcontextprotocol" / "sdk").exists():
        missing("the TypeScript SDK", "make servers")
    return make_project(tmp_path_factory.mktemp("typescript") / "project")


@pytest.fixture(params=["stdio", "http"])
def target(root: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "stdio":
        command = [str(Path(sys.prefix) / "bin" / "covalt-git"), "-C", str(root), "mcp"]
        yield json.dumps([*command, "--names", "underscore"])
        return
    with served(root) as port:
        yield f"http://127.0.0.1:{port}/mcp?names=underscore"


def test_the_typescript_client_gets_the_reason_and_the_execution_id(target: str) -> None:
    env = {**os.environ, "MODULES": str(MODULES), "TOKEN": TOKEN}
    argv = ["node", str(CLIENT), target, json.dumps(CALLS)]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=True, timeout=60)

    answers: list[dict[str, Any]] = json.loads(done.stdout)

    assert [answer.get("error") for answer in answers] == [None] * len(CALLS)
    results = [answer["result"] for answer in answers]
    assert results[0]["structuredContent"] == {"written": "a.txt"}
    errors = [result["_meta"]["covalt-git/error"] for result in results[1:]]
    codes = ["tool_raised", "invalid_arguments", "approval_needed"]
    assert [error["error"] for error in errors] == codes
    assert errors[-1]["execution_id"] in results[-1]["content"][0]["text"]
