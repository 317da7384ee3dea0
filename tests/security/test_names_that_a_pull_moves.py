"""What a user decided about the tools of one server never holds for another that a pull gives its name."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from covalt_git.errors import CovaltError
from covalt_git.runtime.sandbox_levels import is_sandbox
from tests.operations_client import Operations
from tests.trusting import use_config

needs_sandbox = pytest.mark.skipif(not is_sandbox(), reason="this machine has no sandbox")

SERVER = """\
import json, sys
schema = {"type": "object", "properties": {"version": {"type": "string"}}, "required": ["version"]}
tool = {"name": "deploy", "description": "Deploy a version.", "inputSchema": schema}
info = {"name": "x", "version": "1"}
facts = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": info}}
cache = {"cacheScope": "private", "ttlMs": 0}
for line in sys.stdin:
    request = json.loads(line)
    version = request.get("params", {}).get("arguments", {}).get("version")
    text = {"type": "text", "text": f"deployed {version} to PLACE"}
    methods = {
        "server/discover": cache | {"capabilities": {"tools": {}}, "supportedVersions": ["2026-07-28"]},
        "tools/list": cache | {"tools": [tool]},
        "tools/call": {"content": [text], "isError": False},
    }
    if "id" in request:
        result = facts | methods[request["method"]]
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
"""Written by hand, because importing the SDK takes a second."""
STATE = "toolsets/state/ev.yaml"


@pytest.fixture
def operate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Operations:
    """A project of another user, with two servers whose tool is accepted; only that of ``staging`` needs no approval."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    root = tmp_path / "project"
    (root / "toolsets/ev").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\nroles: {owner: {admin: true}}\n")
    servers = [
        {"id": name, "command": sys.executable, "args": [f"{name}.py"]}
        for name in ("staging", "prod")
    ]
    for server in servers:
        (root / f"toolsets/ev/{server['id']}.py").write_text(
            SERVER.replace("PLACE", str(server["id"]))
        )
    manifest: dict[str, Any] = {"id": "ev", "name": "ev", "version": "1", "mcp_servers": servers}
    (root / "toolsets/ev/toolset.yaml").write_text(yaml.safe_dump(manifest))
    owner = Operations(root, role="owner")
    for name in ("staging", "prod"):
        owner("add_grant", toolset_id="ev", kind="server", name=name)
        outcome = owner("refresh_sources", sources=[f"ev/{name}"], accept=True)["sources"][0]
        assert not outcome["failed"], outcome
    owner("override_tool", tool_id="staging:deploy", requires_confirmation=False)
    owner("create_chat", chat_id="c1")
    return owner


def deployed(operate: Operations, tool_id: str) -> str:
    """Return the result of a call, ``pending``, or the code of its error."""
    request = {"chat_id": "c1", "tool_id": tool_id, "args": {"version": "1"}}
    try:
        answer = operate("call_tool", **request)
    except CovaltError as error:
        return error.code
    return str(answer["result"] if answer["status"] == "success" else answer["status"])


def pull(root: Path, aliases: dict[str, str]) -> None:
    """Rename servers in the state file and in the locks, as a pull can."""
    state = yaml.safe_load((root / STATE).read_text())
    old, state["aliases"] = state.get("aliases", {}), aliases
    (root / STATE).write_text(yaml.safe_dump(state))
    locks = {}
    for name in ("staging", "prod"):
        file = root / "toolsets/locks" / f"{old.get(name, name)}.yaml"
        locks[aliases.get(name, name)] = yaml.safe_load(file.read_text())
    for namespace, lock in locks.items():
        lock["namespace"] = namespace
        (root / "toolsets/locks" / f"{namespace}.yaml").write_text(yaml.safe_dump(lock))


@needs_sandbox
def test_a_pull_that_renames_servers_gives_none_the_decisions_about_another(
    operate: Operations,
) -> None:
    assert "to staging" in deployed(operate, "staging:deploy")
    assert deployed(operate, "prod:deploy") == "pending"
    swapped = {"staging": "prod", "prod": "staging"}

    pull(operate.root, swapped)
    assert deployed(operate, "staging:deploy") == "not_trusted"
    rows = operate("list_permissions")["permissions"]
    asked = " ".join(line for row in rows if not row["trusted"] for line in row["lines"])
    assert "call staging:deploy of its MCP server prod" in asked
    assert "staging:deploy of prod" in asked  # without approval

    operate("trust_project")
    assert "to prod" in deployed(operate, "staging:deploy")
    pull(operate.root, {})  # what the user decided at first
    assert "to staging" in deployed(operate, "staging:deploy")


@pytest.mark.rest
@needs_sandbox
def test_a_pull_that_exchanges_the_programs_of_servers_is_asked_about_by_their_names(
    operate: Operations,
) -> None:
    manifest = operate.root / "toolsets/ev/toolset.yaml"
    text = manifest.read_text()
    exchanged = text.replace("- staging.py", "- X").replace("- prod.py", "- staging.py")
    manifest.write_text(exchanged.replace("- X", "- prod.py"))
    operate("renew_grants", toolset_id="ev")  # by another user
    operate("distrust_project")

    rows = operate("list_permissions")["permissions"]
    lines = [line for row in rows for line in row["lines"]]
    assert any("run its MCP server staging: " in line and "prod.py in" in line for line in lines)
