"""Toolsets: listed and described with their problems, enabled and disabled, and hidden from roles."""

from pathlib import Path
from typing import Any

from tests.api_client import configure
from tests.operations_client import Operations

ROLES = """\
default_role: reader
roles:
  reader: {allow: ["app-builder.read_file", "app-builder.list_files", "data-lab.**"]}
  owner: {admin: true}
"""


def row(operate: Operations, toolset_id: str) -> Any:
    (found,) = (one for one in operate("list_toolsets")["toolsets"] if one["id"] == toolset_id)
    return found


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_toolset_does_not_show_its_hidden_tools(operate: Operations) -> None:
    configure(operate.root, ROLES)
    told = operate("get_toolset", toolset_id="app-builder")

    assert "run_command" not in str(told)
    assert "write_file" not in str(told)
    assert told["files"] == told["problems"] == told["mcp_servers"] == []
    assert row(operate, "app-builder")["tools"] == len(told["tools"]) == 2


def test_problems_of_an_unreadable_toolset_are_shown_to_who_sees_everything(
    operate: Operations,
) -> None:
    configure(operate.root, ROLES)
    (operate.root / "toolsets/data-lab/toolset.yaml").write_text("id: [")
    owner = operate.as_role("owner")

    for who, count in ((operate, 0), (owner, 1)):
        assert len(who("get_toolset", toolset_id="data-lab")["problems"]) == count
        assert row(who, "data-lab")["errors"] == count


def test_grants_of_a_hidden_server_are_not_shown(operate: Operations) -> None:
    operate("add_grant", toolset_id="demo", kind="server", name="far")
    operate("add_grant", toolset_id="demo", kind="process", name="started")
    configure(
        operate.root,
        'default_role: r\nroles: {r: {allow: ["demo.**", "far.**", "given.**", "pets.**"]}}',
    )
    told = operate("get_toolset", toolset_id="demo")

    assert [one["id"] for one in told["mcp_servers"]] == ["far", "given"]
    assert {*told["grants"]} == {"server-far", "process-given", "network"}


def test_a_grant_is_for_the_toolset_that_was_shown(operate: Operations) -> None:
    shown = operate("get_toolset", toolset_id="demo")["digest"]
    replace(operate.root / "toolsets/demo/toolset.yaml", "args: [server.py]", "args: [other.py]")
    request = {"toolset_id": "demo", "kind": "network", "hosts": ["api.example"]}

    assert operate.error("add_grant", digest=shown, **request).code == "moved"
    now = operate("get_toolset", toolset_id="demo")["digest"]
    assert operate("add_grant", digest=now, **request)["holds"]
