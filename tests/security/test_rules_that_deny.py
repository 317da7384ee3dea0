"""A rule that denies a call refuses it at each entry, also after the call was requested."""

from pathlib import Path

import pytest

from tests.api_client import BEARER, HOME, Api, configure, make_project
from tests.operations_client import Operations

ROLES = """
default_role: owner
roles:
  owner: {admin: true}
  agent: {allow: ["**"], approve: ["**"]}
"""
WRITE = {"path": "config/a.txt", "content": "x"}


def rules(*lines: str) -> str:
    return ROLES + "".join(f"{line}\n" for line in ("rules:", *(f"  - {line}" for line in lines)))


DENY = '{pattern: "*.write_file", roles: [agent], when: {args: {path: {under: config}}}, effect: deny, reason: ask Ann}'
ASK = '{pattern: "app-builder.write_file", effect: ask}'


@pytest.fixture
def agent(tmp_path: Path) -> Operations:
    root = make_project(tmp_path / "project")
    configure(root, rules(DENY, ASK))
    Operations(root)("create_chat", chat_id="c1")
    return Operations(root, "agent")


def test_a_denied_call_is_refused_with_the_reason_and_not_recorded(agent: Operations) -> None:
    for tool_id in ("app-builder:write_file", "workspace:write_file"):
        error = agent.error("call_tool", chat_id="c1", tool_id=tool_id, args=WRITE)

        assert (error.code, error.http_status) == ("policy_denied", 403)
        assert "ask Ann" in error.message
    assert agent("list_calls", chat_id="c1")["calls"] == []
    assert (
        agent("get_tool", tool_id="app-builder:write_file")["tool_id"] == "app-builder:write_file"
    )
    checked = agent("check_arguments", tool_id="app-builder:write_file", args=WRITE)
    assert (len(checked["problems"]), checked["confirmation"]) == (1, [])


def test_an_operation_that_does_what_a_denied_call_does_is_refused(agent: Operations) -> None:
    # The role may approve, but a rule that denies cannot be approved.
    error = agent.error("update_workspace_file", chat_id="c1", **WRITE)
    assert error.code == "policy_denied"


def test_a_pending_call_that_a_rule_denies_since_cannot_be_approved(agent: Operations) -> None:
    configure(agent.root, rules(ASK))
    pending = agent("call_tool", chat_id="c1", tool_id="app-builder:write_file", args=WRITE)
    configure(agent.root, rules(DENY, ASK))

    owner = agent.as_role("owner")
    error = owner.error("approve_call", execution_id=pending["execution_id"])
    assert error.code == "policy_denied"
    assert owner("deny_call", execution_id=pending["execution_id"])["status"] == "error"


def test_a_replay_obeys_the_rules(agent: Operations) -> None:
    configure(agent.root, ROLES)
    call = agent("call_tool", chat_id="c1", tool_id="app-builder:write_file", args=WRITE)
    configure(agent.root, rules(DENY))
    error = agent.error("replay_call", chat_id="c1", call_id=call["id"])
    assert error.code == "policy_denied"


def test_a_script_gets_the_error_of_a_denied_call(agent: Operations) -> None:
    source = 'tools.app_builder.write_file(path="config/a.txt", content="x")'
    run = {"script": source}
    result = agent("call_tool", chat_id="c1", tool_id="workspace:run_script", args=run)
    assert "policy_denied" in str(result)


def test_a_denied_call_that_would_leave_no_record_is_refused(agent: Operations) -> None:
    deny = '{pattern: workspace.read_file, when: {args: {path: "a*"}}, effect: deny}'
    configure(agent.root, rules(deny))
    read = {"chat_id": "c1", "tool_id": "workspace:read_file", "args": {"path": "a.txt"}}
    assert agent.error("call_tool", **read).code == "policy_denied"


def test_a_role_without_the_right_neither_approves_nor_denies(agent: Operations) -> None:
    configure(agent.root, rules(ASK).replace(', approve: ["**"]', ""))
    pending = agent("call_tool", chat_id="c1", tool_id="app-builder:write_file", args=WRITE)
    for name in ("approve_call", "deny_call"):
        assert agent.error(name, execution_id=pending["execution_id"]).http_status == 403


READS = {
    "get_workspace_file": ("read_file", {"path": "prod.env"}),
    "get_workspace_files": ("list_files", {}),
    "get_workspace_diff": ("diff", {"old": "HEAD"}),
    "get_commit_diff": ("diff", {"old": "HEAD"}),
    "list_manifests": ("log", {}),
}


@pytest.mark.parametrize("name", READS)
def test_an_operation_that_reads_obeys_the_rules_about_the_tool_that_does(
    agent: Operations, name: str
) -> None:
    tool, request = READS[name]
    agent.commit("c1", **{"prod.env": "SECRET=1", "a.txt": "a"})
    assert agent(name, chat_id="c1", **request)

    configure(agent.root, rules(f"{{pattern: workspace.{tool}, roles: [agent], effect: deny}}"))
    assert agent.error(name, chat_id="c1", **request).code == "policy_denied"
    assert agent.as_role("owner")(name, chat_id="c1", **request)

    configure(agent.root, ROLES.replace('["**"], a', f'["**"], deny: [workspace.{tool}], a'))
    assert agent.error(name, chat_id="c1", **request).code == "forbidden"
    configure(agent.root, rules(f"{{pattern: workspace.{tool}, effect: ask}}"))
    assert agent(name, chat_id="c1", **request)


def test_a_file_that_a_rule_denies_is_neither_shown_nor_exported(agent: Operations) -> None:
    agent.commit("c1", **{"prod.env": "SECRET=1", "a.txt": "a"})
    deny = '{pattern: workspace.read_file, when: {args: {path: "*.env"}}, roles: [agent], effect: deny}'
    configure(agent.root, rules(deny))

    assert agent("get_workspace_file", chat_id="c1", path="a.txt") == b"a"
    assert agent.error("get_workspace_file", chat_id="c1", path="prod.env").code == "policy_denied"
    assert agent.error("export_chat", chat_id="c1").code == "forbidden"
    assert agent("search", query="SECRET", kind="file")["groups"] == []
    assert agent.as_role("owner")("search", query="SECRET", kind="file")["groups"] != []
    client = Api.of(agent.root, "agent").client()
    for view in ("", "?view=source", "?view=edit"):
        url = f"/chats/c1/files/prod.env{view}"
        page = client.get(url, base_url=HOME, headers=BEARER)
        assert page.status_code == 403
        assert "SECRET" not in page.text


def test_the_text_of_a_conflict_is_refused_like_its_file(agent: Operations) -> None:
    agent.commit("c1", **{"prod.env": "A=1"})
    agent("create_branch", chat_id="c1", name="idea")
    for branch, text in (("main", "A=2"), ("idea", "A=3")):
        agent.as_role("owner")("switch_branch", chat_id="c1", branch=branch)
        agent.commit("c1", **{"prod.env": text})
    owner = agent.as_role("owner")
    owner("switch_branch", chat_id="c1", branch="main")
    deny = '{pattern: workspace.read_file, when: {args: {path: "*.env"}}, roles: [agent], effect: deny}'
    configure(agent.root, rules(deny))
    plan = {"chat_id": "c1", "branch": "idea", "dry_run": True, "text_of": "prod.env"}
    assert owner("merge_branch", **plan)["conflicts"][0]["text"]
    assert agent.error("merge_branch", **plan).code == "policy_denied"

    owner("merge_branch", chat_id="c1", branch="idea", conflicts="both")
    listing = {"chat_id": "c1", "text_of": "prod.env.theirs-idea"}
    assert owner("list_conflicts", **listing)["conflicts"][0]["text"]
    assert agent.error("list_conflicts", **listing).code == "policy_denied"
