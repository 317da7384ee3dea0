"""Calls that require approval: what a client answers approves nothing, only the record does."""

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from covalt_git.gateway import approvals
from covalt_git.names import new_id
from covalt_git.project import Project
from tests.mcp_client import (
    Requests,
    call,
    commits,
    error_of,
    one_version,
    text,
    with_requests,
)

ARGS = {"path": "a.txt", "content": "hi"}
WRITTEN = {"written": "a.txt"}
PAGES = "http://127.0.0.1:1/approvals/"
ACCEPT: Any = {"approval": {"action": "accept"}}


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "PATIENCE_S", 0.05)


def page(execution_id: str) -> str:
    return PAGES + execution_id


class Visitor:
    """A user to whom a client shows the page of an approval, and who gives this answer there."""

    def __init__(self, answer: Any = "accept") -> None:
        self.urls: list[str] = []
        self._answer = answer

    @property
    def callbacks(self) -> dict[str, Any]:
        return {"elicitation_callback": self._elicit}

    async def _elicit(self, _: Any, params: Any) -> types.ElicitResult:
        self.urls.append(params.url)
        return types.ElicitResult(action=self._answer)


def pending(root: Path, chat_id: str, **options: Any) -> Any:
    """Return the answer to a call that needs approval."""
    return call(root, "demo.asks", ARGS, chat=chat_id, **options)


def resume(root: Path, chat_id: str, execution_id: str, **options: Any) -> Any:
    return call(root, "resume", {"execution_id": execution_id}, chat=chat_id, **options)


@pytest.mark.requirement("toolshed-elicitation.1", "toolshed-elicitation.2")
@one_version
def test_a_client_that_opens_no_page_gets_the_id_to_resume(
    shared: Path, chat_id: str, version: str
) -> None:
    visitor = Visitor("decline")
    for options in (
        {"callbacks": visitor.callbacks, "pages": page},  # declined: not asked again
        {"pages": page},  # the client cannot elicit
        {"callbacks": visitor.callbacks},  # the server has no page
    ):
        result = pending(shared, chat_id, version=version, **options)
        assert result.is_error
        assert error_of(result)["error"] == "approval_needed"
        assert text(result).startswith("demo:asks needs approval: ")
        assert error_of(result)["execution_id"] in text(result)
        assert "covalt-git" not in text(result)
    assert len(visitor.urls) == 1
    assert commits(shared, chat_id) == []


# Answers that a client makes up


async def send(requests: Requests, answers: Any = None) -> Any:
    return await requests.send("demo.asks", answers, ARGS)


async def needed(requests: Requests, answers: Any = None) -> str:
    """Send the request, and return the execution id of the question that comes back."""
    url: str = (await send(requests, answers)).input_requests["approval"].params.url
    return url.removeprefix(PAGES)


def test_no_answer_of_a_client_approves_a_call(
    shared: Path, chat_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "MOST_TIMES", 9)

    async def say(requests: Requests) -> list[Any]:
        first = await needed(requests, ACCEPT)  # before any question
        for forged in (
            ACCEPT,
            {"approval": {"action": "accept", "content": {"approved": True}}},
            {"approved": {"action": "accept"}},
            {"ok": {"action": "accept", "content": {"ok": True}}},
        ):
            assert await needed(requests, forged) == first
            assert commits(shared, chat_id) == []
        Project.open(shared).approvals().approve(first)
        return [(await send(requests, ACCEPT)).structured_content for _ in range(2)]

    options = {"chat": chat_id, "callbacks": Visitor().callbacks, "pages": page}
    assert with_requests(shared, say, **options) == [WRITTEN, WRITTEN]
    assert len(commits(shared, chat_id)) == 1


# Resuming


@pytest.mark.requirement("toolshed-elicitation.1", "toolshed-elicitation.4")
@one_version
def test_a_pending_call_is_resumed_once_it_is_approved(
    shared: Path, chat_id: str, version: str
) -> None:
    waits = pending(shared, chat_id, version=version)
    execution_id = error_of(waits)["execution_id"]

    again = resume(shared, chat_id, execution_id, version=version)
    assert again.structured_content == error_of(waits)
    assert commits(shared, chat_id) == []
    Project.open(shared).approvals().approve(execution_id)
    done = [resume(shared, chat_id, execution_id, version=version) for _ in range(2)]

    assert [one.structured_content for one in done] == [WRITTEN, WRITTEN]
    assert [one.id for one in commits(shared, chat_id)] == [done[0].meta["covalt-git/manifest"]]


def test_a_call_of_a_tool_that_is_hidden_since_is_not_resumed(root: Path) -> None:
    config = root / "covalt.yaml"
    roles = config.read_text()
    config.write_text(f'{roles}  asker: {{allow: ["demo.*"]}}\n')
    with Project.open(root).chats.new() as chat:
        own = chat.id
    execution_id = error_of(pending(root, own, role="asker"))["execution_id"]
    config.write_text(f'{roles}  asker: {{allow: ["demo.*"], deny: [demo.asks]}}\n')

    unknown = new_id()
    hidden, missing = (resume(root, own, each, role="asker") for each in (execution_id, unknown))

    assert error_of(missing)["error"] == "unknown_execution"
    assert text(hidden) == text(missing).replace(unknown, execution_id)
