"""Decisions through the MCP tool ``resume``: by another principal of a role that may approve, and by no other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covalt_git.credentials.agent_tokens import AgentTokens
from covalt_git.project import Project
from tests.mcp_client import error_of, make_project
from tests.uvicorn_server import TOKEN, call_over_http, served

WRITE = {"path": "a.txt", "content": "hi"}
ROLES = """\
  caller: {allow: ["demo.*"]}
  reviewer: {allow: ["demo.*"], approve: ["demo.*"]}
  elsewhere: {allow: ["demo.*"], approve: ["other.*"]}
  alone: {allow: ["demo.*"], approve: ["demo.*"], approve_own: true}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("served") / "project", roles=ROLES)


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    with served(root) as port:
        yield port


@pytest.fixture(scope="module")
def tokens(root: Path) -> dict[str, str]:
    """A token of an agent for each role, by role, and that of the server."""
    made = AgentTokens(root)
    roles = ("caller", "reviewer", "elsewhere", "alone")
    found = {role: made.new(f"is-{role}", role, chat=chat_of(root))[1] for role in roles}
    return found | {"server": TOKEN, "outside": made.new("outside", "reviewer")[1]}


def chat_of(root: Path) -> tuple[str, str]:
    """Return the chat of all tokens but ``outside``."""
    chats = Project.open(root).chats
    if "c1" not in chats.ids():
        chats.new("c1").close()
    return chats.one("c1")


def ask(port: int, token: str) -> str:
    """Make a call that needs approval; return its execution id."""
    waits = call_over_http(port, "demo.asks", WRITE, token=token)
    execution_id: str = error_of(waits)["execution_id"]
    return execution_id


def decide(port: int, token: str, execution_id: str, *, approved: bool = True) -> Any:
    args = {"execution_id": execution_id, "approved": approved}
    return call_over_http(port, "resume", args, token=token).structured_content


def state(root: Path, execution_id: str) -> str:
    return Project.open(root).approvals().find(execution_id).state


@pytest.mark.requirement("toolshed-elicitation.3", "toolshed-elicitation.4")
@pytest.mark.parametrize(
    ("caller", "decider"),
    [("caller", "reviewer"), ("caller", "server"), ("alone", "alone")],
)
def test_a_role_that_may_approve_decides_about_calls_of_others(
    root: Path, port: int, tokens: dict[str, str], caller: str, decider: str
) -> None:
    first, second = ask(port, tokens[caller]), ask(port, tokens[caller])

    assert decide(port, tokens[decider], first) == {"written": "a.txt"}
    refused = decide(port, tokens[decider], second, approved=False)

    assert refused["error"] == "denied"
    assert (state(root, first), state(root, second)) == ("approved", "denied")
    approval = Project.open(root).approvals().find(first)
    assert approval.decided_by == ("local" if decider == "server" else f"agent:is-{decider}")
    assert approval.decision_reason == "through the MCP tool resume"
    assert decide(port, tokens[decider], first, approved=False) == {"written": "a.txt"}


@pytest.mark.requirement("toolshed-elicitation.3")
@pytest.mark.parametrize(
    ("caller", "decider", "error"),
    [
        ("caller", "caller", "approval_needed"),
        ("reviewer", "reviewer", "approval_needed"),
        ("server", "server", "approval_needed"),
        ("caller", "elsewhere", "unknown_execution"),
        ("reviewer", "caller", "unknown_execution"),
        ("caller", "outside", "unknown_execution"),
    ],
)
def test_other_clients_decide_nothing(
    root: Path, port: int, tokens: dict[str, str], caller: str, decider: str, error: str
) -> None:
    execution_id = ask(port, tokens[caller])

    for approved in (True, False):
        answer = decide(port, tokens[decider], execution_id, approved=approved)
        assert answer["error"] == error
        assert state(root, execution_id) == "pending"


def test_an_agent_does_not_decide_under_another_role(
    root: Path, port: int, tokens: dict[str, str]
) -> None:
    execution_id = ask(port, tokens["caller"])
    made = AgentTokens(root)
    made.revoke("is-caller")
    _, again = made.new("is-caller", "reviewer", chat=chat_of(root))

    assert decide(port, again, execution_id)["error"] == "unknown_execution"
    assert state(root, execution_id) == "pending"
