"""Export of a conversation as CJSON: messages, calls, approvals and results, without files."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from covalt_git import timestamps
from covalt_git.json_values import json_schema
from tests.api_client import configure
from tests.operations.conftest import add_message
from tests.operations_client import Operations

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "fixtures/formats/cjson-conversation/schema.json").read_text()
)


def call(operate: Operations, name: str, **args: Any) -> Any:
    return operate("call_tool", chat_id="new", tool_id=f"app-builder:{name}", args=args)


def exported(operate: Operations, **which: Any) -> Any:
    """Return the conversation, which the JSON Schema accepts."""
    found = operate("export_conversation", chat_id="new", **which)["conversation"]
    assert json_schema.value_problems(SCHEMA, found) == []
    assert found["id"] == "new"
    return found


def blocks(document: Any) -> list[Any]:
    return [block for one in document["messages"] for block in one.get("contentBlocks", ())]


def test_calls_follow_their_message_with_their_results(new: Operations) -> None:
    add_message(new, "Be short.", role="system")
    question = add_message(new, "Make a page", ref="app-1")
    call(new, "write_file", path="a.txt", content="one")
    call(new, "read_file", path="missing.txt")
    add_message(new, "Here it is", role="assistant")
    found = exported(new, branch="main")

    assert found["systemMessage"] == "Be short."
    assert [one["messageType"] for one in found["messages"]] == ["text", "composite", "text"]
    assert [one["index"] for one in found["messages"]] == [0, 1, 2]
    first = found["messages"][0]
    assert (first["id"], first["content"]) == (question, "Make a page")
    assert first["metadata"] == {"ref": "app-1"}
    written, result, _, failure = blocks(found)
    assert written["toolRef"] == {
        "name": "write_file",
        "version": written["toolRef"]["version"],
        "toolsetId": "app-builder",
    }
    assert written["args"] == {"path": "a.txt", "content": "one"}
    assert result["toolCallId"] == written["id"]
    assert (result["toolResultState"], failure["toolResultState"]) == ("succeeded", "failed")
    assert failure["toolResultError"]["code"] == "tool_raised"


@pytest.mark.parametrize("decision", ["approve_call", "deny_call"])
def test_an_approval_is_a_block_between_the_call_and_its_result(
    new: Operations, decision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_message(new, "Clean up")
    call(new, "write_file", path="a.txt", content="one")
    pending = call(new, "delete_file", path="a.txt")
    waiting = blocks(exported(new))

    assert [one["blockType"] for one in waiting[2:]] == ["toolCall"]
    assert waiting[2]["requiresApproval"] is True
    asked_at, now = datetime.fromisoformat(timestamps.now()), timestamps.now

    def an_hour_later() -> str:
        return timestamps.written(datetime.fromisoformat(now()) + timedelta(hours=1))

    monkeypatch.setattr(timestamps, "now", an_hour_later)
    new(decision, execution_id=pending["execution_id"])
    _, approval, result = blocks(exported(new))[2:]
    states = approval["toolApprovalState"], result["toolResultState"]
    expected = {"approve_call": ("approved", "succeeded"), "deny_call": ("rejected", "canceled")}
    assert states == expected[decision]
    assert approval["approvedBy"]
    # The time that the call ran, without the hour in which it waited; a denied call did not run.
    assert datetime.fromisoformat(result["createdAt"]) - asked_at >= timedelta(minutes=59)
    assert (
        (result["durationMs"] < 1_800_000)
        if decision == "approve_call"
        else ("durationMs" not in result)
    )


def test_alternatives_share_an_index_and_one_is_preferred(new: Operations) -> None:
    question = add_message(new, "Make a page")
    first = add_message(new, "Here", role="assistant")
    new("retry_message", chat_id="new", message=question)
    second = add_message(new, "There", role="assistant")
    alternatives = {one["id"]: one for one in exported(new)["messages"]}

    assert alternatives[first]["index"] == alternatives[second]["index"] == 1
    assert not alternatives[first]["isPreferred"]
    assert alternatives[second]["isPreferred"]
    assert {one["id"] for one in exported(new, branch="main")["messages"]} == {question, first}


def test_calls_of_tools_that_the_role_may_not_see_are_left_out(new: Operations) -> None:
    add_message(new, "Write")
    call(new, "write_file", path="a.txt", content="secret plan")
    configure(new.root, 'roles: {reader: {allow: ["data-lab.*"]}}\n')
    found = new.as_role("reader")("export_conversation", chat_id="new")

    assert found["calls"] == 0
    assert "secret plan" not in json.dumps(found)
