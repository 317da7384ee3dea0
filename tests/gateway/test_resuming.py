"""Calls that wait for a person: nobody but a person goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from covalt_git.project import Project
from tests.mcp_client import CONFIG, eras, make_project, talk, text

ARGS = {"path": "a.txt", "content": "hi"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


async def asked(client: Client) -> Any:
    return await client.call_tool("demo.asks", ARGS)


def resumed(root: Path, execution_id: str, **how: Any) -> Any:
    async def said(client: Client) -> Any:
        return await client.call_tool("resume", {"execution_id": execution_id})

    return talk(root, said, **how)


@eras
def test_a_call_that_waits_is_resumed_once_a_person_has_approved_it(root: Path, era: str) -> None:
    waits = talk(root, asked, era=era)
    execution_id = waits.structured_content["execution_id"]
    assert waits.is_error
    assert waits.structured_content["error"] == "approval_needed"
    assert f"covalt-git approval approve {execution_id}" in text(waits)

    again = resumed(root, execution_id, era=era)
    assert again.structured_content == waits.structured_content
    with Project.open(root).chats.open("c1") as chat:
        assert chat.head() is None  # asking for the result has run nothing

    Project.open(root).approvals().approve(execution_id)
    done = resumed(root, execution_id, era=era)

    assert not done.is_error
    assert done.structured_content == {"written": "a.txt"}
    with Project.open(root).chats.open("c1") as chat:
        assert done.meta["covalt-git/manifest"] == chat.head()
        assert len([*chat.log(chat.head())]) == 1
    assert resumed(root, execution_id, era=era).structured_content == done.structured_content


def test_a_call_that_was_denied_says_so(root: Path) -> None:
    execution_id = talk(root, asked).structured_content["execution_id"]

    Project.open(root).approvals().deny(execution_id)

    done = resumed(root, execution_id)
    assert done.is_error
    assert done.structured_content["error"] == "denied"


def test_a_call_that_is_asked_again_waits_under_its_new_id(root: Path) -> None:
    execution_id = talk(root, asked).structured_content["execution_id"]
    project = Project.open(root)
    with project.chats.open("c1") as chat, project.writing(chat) as writer:
        writer.edit_file("b.txt", b"", before=None)
    with pytest.raises(Exception, match="asked again"):
        project.approvals().approve(execution_id)

    waits = resumed(root, execution_id)

    assert waits.structured_content["error"] == "approval_needed"
    assert waits.structured_content["execution_id"] != execution_id
    project.approvals().approve(waits.structured_content["execution_id"])
    assert resumed(root, execution_id).structured_content == {"written": "a.txt"}


def test_a_call_that_nobody_approved_in_time_has_expired(root: Path) -> None:
    (root / "covalt.yaml").write_text(CONFIG + "limits: {approval_expires_s: 1}\n")
    execution_id = talk(root, asked).structured_content["execution_id"]
    with Project.open(root).chats.open("c1") as chat:
        (approval,) = chat.approvals()
        late = approval.model_copy(update={"expires_at": approval.created_at})
        with Project.open(root).writing(chat) as writer:
            assert writer.put_approval(late, before=approval)

    assert resumed(root, execution_id).structured_content["error"] == "expired"


def test_an_id_of_another_role_or_of_nothing_is_unknown(root: Path) -> None:
    execution_id = talk(root, asked).structured_content["execution_id"]
    answers = {
        text(resumed(root, one, role=role)).replace(one, "...")
        for one, role in [
            (execution_id, "owner"),  # asked for under the default role, not under this one's name
            (execution_id, "reader"),
            ("01a20135-b81e-7428-9b33-8c3e1a951d6a", None),
            ("../../heads/main", None),
            (execution_id[-8:], None),
        ]
    }

    (answer,) = answers
    assert answer.startswith("unknown_execution: no call of yours waits under '...'\n")


@eras
def test_an_answer_that_a_client_makes_up_approves_nothing(root: Path, era: str) -> None:
    """An elicitation's answer comes from the client, who may forge it (security.md, row 9)."""

    async def said(client: Client) -> Any:
        waits = await asked(client)
        forged: Any = {"ok": {"action": "accept", "content": {"ok": True}}}
        return await client.session.call_tool(
            "demo.asks",
            {**ARGS, "execution_id": waits.structured_content["execution_id"]},
            input_responses=forged,
        )

    result = talk(root, said, era=era)

    assert result.is_error
    with Project.open(root).chats.open("c1") as chat:
        assert chat.head() is None


def test_a_call_whose_run_was_killed_is_told_as_interrupted(root: Path) -> None:
    execution_id = talk(root, asked).structured_content["execution_id"]
    project = Project.open(root)
    with project.chats.open("c1") as chat, project.writing(chat) as writer:
        (approval,) = chat.approvals()
        approved = approval.model_copy(
            update={"state": "approved", "decided_by": "me", "decided_at": approval.created_at}
        )
        assert writer.put_approval(approved, before=approval)
        call = chat.call(approval.call_id)
        assert call is not None
        writer.put_call(call.model_copy(update={"status": "running"}))  # and then it was killed

    assert resumed(root, execution_id).structured_content["error"] == "interrupted"
