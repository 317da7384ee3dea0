"""A pull that widens a role gives its holders no right to grant or approve on this machine before the user trusts it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covalt_git.access import NamedTool, Principal, decide
from covalt_git.calls.approvals import MayNotApproveError
from covalt_git.calls.running import Follower
from covalt_git.gateway import approvals
from covalt_git.project import Project
from covalt_git.workspaces.registry import OneChat
from covalt_server.app import create_app
from tests.api_client import BEARER, HOME, PORT, TOKEN
from tests.operations_client import Operations
from tests.trusting import use_config

MANIFEST = """\
id: ev
name: Ev
version: "1"
secrets: [K]
tools:
  - {id: use, requires_confirmation: true, http: {url: "https://a.example/x"}}
"""
CONFIG = """\
version: 1
default_role: owner
roles:
  owner: {admin: true}
  reader: {allow: ["ev.*"]}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone that the user trusts as it is."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    root = tmp_path / "clone"
    (root / "toolsets/ev").mkdir(parents=True)
    (root / "covalt.yaml").write_text(CONFIG)
    (root / "toolsets/ev/toolset.yaml").write_text(MANIFEST)
    Operations(root)("trust_project")
    return root


def pull(root: Path, reader: str) -> None:
    """Change the role as another user's commit would."""
    (root / "covalt.yaml").write_text(CONFIG.replace('{allow: ["ev.*"]}', reader))


def add_grant(client: Any) -> tuple[int, Any]:
    answer = client.post(
        "/api/add_grant",
        json={"toolset_id": "ev", "kind": "secret", "name": "K", "hosts": ["a.example"]},
        base_url=HOME,
        headers=BEARER,
    )
    return answer.status_code, answer.json


def test_the_holder_of_a_token_gets_no_right_to_grant_by_a_pull(root: Path) -> None:
    client = create_app(root, token=TOKEN, port=PORT, role="reader").test_client()
    assert add_grant(client)[0] == 403
    pull(root, "{admin: true}")
    status, refused = add_grant(client)
    assert (status, refused["hint"]) == (
        403,
        "the user of this machine has not trusted this role to decide: covalt-git trust",
    )
    Operations(root)("trust_project")
    assert add_grant(client)[0] == 200


@pytest.mark.parametrize(
    ("reader", "approves"),
    [
        ("{admin: true}", []),
        ('{allow: ["ev.*"], approve: ["**"]}', []),
        ('{allow: ["ev.*"], approve: ["ev.use"]}', []),
        ('{allow: ["ev.*"]}', []),
    ],
)
def test_others_approve_nothing_by_a_pull(root: Path, reader: str, approves: list[str]) -> None:
    pull(root, reader)
    config = Project.open(root).config
    tool = NamedTool("ev:use")
    others = [Principal("local", "reader", "http"), Principal("agent:x", "reader", "mcp")]
    assert [one.id for one in others if decide(config, one, "approve", tool).allowed] == approves
    own = Principal("local", "reader")  # the command line, where a role is a view
    assert decide(config, own, "approve", tool).allowed == (reader != '{allow: ["ev.*"]}')

    Operations(root)("trust_project")
    trusted = Project.open(root).config
    assert decide(trusted, others[0], "approve", tool).allowed == (reader != '{allow: ["ev.*"]}')


def test_more_patterns_are_trusted_one_by_one(root: Path) -> None:
    pull(root, '{approve: ["ev.use"]}')
    Operations(root)("trust_project")
    pull(root, '{approve: ["ev.use", "registered.*"]}')
    config = Project.open(root).config
    who = Principal("local", "reader", "http")
    assert decide(config, who, "approve", NamedTool("ev:use")).allowed
    assert not decide(config, who, "approve", NamedTool("registered:x")).allowed


def test_an_admin_who_may_not_grant_gets_no_right_to_grant_by_a_pull(root: Path) -> None:
    pull(root, '{admin: true, deny: ["x.*"]}')
    Operations(root)("trust_project")
    client = create_app(root, token=TOKEN, port=PORT, role="reader").test_client()
    assert add_grant(client)[0] == 403
    pull(root, "{admin: true}")
    assert add_grant(client)[0] == 403
    who = Principal("local", "reader", "http")
    assert decide(Project.open(root).config, who, "approve", NamedTool("ev:use")).allowed
    Operations(root)("trust_project")
    assert add_grant(client)[0] == 200


BY_DEFAULT = """\
version: 1
default_role: dev
roles:
  dev: {allow: ["**"], approve: ["registered.*"], register: true}
  agent: {allow: ["**"]}
"""


def test_an_agent_with_the_default_role_approves_nothing_by_a_pull(root: Path) -> None:
    tool = NamedTool("ev:use")
    agent, page = Principal("agent:x", None, "mcp"), Principal("local", None, "http")
    (root / "covalt.yaml").write_text(BY_DEFAULT)
    Operations(root)("trust_project")
    (root / "covalt.yaml").write_text(BY_DEFAULT.replace('["registered.*"]', '["**"]'))

    config = Project.open(root).config
    assert not decide(config, agent, "approve", tool).allowed
    assert decide(config, page, "approve", tool).allowed  # the user of this machine

    Operations(root)("trust_project")
    assert decide(Project.open(root).config, agent, "approve", tool).allowed


def test_the_trust_to_approve_an_alias_is_none_to_approve_the_tool_that_it_calls(
    root: Path,
) -> None:
    (root / "covalt.yaml").write_text(BY_DEFAULT)
    entry = {"tool_id": "al", "name": "A", "description": "d", "protocols": ["mcp"]}
    operate = Operations(root)
    operate("trust_project")
    operate("register_tool", entry=entry | {"protocol_meta": {"mcp": {"tool": "ev:use"}}})
    (root / "covalt.yaml").write_text(CONFIG)
    operate("add_grant", toolset_id="registered", kind="tool", name="al")
    operate("add_grant", toolset_id="ev", kind="network", hosts=("a.example",))
    (root / "covalt.yaml").write_text(BY_DEFAULT)
    operate("trust_project")
    asks = operate.as_role("agent")
    asks("create_chat", chat_id="c1")
    asked = asks("call_tool", chat_id="c1", tool_id="registered:al", args={})
    pulled = BY_DEFAULT.replace('["registered.*"]', '["registered.*", "ev.*"]')
    (root / "covalt.yaml").write_text(pulled)

    project = Project.open(root)
    with project.chats.open("c1") as chat:
        only = OneChat("c1", chat.card().created_at)  # as a token for this chat
    principal = Principal("agent:other", None, "mcp")
    agent = replace(project, principal=principal, only_chat=only)
    with pytest.raises(MayNotApproveError, match="ev:use"):
        approvals.decide(agent, asked["execution_id"], Follower(), approved=True)
