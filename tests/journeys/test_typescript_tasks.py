"""An approval as a task of the TypeScript SDK 2 and its package for tasks, across a restart of the server."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from covalt_git.project import Project
from tests.browser import missing
from tests.mcp_client import make_project
from tests.operations_client import Operations
from tests.uvicorn_server import TOKEN, served

pytestmark = pytest.mark.servers

MODULES = Path(sys.prefix) / "servers" / "node_modules"
CLIENT = Path(__file__).with_name("typescript_tasks.mjs")


def run(port: int, *words: str) -> Any:
    """Return what the client prints."""
    if not (MODULES / "@modelcontextprotocol" / "ext-tasks").exists():
        missing("the TypeScript SDK 2 and its package for tasks", "make servers")
    url = f"http://127.0.0.1:{port}/mcp?chat=c1&names=underscore"
    environment = {**os.environ, "MODULES": str(MODULES), "TOKEN": TOKEN}
    result = subprocess.run(
        ["node", CLIENT, url, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.rest
def test_an_approval_is_a_task_across_a_restart_of_the_server(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    with Project.open(root).chats.new("c1"):
        pass
    with served(root) as port:
        reference = run(port, "begin", "demo_asks", json.dumps({"path": "a.txt", "content": "hi"}))

    operate = Operations(root)
    (approval,) = operate("list_approvals")["approvals"]
    operate("approve_call", execution_id=approval["execution_id"])

    with served(root) as port:
        result = run(port, "settle", json.dumps(reference))
    assert result["structuredContent"] == {"written": "a.txt"}
    assert (root / "data/chats/c1/workspace/a.txt").read_text() == "hi"
