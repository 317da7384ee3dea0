"""Each refused or asked call is one line of data/decisions.jsonl, by whatever door it came, without its arguments."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import covalt_git
from covalt_git.audit.decision_log import DecisionLog, DecisionLogError
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.models.decisions import DecisionRecord
from tests import command, mcp_client
from tests.api_client import BEARER, HOME, Api, configure, make_project
from tests.examples import covering, rest
from tests.operations_client import Operations

CANARY = "canary-of-this-test"
POLICY = """
default_role: owner
roles:
  owner: {admin: true}
  agent: {allow: ["app-builder.*", "workspace.*"]}
rules:
  - {pattern: "app-builder.write_file", roles: [agent], when: {args: {path: {under: config}}}, effect: deny}
  - {pattern: "app-builder.write_file", effect: ask, reason: the operators look at it}
  - {pattern: "workspace.read_file", roles: [agent], when: {args: {path: secret.txt}}, effect: ask}
"""
ARGS = {"path": "config/a.txt", "content": CANARY}
HIDDEN_ARGS = {"rows": [[CANARY]]}

Door = Callable[[Path, str, dict[str, Any]], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_project(tmp_path / "project")
    configure(root, POLICY)
    Operations(root)("create_chat", chat_id="c1")
    return root


def records(root: Path) -> list[DecisionRecord]:
    return [*DecisionLog(root).read()]


def by_operation(root: Path, tool_id: str, args: dict[str, Any]) -> None:
    Operations(root, "agent").error("call_tool", chat_id="c1", tool_id=tool_id, args=args)


def by_command(root: Path, tool_id: str, args: dict[str, Any]) -> None:
    options = ["--role", "agent", "call", "c1", tool_id, json.dumps(args)]
    assert command.run("-C", str(root), *options).returncode


def by_batch(root: Path, tool_id: str, args: dict[str, Any]) -> None:
    batch = root / "batch.jsonl"
    batch.write_text(json.dumps({"tool": tool_id, "args": args}), encoding="utf-8")
    options = ["--role", "agent", "call", "c1", "--batch", str(batch)]
    assert command.run("-C", str(root), *options).returncode


def by_http(root: Path, tool_id: str, args: dict[str, Any]) -> None:
    api = Api.of(root, "agent")
    assert api.tell("call_tool", chat_id="c1", tool_id=tool_id, args=args).status_code >= 400


def by_stream(root: Path, tool_id: str, args: dict[str, Any]) -> None:
    answer = (
        Api.of(root, "agent")
        .client()
        .post(
            "/api/call_tool",
            base_url=HOME,
            json={"chat_id": "c1", "tool_id": tool_id, "args": args},
            headers=BEARER | {"Accept": "text/event-stream"},
        )
    )
    assert answer.status_code >= 400


def by_python(root: Path, tool_id: str, args: dict[str, Any]) -> None:
    with covalt_git.open_project(root, role="agent") as project, pytest.raises(CovaltError):
        project.chat("c1").call(tool_id, args)


def by_mcp(root: Path, tool_id: str, args: dict[str, Any], **options: Any) -> None:
    async def say(client: Any) -> None:
        try:
            result = await client.call_tool(options.pop("name"), args)
        except Exception:  # noqa: BLE001 - the SDK's error of an unknown tool
            return
        assert result.is_error

    name = tool_id.replace(":", "." if options.get("style") != "underscore" else "_")
    options.setdefault("name", name)
    talking = {key: value for key, value in options.items() if key != "name"}
    mcp_client.talk(root, say, role="agent", chat="c1", **talking)


def by_mcp_underscore(root: Path, tool_id: str, args: dict[str, Any]) -> None:
    by_mcp(root, tool_id, args, style="underscore")


def by_meta_tool(root: Path, tool_id: str, args: dict[str, Any]) -> None:
    inner = {"name": tool_id.replace(":", "."), "arguments": args}
    by_mcp(root, "", inner, name="call_tool", mode="search")


def by_script(root: Path, tool_id: str, args: dict[str, Any]) -> None:
    path = tool_id.replace(":", ".").replace("-", "_")
    named = ", ".join(f"{name}={value!r}" for name, value in args.items())
    run = {"script": f"tools.{path}({named})"}
    operate = Operations(root, "agent")
    operate("call_tool", chat_id="c1", tool_id="workspace:run_script", args=run)


MCP_DOORS: list[Door] = [by_mcp, by_mcp_underscore, by_meta_tool]
DOORS: list[Door] = [
    *MCP_DOORS,
    by_operation,
    by_command,
    by_batch,
    by_http,
    by_stream,
    by_python,
    by_script,
]
REFUSED = [
    ("app-builder:write_file", ARGS, "denied", "policy_denied"),
    ("data-lab:summarize", HIDDEN_ARGS, "hidden", "unknown_tool"),
]
"""The tool, its arguments, the decision and the code of a denied call and of a hidden one."""


@pytest.mark.parametrize(("door", "refused"), covering(DOORS, REFUSED))
def test_a_refused_call_is_one_line_by_whatever_door_it_comes(
    root: Path, door: Door, refused: tuple[str, dict[str, Any], str, str]
) -> None:
    tool_id, args, decision, code = refused
    door(root, tool_id, args)
    (record,) = records(root)

    assert (record.decision, record.code, record.role) == (decision, code, "agent")
    assert record.tool_id == tool_id
    assert record.by == ("client:mcp" if door in MCP_DOORS else "local")
    assert record.args_digest == canonical_json.digest(args)
    pattern = "app-builder.write_file" if decision == "denied" else "summarize"
    assert pattern in " ".join(record.reasons)
    assert CANARY not in (root / "data" / "decisions.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("door", "name"),
    [
        (by_script, "run_command"),
        rest(by_script, "missing"),
        (by_mcp_underscore, "run_command"),
        rest(by_operation, "missing"),
    ],
)
@pytest.mark.parametrize("allow", ["**", "app_builder.**"])
def test_a_hidden_tool_is_recorded_by_its_id_and_its_rule(
    root: Path, door: Door, name: str, allow: str
) -> None:
    """Also if the role may see a tool with the name that the script writes, and a name that no tool has."""
    grants = f'allow: ["{allow}", "workspace.*"], deny: ["app-builder.{name}"]'
    configure(root, POLICY.replace('allow: ["app-builder.*", "workspace.*"]', grants))
    args = {"command": CANARY}
    door(root, f"app-builder:{name}", args)
    (record,) = records(root)

    assert (record.tool_id, record.decision) == (f"app-builder:{name}", "hidden")
    assert "app-builder" in " ".join(record.reasons)


def test_an_asked_call_is_one_line_with_its_approval(root: Path) -> None:
    args = {"path": "a.txt", "content": CANARY}
    pending = Operations(root, "agent")(
        "call_tool", chat_id="c1", tool_id="app-builder:write_file", args=args
    )
    (record,) = records(root)

    assert (record.decision, record.code, record.chat_id) == ("asked", None, "c1")
    assert (record.call_id, record.execution_id) == (pending["id"], pending["execution_id"])
    assert record.reasons == ("rule app-builder.write_file requires it: the operators look at it",)
    assert CANARY not in (root / "data" / "decisions.jsonl").read_text(encoding="utf-8")


def test_refusals_of_decisions_edits_and_unrecorded_calls_are_lines(root: Path) -> None:
    agent = Operations(root, "agent")
    args = {"path": "a.txt", "content": "x"}
    pending = agent("call_tool", chat_id="c1", tool_id="app-builder:write_file", args=args)
    agent.error("approve_call", execution_id=pending["execution_id"])
    agent.error("deny_call", execution_id=pending["execution_id"])
    configure(root, POLICY.replace('"app-builder.*", "workspace.*"', '"workspace.read_*"'))
    agent.error("update_workspace_file", chat_id="c1", path="b.txt", content="x")
    read = {"path": "secret.txt"}
    agent.error("call_tool", chat_id="c1", tool_id="workspace:read_file", args=read)
    Operations(root).error("approve_call", execution_id=pending["execution_id"])

    assert [(record.tool_id, record.code) for record in records(root)[1:]] == [
        ("app-builder:write_file", "may_not_approve"),
        ("app-builder:write_file", "may_not_approve"),
        ("workspace:write_file", "forbidden"),
        ("workspace:read_file", "needs_person"),
        ("app-builder:write_file", "no_longer_callable"),
    ]


def test_a_client_that_tries_to_approve_its_own_call_is_a_line(root: Path) -> None:
    configure(root, POLICY.replace('"workspace.*"]}', '"workspace.*"], approve: ["**"]}'))
    args = {"path": "a.txt", "content": "x"}

    async def say(client: Any) -> None:
        pending = await client.call_tool("app-builder.write_file", args)
        execution_id = mcp_client.error_of(pending)["execution_id"]
        await client.call_tool("resume", {"execution_id": execution_id, "approved": True})

    mcp_client.talk(root, say, role="agent", chat="c1")
    assert [(record.decision, record.code) for record in records(root)] == [
        ("asked", None),
        ("denied", "may_not_approve"),
    ]


def test_names_that_are_no_decision_are_no_lines(root: Path) -> None:
    owner, agent = Operations(root), Operations(root, "agent")
    for operate, tool_id in (
        (owner, "nope:nope"),  # the role would see it
        (agent, f"app-builder:{CANARY.replace('-', '_')}"),
        (agent, f"{CANARY} is no id"),
    ):
        operate.error("call_tool", chat_id="c1", tool_id=tool_id, args={})
    agent.error("call_tool", chat_id="c1", tool_id="app-builder:write_file", args={"path": 1})

    assert records(root) == []


def test_a_log_that_cannot_be_written_lets_no_asked_call_wait_and_changes_no_refusal(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Operations(root, "agent")
    refused = agent.error("call_tool", chat_id="c1", tool_id="data-lab:summarize", args={})
    (root / "data" / "decisions.jsonl").unlink()
    (root / "data" / "decisions.jsonl").mkdir()
    caplog.clear()
    again = agent.error("call_tool", chat_id="c1", tool_id="data-lab:summarize", args={})
    assert (again.as_json(), again.http_status) == (refused.as_json(), refused.http_status)
    assert "is not recorded" in caplog.text

    asked = {"path": "a.txt", "content": "x"}
    error = agent.error("call_tool", chat_id="c1", tool_id="app-builder:write_file", args=asked)
    assert isinstance(error, DecisionLogError)
    assert Operations(root)("list_approvals")["approvals"] == []
    with covalt_git.open_project(root) as project:
        assert [*project.chat("c1").log()] == []
