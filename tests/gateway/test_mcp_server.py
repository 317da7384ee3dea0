"""Lists, calls and notifications of the MCP server, in both protocol versions."""

from pathlib import Path

import pytest
from mcp import Client

from covalt_git.project import Project
from tests.mcp_client import (
    VERSIONS,
    ToolNews,
    add_toolset,
    by_turns,
    call,
    error_of,
    listening,
    refused,
    talk,
    text,
    tool_names,
    versions,
)

WRITE = {"path": "a.txt", "content": "hi"}
WAVE = """\
id: more
name: More
version: "1"
tools: [{id: wave, entrypoint: tools.more:wave}]
"""


@pytest.mark.requirement("toolshed-policy.filter")
@pytest.mark.parametrize("role", [None, "reader"])
def test_the_list_is_the_catalog_of_the_role(shared: Path, role: str | None) -> None:
    project = Project.open(shared, role=role)
    with project.tool_index() as index:
        index.sync_toolsets()
        visible = [one.path for one in project.catalog.visible(index.tools()) if one.enabled]

    names = talk(shared, tool_names, role=role)

    assert [name for name in names if name not in {"read_result", "resume"}] == visible


def test_a_tool_that_raises_returns_its_error_without_paths(shared: Path) -> None:
    result = call(shared, "demo.fails")

    assert result.is_error is True
    assert error_of(result)["error"] == "tool_raised"
    assert "no such luck" in text(result)
    assert str(shared) not in text(result)


def test_invalid_arguments_are_all_reported_and_make_no_chat(shared: Path) -> None:
    before = Project.open(shared).chats.ids()

    result = call(shared, "demo.write", {"path": 1, "other": 2})

    assert error_of(result)["error"] == "invalid_arguments"
    assert len(error_of(result)["problems"]) == 3
    assert Project.open(shared).chats.ids() == before


@pytest.mark.parametrize(
    ("version", "style", "role"),
    [
        (VERSIONS[0], "dots", None),
        ("legacy", "underscore", "reader"),
        (VERSIONS[0], "dots", "reader"),
    ],
)
def test_hidden_disabled_and_missing_tools_get_one_answer(
    shared: Path, version: str, style: str, role: str | None
) -> None:
    hidden = {None: ["off", "missing"], "reader": ["write", "off", "missing"]}[role]

    async def say(client: Client) -> None:
        listed = {one.name for one in (await client.list_tools()).tools}
        for tool in hidden:
            name = f"demo.{tool}" if style == "dots" else f"demo_{tool}"
            error = await refused(client.call_tool(name, WRITE))
            assert (error.code, error.data) == (-32602, None)
            hint = error.message.removeprefix(f"unknown tool {name!r}")
            assert hint in {"", *(f"; did you mean {one!r}?" for one in listed)}

    talk(shared, say, version=version, role=role, style=style)


TIDY = """\
id: tidy
name: Tidy
version: "1"
tools:
  - {id: delete_notes, entrypoint: tools.tidy:run}
  - {id: wipe_all, entrypoint: tools.tidy:run}
  - {id: clean_up, entrypoint: tools.tidy:run, annotations: {destructive: true}}
  - {id: remove_marks, entrypoint: tools.tidy:run, annotations: {destructive: false}}
  - {id: list_notes, entrypoint: tools.tidy:run}
"""


@by_turns("style", ["dots", "underscore"])
def test_no_destructive_tool_is_proposed_for_an_unknown_name(
    root: Path, version: str, style: str
) -> None:
    add_toolset(root, "tidy", TIDY, "def run() -> None:\n    pass\n")
    separator = "." if style == "dots" else "_"

    async def say(client: Client) -> None:
        for wrong, near in {
            "delete_note": None,
            "wipe_al": None,
            "clean_u": None,
            "remove_mark": "remove_marks",
            "list_note": "list_notes",
        }.items():
            error = await refused(client.call_tool(f"tidy{separator}{wrong}", {}))
            hint = f"; did you mean 'tidy{separator}{near}'?" if near else ""
            assert error.message == f"unknown tool 'tidy{separator}{wrong}'{hint}"

    talk(root, say, version=version, style=style)


def test_each_client_has_one_chat_that_is_titled_with_its_name(root: Path) -> None:
    async def say(client: Client) -> list[str]:
        results = [await client.call_tool("demo.write", WRITE) for _ in range(2)]
        assert ["created the chat" in text(result) for result in results] == [True, False]
        return [result.meta["covalt-git/chat"] for result in results if result.meta]

    assert talk(root, say) == ["c1", "c1"]
    assert talk(root, say) == ["c2", "c2"]
    with Project.open(root).chats.open("c1") as chat:
        assert chat.card().title == "mcp"


@versions
def test_a_client_is_notified_when_tools_change(root: Path, version: str) -> None:
    news = ToolNews()

    async def say(client: Client) -> list[str]:
        async with listening(client, version):
            await client.list_tools()
            add_toolset(root, "more", WAVE, "def wave() -> str:\n    return 'o/'\n")
            await news.wait()
        return await tool_names(client)

    assert "more.wave" in talk(root, say, version=version, message_handler=news.handle)


def test_an_internal_error_is_logged_and_not_sent_to_the_client(
    shared: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise LookupError("a secret")

    monkeypatch.setattr(Project, "engine", broken)
    for version in VERSIONS:
        result = call(shared, "demo.steps", version=version)
        assert error_of(result)["error"] == "internal_error"
        assert "a secret" not in text(result)
    assert "a secret" in caplog.text
