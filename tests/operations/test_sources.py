"""Tools of MCP servers: listed when a user refreshes, and enabled as they were accepted."""

import json
import sys
from typing import Any

import pytest

from tests.operations.conftest import SERVERS
from tests.operations_client import Operations

OF_DISK = {"toolset_id": "gear", "namespace": "disk"}
READ = {"name": "read", "description": "Reads a file.", "inputSchema": {"type": "object"}}
WIPE = {"name": "wipe", "inputSchema": {"type": "object"}}


@pytest.fixture
def gear(operate: Operations) -> Operations:
    """Operations on a project with a server ``disk`` that is granted and offers two tools."""
    folder = operate.root / "toolsets/gear"
    folder.mkdir()
    args = json.dumps([str(SERVERS / "changing.py"), str(operate.root / "tools.json")])
    (folder / "toolset.yaml").write_text(
        "id: gear\nname: Gear\nversion: '1'\nmcp_servers:\n"
        f"  - {{id: disk, command: {sys.executable}, args: {args}}}\n"
    )
    offer(operate, READ, WIPE)
    operate("add_grant", toolset_id="gear", kind="process", name="disk")
    return operate


def offer(operate: Operations, *tools: dict[str, Any]) -> None:
    (operate.root / "tools.json").write_text(json.dumps(tools), encoding="utf-8")


def test_a_tool_that_changed_since_it_was_shown_is_not_accepted(gear: Operations) -> None:
    shown = {one["name"]: one["digest"] for one in gear("refresh_source", **OF_DISK)["drift"]}
    offer(gear, READ, WIPE | {"title": "Wipe"})
    gear("accept_tools", **OF_DISK, tools={"wipe": shown["wipe"]})
    checked = gear("refresh_source", **OF_DISK, check=True)
    parts = {one["name"]: one["parts"] for one in checked["drift"]}
    gear("refresh_source", **OF_DISK)
    error = gear.error("accept_tools", **OF_DISK, tools=shown)

    assert parts["wipe"] == [{"name": "title", "before": None, "after": "Wipe"}]
    assert error.code == "moved"
    assert "disk:wipe" in error.message
    assert gear("list_sources", toolset_id="gear")["sources"][0]["accepted"] == 0
