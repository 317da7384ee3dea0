"""Search: what is found, and that a role finds nothing that its lists do not have."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from covalt_git.index import file_rows
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.examples import rest
from tests.operations_client import Operations
from tests.workspaces.stores import FAST, call_record, pending_call

ROLES = """\
version: 1
workspace: {durability: fast}
roles:
  reader: {allow: [data-lab.*, workspace.read_file]}
  writer: {allow: [app-builder.write_file, workspace.run_script]}
  owner: {admin: true}
  all-but-one: {admin: true, deny: [app-builder.write_file]}
"""
WORDS = ("orchid", "tulip", "rose", "write", "file", "table", "weather")
CALLED = ("app-builder:write_file", "data-lab:summarize", "workspace:run_script", "gone:tool")


def hits(results: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [hit for group in results["groups"] if group["kind"] == kind for hit in group["hits"]]


@pytest.fixture
def owner(operate: Operations) -> Operations:
    (operate.root / "covalt.yaml").write_text(ROLES)
    return operate.as_role("owner")


def record_calls(root: Path, chat_id: str, count: int) -> None:
    """Record calls of several tools, among them scripts that called others."""
    chance = random.Random(count)
    with Chats(root / "data/chats", FAST).open(chat_id) as chat, writing(chat) as writer:
        for _ in range(count):
            tool_id = chance.choice(CALLED)
            args = {"path": f"{chance.choice(WORDS)}.txt", "deep": [{"text": chance.choice(WORDS)}]}
            called = {"path": chance.choice(CALLED).replace(":", ".")}
            result = {"success": True, "calls": [called], "logs": []}
            call = pending_call(chat, args=args, tool_id=tool_id, base=chat.head())
            writer.put_call(call)
            record = call_record(args=args, tool_id=tool_id, result=result, render_plan=None)
            writer.finish_call(call, record, snapshot=writer.scan())


def test_a_role_finds_exactly_the_calls_and_tools_of_its_lists(owner: Operations) -> None:
    owner("create_chat", chat_id="garden", title="Flowers")
    record_calls(owner.root, "garden", 20)
    counts = set()
    for role in ("reader", "writer", "owner", "all-but-one"):
        operate = owner.as_role(role)
        listed = {
            call["id"]: call for call in operate("list_calls", chat_id="garden", limit=500)["calls"]
        }
        tools = {
            tool["tool_id"] for group in operate("list_tools")["groups"] for tool in group["tools"]
        }
        toolsets = {row["id"] for row in operate("list_toolsets")["toolsets"]}
        args = {
            call_id: str(operate("get_call", chat_id="garden", call_id=call_id)["args"])
            for call_id in listed
        }
        for word in WORDS:
            in_chat = partial(operate, "search", query=word, chat_id="garden", kind="call")
            expected = {call_id for call_id in listed if word in args[call_id]}
            results = in_chat(limit=200)
            assert {hit["id"] for hit in hits(results, "call")} == expected, (role, word)
            results = operate("search", query=word, limit=200)
            assert {hit["id"] for hit in hits(results, "tool")} <= tools
            assert {hit["id"] for hit in hits(results, "toolset")} <= toolsets
            # A smaller limit is filled with visible calls, and counts only them.
            for limit in (1, max(1, len(expected))):
                (group,) = in_chat(limit=limit)["groups"] or [{"hits": [], "more": False}]
                assert len(group["hits"]) == min(limit, len(expected))
                assert group["more"] == (len(expected) > limit)
        counts.add(len(listed))
    assert len(counts) > 2


def test_each_kind_is_found_at_its_place(owner: Operations) -> None:
    owner("create_chat", chat_id="garden", title="The Orchid Bed")
    owner("create_chat", chat_id="copies")
    owner("add_message", chat_id="garden", text="Which <b>orchid</b> is it?\n\nThe red one.")
    owner.commit("garden", **{"orchid.md": "seeds", "deep/list.txt": "rose\nORCHID\n"})
    owner.commit("copies", **{"copy.txt": "rose\nORCHID\n"})
    results = owner("search", query="orchid")

    assert [group["kind"] for group in results["groups"]] == ["chat", "message", "file"]
    (message,) = hits(results, "message")
    assert message["title"] == "user"
    assert "".join(part["text"] for part in message["excerpt"]).startswith("Which <b>orchid</b>")
    assert [part["text"] for part in message["excerpt"] if part["match"]] == ["orchid"]
    assert [(hit["chat_id"], hit["id"], hit["branch"]) for hit in hits(results, "file")] == [
        ("garden", "orchid.md", "main"),
        *sorted([("garden", "deep/list.txt", "main"), ("copies", "copy.txt", "main")]),
    ]
    in_chat = owner("search", query="orchid", chat_id="copies")
    assert [hit["id"] for group in in_chat["groups"] for hit in group["hits"]] == ["copy.txt"]
    owner("delete_chat", chat_id="garden")
    left = owner("search", query="orchid")
    assert [hit["id"] for group in left["groups"] for hit in group["hits"]] == ["copy.txt"]


def test_a_tool_is_found_by_all_words_and_shows_the_text_that_has_them(owner: Operations) -> None:
    def tools(query: str) -> dict[str, list[str]]:
        return {
            hit["id"]: [part["text"] for part in hit["excerpt"] if part["match"]]
            for hit in hits(owner("search", query=query, limit=200), "tool")
        }

    # "make" is one letter from "takes" in the description of an argument; no tool has "coffee".
    assert tools("make coffee") == {}
    assert "folder" in tools("folder search")["text-kit:search"]
    assert "text-kit:search" in tools("serch text")


def test_what_was_not_read_is_counted(owner: Operations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rows, "MOST_BYTES", 20)
    owner("create_chat", chat_id="garden")
    owner.commit("garden", **{"a.bin": b"orchid\0", "long.txt": b"orchid " * 9})

    assert owner("search", query="orchid") == {
        "groups": [],
        "unsearched": [{"reason": "binary", "files": 1}, {"reason": "large", "files": 1}],
    }


@pytest.mark.parametrize(
    "text",
    [
        '"',
        rest("***"),
        rest("a AND"),
        "NEAR(",
        rest("col:x"),
        rest("-"),
        rest("^x"),
        "\0",
        rest("( ) {"),
        "é" * 500,
    ],
)
def test_no_text_is_an_error(owner: Operations, text: str) -> None:
    owner("create_chat", chat_id="garden")
    results = owner("search", query=text)

    assert not hits(results, "chat")
