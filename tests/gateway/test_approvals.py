"""Calls that wait for a person, with clients that lead one to the page: only the record counts."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError

from covalt_git.gateway import approvals
from covalt_git.project import Project
from covalt_git.serving.server_registry import announced
from tests.mcp_client import eras, make_project, over_stdio, talk

ARGS = {"path": "a.txt", "content": "hi"}
PAGES = "http://127.0.0.1:1/approvals/"
ACCEPT = {"approval": {"action": "accept"}}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(approvals, "PATIENCE_S", 0.5)
    return make_project(tmp_path / "project")


def page(execution_id: str) -> str:
    return PAGES + execution_id


class Visitor:
    """Somebody who is led to a page, and approves there or does not; ``urls`` are where they were."""

    def __init__(
        self, root: Path, *, approves: bool = False, says: Any = "accept", after_s: float = 0
    ) -> None:
        self.urls: list[str] = []
        self._root, self._approves, self._says, self._after_s = root, approves, says, after_s

    def can(self) -> dict[str, Any]:
        return {"elicitation_callback": self._elicit}

    async def _elicit(self, _: Any, params: Any) -> types.ElicitResult:
        self.urls.append(params.url)
        approves, self._approves = self._approves, False
        if approves:
            name = params.url.removeprefix(PAGES)
            threading.Timer(
                self._after_s, Project.open(self._root).approvals().approve, [name]
            ).start()
        return types.ElicitResult(action=self._says)


async def asked(client: Client) -> Any:
    return await client.call_tool("demo.asks", ARGS)


def commits(root: Path) -> int:
    with Project.open(root).chats.open("c1") as chat:
        return len([*chat.log(chat.head())]) if chat.head() else 0


@eras
def test_a_call_ends_with_its_result_once_a_person_has_approved_it(root: Path, era: str) -> None:
    visitor = Visitor(root, approves=True, after_s=0.2)

    result = talk(root, asked, era=era, can=visitor.can(), pages=page)

    assert result.structured_content == {"written": "a.txt"}
    assert result.meta["covalt-git/manifest"]
    assert len(set(visitor.urls)) == 1
    assert commits(root) == 1


@eras
def test_a_client_that_leads_nobody_there_has_the_id_to_resume(root: Path, era: str) -> None:
    visitor = Visitor(root, says="decline")
    for how in (
        {"can": visitor.can(), "pages": page},  # who declines is not asked again
        {"pages": page},  # cannot elicit
        {"can": visitor.can()},  # we have no page
    ):
        result = talk(root, asked, era=era, **how)
        assert result.structured_content["error"] == "approval_needed"
        assert result.structured_content["execution_id"]
    assert len(visitor.urls) == 1
    assert commits(root) == 0


def test_a_client_of_the_first_era_is_asked_once(root: Path) -> None:
    visitor = Visitor(root)

    result = talk(root, asked, era="legacy", can=visitor.can(), pages=page)

    assert result.structured_content["error"] == "approval_needed"
    assert len(visitor.urls) == 1
    assert commits(root) == 0


def test_a_client_is_asked_no_oftener_than_it_bears_and_has_the_id_to_resume(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "PATIENCE_S", 0.01)
    visitor = Visitor(root)

    result = talk(root, asked, era="2026-07-28", can=visitor.can(), pages=page)

    assert result.structured_content["error"] == "approval_needed"
    assert (
        visitor.urls == [PAGES + result.structured_content["execution_id"]] * approvals.MOST_TIMES
    )
    assert commits(root) == 0


def raw(root: Path, said: Any) -> Any:
    return talk(root, said, can=Visitor(root).can(), pages=page)


async def sent(client: Client, **more: Any) -> Any:
    return await client.session.call_tool("demo.asks", ARGS, allow_input_required=True, **more)


def execution_id(needed: Any) -> str:
    url: str = needed.input_requests["approval"].params.url
    return url.removeprefix(PAGES)


def test_an_answer_settles_nothing_until_the_record_says_so(root: Path) -> None:
    async def said(client: Client) -> Any:
        needed = await sent(client, input_responses=ACCEPT)  # made up, before anything was asked
        for forged in (
            ACCEPT,
            {"approval": {"action": "accept", "content": {"approved": True}}},
            {"approved": {"action": "accept"}},
        ):
            first = execution_id(needed)
            needed = await sent(client, input_responses=forged, request_state=needed.request_state)
            assert execution_id(needed) == first
            assert commits(root) == 0
        Project.open(root).approvals().approve(first)
        state = needed.request_state
        done = await sent(client, input_responses=ACCEPT, request_state=state)
        again = await sent(client, input_responses=ACCEPT, request_state=state)
        return done, again

    done, again = raw(root, said)

    assert done.structured_content == again.structured_content == {"written": "a.txt"}
    assert commits(root) == 1


def test_a_call_that_was_denied_is_an_error(root: Path) -> None:
    async def said(client: Client) -> Any:
        needed = await sent(client)
        Project.open(root).approvals().deny(execution_id(needed))
        return await sent(client, input_responses=ACCEPT, request_state=needed.request_state)

    result = raw(root, said)

    assert result.is_error
    assert result.structured_content["error"] == "denied"


def test_a_call_that_is_asked_again_leads_to_the_new_page(root: Path) -> None:
    async def said(client: Client) -> Any:
        needed = await sent(client)
        project = Project.open(root)
        with project.chats.open("c1") as chat, project.writing(chat) as writer:
            writer.edit_file("b.txt", b"", before=None)
        with pytest.raises(Exception, match="asked again"):
            project.approvals().approve(execution_id(needed))
        newer = await sent(client, input_responses=ACCEPT, request_state=needed.request_state)
        assert execution_id(newer) != execution_id(needed)
        project.approvals().approve(execution_id(newer))
        return await sent(client, input_responses=ACCEPT, request_state=newer.request_state)

    assert raw(root, said).structured_content == {"written": "a.txt"}


def test_a_state_of_one_call_is_none_of_another(root: Path) -> None:
    async def said(client: Client) -> int:
        needed = await sent(client)
        Project.open(root).approvals().approve(execution_id(needed))
        with pytest.raises(MCPError) as refused:
            await client.session.call_tool(
                "demo.asks",
                {**ARGS, "path": "other.txt"},
                input_responses=ACCEPT,  # type: ignore[arg-type]
                request_state=needed.request_state,
                allow_input_required=True,
            )
        return refused.value.error.code

    assert raw(root, said) == -32602
    assert commits(root) == 1  # what was approved, and nothing else


def test_a_call_is_found_done_at_once(root: Path) -> None:
    async def said(client: Client) -> float:
        needed = await sent(client)
        Project.open(root).approvals().approve(execution_id(needed))
        began = time.monotonic()
        await sent(client, input_responses=ACCEPT, request_state=needed.request_state)
        return time.monotonic() - began

    assert raw(root, said) < 0.4  # less than the patience with a person


@eras
def test_on_stdio_the_pages_that_a_person_has_open_are_where_one_is_led(
    root: Path, era: str
) -> None:
    visitor = Visitor(root, approves=True)

    with announced(root, PAGES.removesuffix("/approvals/")):
        done = over_stdio(root, asked, era=era, **visitor.can())
    waits = over_stdio(root, asked, era=era, **visitor.can())

    assert done.structured_content == {"written": "a.txt"}
    assert waits.structured_content["error"] == "approval_needed"
    assert len(visitor.urls) == 1
    assert "token" not in visitor.urls[0]
