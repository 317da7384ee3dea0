"""A client's name is its own choice: it never makes the client another principal."""

from dataclasses import replace
from pathlib import Path

import pytest
from mcp import Client
from mcp_types import CallToolResult, Implementation

from covalt_git.access import Principal, may_decide_over_mcp
from covalt_git.access.subject import NamedTool
from covalt_git.calls.running import Follower
from covalt_git.credentials.agent_tokens import AgentTokens
from covalt_git.errors import CovaltError
from covalt_git.gateway import approvals
from covalt_git.manifests.project_config import read_config
from covalt_git.models.project_config import ProjectConfig, RoleConfig
from covalt_git.project import Project
from covalt_git.trust import Consents, Permission, config_permissions
from covalt_git.trust.own_data import adopt
from covalt_git.workspaces.registry import OneChat
from tests.calls.conftest import World
from tests.examples import rest
from tests.mcp_client import error_of, make_project, talk
from tests.trusting import use_config

WRITE = {"path": "a.txt", "content": "hi"}
ROLES = """\
  both: {allow: ["demo.*"], approve: ["demo.*"]}
"""


def named(name: str) -> Implementation:
    return Implementation(name=name, version="1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project", roles=ROLES)


@pytest.mark.parametrize(
    "name", [rest("reviewer"), "local", rest("wr"), "agent:wr", rest("LOCAL"), ""]
)
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


@pytest.mark.parametrize("role", ['{approve: ["demo.*"]}', "{admin: true}"])
def test_agents_decide_about_calls_of_others_only_if_the_user_trusts_their_role_to(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    adopt(world.root)
    world.configure(
        'roles:\n  bot: {allow: ["**"]}\n  asks: {allow: ["**"]}\n  owner: {admin: true}\n'
    )
    Consents.of(world.root).trust(config_permissions(read_config(world.root)))
    execution_id = world.ask(role="asks", text="x")
    world.configure(f'roles:\n  bot: {role}\n  asks: {{allow: ["**"]}}\n  owner: {{admin: true}}\n')

    def deny() -> None:
        project = Project.open(world.root, role="bot")
        with project.chats.open("c1") as chat:
            only = OneChat("c1", chat.card().created_at)  # as a token for this chat
        project = replace(project, principal=Principal("agent:other", "bot"), only_chat=only)
        approvals.decide(project, execution_id, Follower(), approved=False)

    with pytest.raises(CovaltError, match="no call of yours"):
        deny()
    assert world.approval(execution_id).state == "pending"
    lacking = Consents.of(world.root).lacking(config_permissions(read_config(world.root)))
    assert len(lacking) == 1
    assert lacking[0].text.startswith(
        "covalt.yaml: agents and holders of a token with the role 'bot' "
    )
    Consents.of(world.root).trust(lacking)
    deny()
    assert world.approval(execution_id).state == "denied"


def test_a_role_that_approves_less_needs_no_trust(world: World) -> None:
    def permissions(patterns: str) -> list[Permission]:
        world.configure(f"roles:\n  bot: {{approve: {patterns}}}\n")
        return config_permissions(read_config(world.root))

    (wide,), (narrow,), (other,) = map(permissions, ["[a.*, b.*]", "[b.*]", "[b.*, c.*]"])

    assert narrow.beyond(wide.reach) is None
    part = other.beyond(wide.reach)
    assert part is not None
    assert [*part.reach] == ["c.*"]
