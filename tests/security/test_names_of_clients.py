"""A client's name is its own choice: it never makes the client another principal."""

from dataclasses import replace
from pathlib import Path

import pytest
from mcp import Client
from mcp_types import CallToolResult, Implementation

from covalt_git.access import Principal, may_decide_over_mcp
from covalt_git.access.subject import NamedTool
from covalt_git.credentials.agent_tokens import AgentTokens
from covalt_git.models.project_config import ProjectConfig, RoleConfig
from covalt_git.project import Project
from tests.mcp_client import error_of, make_project, talk

WRITE = {"path": "a.txt", "content": "hi"}
ROLES = """\
  both: {allow: ["demo.*"], approve: ["demo.*"]}
"""


def named(name: str) -> Implementation:
    return Implementation(name=name, version="1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project", roles=ROLES)


@pytest.mark.parametrize("name", ["reviewer", "local", "wr", "agent:wr", "LOCAL", ""])
def test_a_second_client_over_stdio_approves_no_call_of_the_first(root: Path, name: str) -> None:
    async def ask(client: Client) -> CallToolResult:
        return await client.call_tool("demo.asks", WRITE)

    async def approve(client: Client) -> CallToolResult:
        args = {"execution_id": execution_id, "approved": True}
        return await client.call_tool("resume", args)

    waits = talk(root, ask, callbacks={"client_info": named("first")}, role="both")
    execution_id = error_of(waits)["execution_id"]
    talk(root, approve, callbacks={"client_info": named(name)}, role="both")

    approval = Project.open(root).approvals().find(execution_id)
    assert (approval.state, approval.by) == ("pending", "client:first")


@pytest.mark.parametrize(
    ("decider", "requester", "may"),
    [
        ("client:a", "client:b", False),
        ("client:a", "local", False),
        ("client:a", "agent:wr", False),
        ("local", "client:b", False),
        ("local", "local", False),
        ("local", "agent:wr", True),
        ("agent:wr", "client:wr", True),
        ("agent:wr", "agent:wr", False),
        ("agent:wr", "agent:other", True),
    ],
)
def test_all_clients_of_a_machine_and_its_user_are_one_principal(
    decider: str, requester: str, *, may: bool
) -> None:
    for approve_own in (False, True):
        role = RoleConfig(approve=("demo.*",), approve_own=approve_own)
        config = ProjectConfig(version=1, roles={"r": role})
        decision = may_decide_over_mcp(
            config, Principal(decider, "r"), NamedTool("demo:asks"), requested_by=requester
        )
        assert decision == (may or approve_own)


def test_a_client_with_the_name_of_an_agent_is_not_that_agent(root: Path) -> None:
    AgentTokens(root).new("wr", "both")

    async def ask(client: Client) -> CallToolResult:
        return await client.call_tool("demo.asks", WRITE)

    talk(root, ask, callbacks={"client_info": named("wr")}, role="both")

    agent = replace(Project.open(root), principal=Principal("agent:wr", "both"))
    assert agent.chats.ids() == []
