"""The conversation of a branch: turns, siblings, pages, and what a role may not see."""

from typing import Any

from tests.api_client import configure
from tests.operations.conftest import add_message
from tests.operations_client import Operations


def call(operate: Operations, tool: str, message_id: str | None = None, **args: Any) -> Any:
    return operate("call_tool", chat_id="new", tool_id=tool, args=args, message_id=message_id)


def write(operate: Operations, path: str, content: str, message_id: str | None = None) -> Any:
    return call(operate, "app-builder:write_file", message_id, path=path, content=content)


def read(operate: Operations, **which: Any) -> Any:
    return operate("read_conversation", chat_id="new", **which)


def lines(page: Any) -> list[list[str]]:
    """Return the text of the message and the objects of the calls of each turn."""
    return [
        [*([turn["message"]["text"]] if turn["message"] else []), *map(name, turn["rows"])]
        for turn in page["turns"]
    ]


def name(row: Any) -> str:
    return str(row["call"]["object"] if row["call"] else row["title"])


def test_calls_are_below_their_message_and_others_where_they_happened(new: Operations) -> None:
    write(new, "first.txt", "1")
    question = add_message(new, "Make a page")
    answer = add_message(new, "Here it is", role="assistant", ref="m2")
    write(new, "a.txt", "one\ntwo\n", answer)
    write(new, "alone.txt", "1")
    (new.root / "data/chats/new/workspace/notes.md").write_text("by hand")
    write(new, "a.txt", "one\nthree\nfour\n", answer)
    failed = call(new, "app-builder:read_file", question, path="missing.txt")
    page = read(new)

    assert lines(page) == [
        ["first.txt"],
        ["Make a page", "missing.txt"],
        ["Here it is", "a.txt", "alone.txt", "edit: notes.md", "a.txt"],
    ]
    rows = [row for row in page["turns"][2]["rows"] if row["title"].endswith("success")]
    assert [(row["added_lines"], row["deleted_lines"]) for row in rows] == [(2, 0), (1, 0), (2, 1)]
    assert page["turns"][1]["rows"][0]["call"]["error"] == failed["error"]
    assert page["turns"][1]["newest"] == page["manifest_id"] == failed["post_manifest_id"]
    assert [turn["message"]["ref"] for turn in page["turns"] if turn["message"]] == [None, "m2"]


def test_a_message_names_its_siblings_on_other_branches(new: Operations) -> None:
    add_message(new, "Make a page")
    one = add_message(new, "One", role="assistant")
    new("retry_message", chat_id="new", message=one)
    two = add_message(new, "Two", role="assistant")
    new("retry_message", chat_id="new", message=two, branch="third")
    three = add_message(new, "Three", role="assistant")
    listed = {row["id"]: row for row in new("list_messages", chat_id="new")["messages"]}

    for branch, (number, older, newer) in {
        "main": (1, None, two),
        "retry-1": (2, one, three),
        "third": (3, two, None),
    }.items():
        message = read(new, branch=branch)["turns"][-1]["message"]
        assert (message["number"], message["older"], message["newer"]) == (number, older, newer)
        assert message["number"] == listed[message["id"]]["number"]
        assert message["siblings"] == listed[message["id"]]["siblings"] == 3
        assert message["parent_id"] == listed[message["id"]]["parent_id"]
    assert lines(read(new, branch="third", without="main")) == [["Three"]]
    assert lines(read(new, without="third", branch="retry-1")) == [["Two"]]
    assert lines(read(new, branch="main", without="main")) == []


def test_pages_have_every_commit_once(new: Operations) -> None:
    expected = []
    for number in range(5):
        message = add_message(new, f"m{number}")
        write(new, f"{number}.txt", "1", message)
        expected.append([f"m{number}", f"{number}.txt"])
    whole = read(new)
    assert lines(whole) == expected
    assert (whole["more"], whole["before"]) == (False, None)

    pages: list[list[list[str]]] = []
    before = None
    while before or not pages:
        page = read(new, limit=4, before=before)
        pages.append(lines(page))
        before = page["before"]
    assert [turn for page in reversed(pages) for turn in page] == expected
    assert len(pages) == 3


def test_one_message_has_the_calls_for_it_on_all_branches(new: Operations) -> None:
    message = add_message(new, "Make a page")
    write(new, "a.txt", "1", message)
    new("retry_message", chat_id="new", message=message)
    write(new, "b.txt", "1", message)

    assert lines(read(new, message=message)) == [["Make a page", "a.txt", "b.txt"]]
    assert lines(read(new)) == [["Make a page", "b.txt"]]
    assert new.error("read_conversation", chat_id="new", message="nope").code == "unknown_message"


def test_a_pending_call_has_its_approval_until_it_is_decided(new: Operations) -> None:
    message = add_message(new, "Clean up")
    made = call(new, "app-builder:run_command", message, command="rm -rf old")
    (waiting,) = read(new)["unfinished"]

    assert (waiting["object"], waiting["message_id"]) == ("rm -rf old", message)
    assert (waiting["execution_id"], waiting["may_settle"]) == (made["execution_id"], True)
    assert waiting["reasons"]
    new("deny_call", execution_id=made["execution_id"])
    page = read(new)
    assert page["unfinished"] == []
    assert lines(page) == [["Clean up", "rm -rf old"]]


def test_calls_of_hidden_tools_have_no_name_and_no_object(new: Operations) -> None:
    message = add_message(new, "Make a page")
    write(new, "secret.txt", "1", message)
    call(new, "app-builder:run_command", message, command="cat secret.txt")
    configure(new.root, 'roles: {reader: {allow: ["data-lab.*"]}}\n')
    page = new.as_role("reader")("read_conversation", chat_id="new")

    assert [row["call"] for turn in page["turns"] for row in turn["rows"]] == [None]
    assert page["unfinished"] == []
    assert "secret.txt" not in str(page)
    assert "app-builder" not in str(page)
