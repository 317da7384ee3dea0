"""Refreshing the tools of MCP servers: new and changed definitions are off until they are accepted."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from covalt_git.access.grants import GrantNeededError
from covalt_git.calls.servers.mcp_calls import list_tools
from covalt_git.cli import main
from covalt_git.errors import CovaltError, StaleError
from covalt_git.gateway.service import Gateway
from covalt_git.grants.grants import add_grant, revoke_all
from covalt_git.models.held_back import CORRECTS_SCHEMA
from covalt_git.models.sources.tool_lock import LockedTool, locked_tool
from covalt_git.sources.definition_diff import definition_lines
from covalt_git.sources.refresh import (
    NoLockError,
    Refreshed,
    TaskOnlyError,
    ToolSource,
    accept,
    find_source,
    refresh,
)
from covalt_git.toolsets.toolset import read_toolset
from tests.killing import kills
from tests.operations_client import Operations
from tests.toolsets.projects import REPOSITORY

SERVER = REPOSITORY / "fixtures/servers/changing.py"

READ = {
    "name": "read file",
    "description": "Reads a file.\nNothing else.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
WIPE = {"name": "wipe", "inputSchema": {"type": "object"}}
LIST = {"name": "list", "inputSchema": {"type": "object"}}
READ_FILE = "read_file-1214148e"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with a server that offers three tools, on two pages, and is granted."""
    root = tmp_path / "project"
    (root / "toolsets/gear").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    declare(root)
    offer(root, READ, WIPE, LIST)
    add_grant(root, "gear", "process", "disk", by="me")
    return root


def declare(root: Path, more: str = "", toolset: str = "gear") -> None:
    args = json.dumps([str(SERVER), str(root.parent / "tools.json")])
    text = f"id: {toolset}\nname: Gear\nversion: '1'\nmcp_servers:\n"
    text += f"  - {{id: disk, command: {sys.executable}, args: {args}{more}}}\n"
    (root / f"toolsets/{toolset}/toolset.yaml").write_text(text, encoding="utf-8")


def offer(root: Path, *definitions: dict[str, Any]) -> None:
    (root.parent / "tools.json").write_text(json.dumps(definitions), encoding="utf-8")


def source(root: Path) -> ToolSource:
    return find_source(root, "gear", "disk")


def offered(root: Path) -> tuple[LockedTool, ...]:
    """Return what the server would list, without starting it."""
    definitions = json.loads((root.parent / "tools.json").read_text(encoding="utf-8"))
    return tuple(locked_tool(one) for one in definitions)


def asked(root: Path, *, write: bool = True, start: bool = False) -> Refreshed:
    """Refresh the source; ``start`` starts its server, as users do."""
    ask = (
        partial(list_tools, root=root, report=lambda _: None) if start else lambda *_: offered(root)
    )
    return refresh(root, source(root), ask, write=write)


def accepted_all(root: Path) -> ToolSource:
    return accept(root, "gear", "disk", {one.name: one.digest for one in source(root).to_accept})


def test_a_tool_that_runs_only_as_a_task_is_listed_with_the_reason_and_not_accepted(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    research = {**LIST, "name": "research", "execution": {"taskSupport": "required"}}
    optional = {**LIST, "name": "either", "execution": {"taskSupport": "optional"}}
    offer(root, READ, research, optional)
    asked(root)

    found = source(root)
    assert found.tasks == ("research",)
    assert sorted(one.name for one in found.to_accept) == ["either", READ_FILE]
    assert accepted_all(root).accepted == 2
    digest = locked_tool(research).digest
    with pytest.raises(TaskOnlyError):
        accept(root, "gear", "disk", {"research": digest})

    for command in (["source", "diff"], ["tool", "show", "disk:research"]):
        with pytest.raises(SystemExit):
            main(["-C", str(root), *command])
        assert "only as a task of MCP" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["-C", str(root), "source", "accept", "gear", "research"])
    assert "only as a task of MCP" in capsys.readouterr().err
    assert "disk.research" not in Gateway(root).tools()
    assert "disk.either" in Gateway(root).tools()


def test_a_tool_that_breaks_the_protocol_is_unusable_and_the_others_go_on(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without_type = {"name": "issue", "inputSchema": {"properties": {"title": {}}}}
    offer(root, READ, {"name": "wipe"}, without_type, LIST)

    with pytest.raises(SystemExit):
        main(["-C", str(root), "source", "refresh", "gear", "--accept", "--no-terminal", "test"])
    output, errors = capsys.readouterr()

    assert enabled(root) == {"disk:list": True, f"disk:{READ_FILE}": True, "disk:issue": False}
    assert "the tool 'wipe' is not listed, because its inputSchema is invalid" in errors
    assert "! disk:issue cannot be called: its input schema has no type: object" in output
    assert "gear/disk: 3 tools, 1 cannot be called" in output
    assert "all accepted" not in output
    assert CORRECTS_SCHEMA in errors
    assert {"disk.issue", "disk.list"} & {*Gateway(root).tools()} == {"disk.list"}
    with pytest.raises(SystemExit):
        main(["-C", str(root), "tool", "show", "disk:issue"])
    assert "its input schema is invalid" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["-C", str(root), "chat", "new", "--id", "c1"])
    with pytest.raises(SystemExit):
        main(["-C", str(root), "call", "c1", "disk:issue"])
    assert CORRECTS_SCHEMA in capsys.readouterr().err


def test_a_list_says_what_a_source_waits_for(root: Path) -> None:
    def notes() -> list[str]:
        (source,) = Operations(root)("list_sources")["sources"]
        return [str(note) for note in source["notes"]]

    assert notes() == ["not asked for its tools yet"]
    offer(root, READ, {"name": "issue", "inputSchema": {"properties": {}}})
    asked(root)
    accepted_all(root)
    assert notes() == ["1 cannot be called"]

    declare(root, more=", env: {LEVEL: '2'}")
    assert notes() == ["1 cannot be called", "no grant"]
    manifest = root / "toolsets/gear/toolset.yaml"
    declared = manifest.read_text(encoding="utf-8").replace("args: [", "args: [-B, ")
    manifest.write_text(declared, encoding="utf-8")
    assert notes() == ["declaration changed since the refresh", "1 cannot be called", "no grant"]


def lock_text(root: Path) -> str:
    file = root / "toolsets/locks/disk.yaml"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def enabled(root: Path) -> dict[str, bool]:
    return {tool.tool_id: tool.enabled for tool in read_toolset(root, "gear").tools}


@pytest.mark.requirement("cjson-toolsets.tools", "toolshed-sources.mcp")
def test_tools_of_every_page_are_listed_and_off_until_accepted(root: Path) -> None:
    found = asked(root, start=True)

    assert [(one.name, one.kind) for one in found.drift] == [
        ("list", "new"),
        (READ_FILE, "new"),
        ("wipe", "new"),
    ]
    assert enabled(root) == {"disk:list": False, f"disk:{READ_FILE}": False, "disk:wipe": False}
    assert accepted_all(root).to_accept == ()
    assert set(enabled(root).values()) == {True}

    before = lock_text(root)
    assert asked(root).drift == ()
    assert lock_text(root) == before


def test_a_changed_tool_is_off_and_its_differences_are_shown_until_it_is_accepted(
    root: Path,
) -> None:
    asked(root)
    accepted_all(root)
    offer(
        root,
        READ | {"description": "Reads a file.\nAnd sends it\u200b on."},
        LIST,
        {**WIPE, "name": "w"},
    )

    looked = asked(root, write=False)
    assert {one.name: one.kind for one in looked.drift} == {
        READ_FILE: "changed",
        "w": "new",
        "wipe": "gone",
    }
    assert source(root).to_accept == ()  # nothing was written

    found = asked(root)
    assert found.drift == looked.drift
    assert found.source.to_accept == source(root).to_accept == found.drift
    assert enabled(root) == {"disk:list": True, f"disk:{READ_FILE}": False, "disk:w": False}
    changed = next(one for one in found.drift if one.kind == "changed")
    assert [f"{line.mark}{line.text}" for line in definition_lines(changed.fields)] == [
        "@description",
        " Reads a file.",
        "-Nothing else.",
        "+And sends it\\u{200b} on.",
    ]

    accept(root, "gear", "disk", {READ_FILE: changed.digest})
    assert enabled(root) == {"disk:list": True, f"disk:{READ_FILE}": True, "disk:w": False}
    assert [one.name for one in accepted_all(root).to_accept] == []
    assert "replaced" not in lock_text(root)
    assert "disk:wipe" not in read_toolset(root, "gear").state.accepted


def test_a_changed_tool_is_compared_with_the_accepted_definition(root: Path) -> None:
    asked(root)
    accepted_all(root)
    first = source(root).lock
    assert first is not None
    for words in ("second", "third"):
        offer(root, READ | {"description": words}, WIPE, LIST)
        asked(root)

    (changed,) = source(root).to_accept
    assert changed.before == first.tools[READ_FILE]
    assert changed.fields["description"] == (READ["description"], "third")

    offer(root, READ, WIPE, LIST)
    asked(root)
    assert source(root).to_accept == ()
    assert set(enabled(root).values()) == {True}
    assert source(root).lock == first


def test_an_accepted_tool_keeps_its_name_for_hosts_when_another_collides(root: Path) -> None:
    user, other = ({"name": name, "inputSchema": {"type": "object"}} for name in ("get_user", "get.user"))  # fmt: skip
    gateway = Gateway(root, style="underscore")

    def take(*definitions: dict[str, Any]) -> dict[str, str]:
        offer(root, *definitions)
        refresh(root, source(root), partial(list_tools, root=root))
        accept(root, "gear", "disk", {one.name: one.digest for one in source(root).to_accept})
        tools = gateway.tools().items()
        return {tool.tool_id: name for name, tool in tools if tool.toolset_id == "gear"}

    assert take(user) == {"disk:get_user": "disk_get_user"}
    names = take(user, other)
    assert names["disk:get_user"] == "disk_get_user"
    assert names["disk:get.user"].startswith("disk_get_user_")
    assert take(user, other, WIPE)["disk:get_user"] == "disk_get_user"
    assert read_toolset(root, "gear").state.named_first == ("disk:get_user",)
    assert take(other, WIPE)["disk:get.user"] == "disk_get_user"  # the first one is removed


def test_a_tool_that_was_renamed_for_hosts_is_reported_with_both_names(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    user, other = ({"name": name, "inputSchema": {"type": "object"}} for name in ("get_user", "get.user"))  # fmt: skip
    operate, gateway = Operations(root), Gateway(root, style="underscore")

    def take(*definitions: dict[str, Any]) -> Any:
        offer(root, *definitions)
        renamed = operate("refresh_source", toolset_id="gear", namespace="disk")["renamed"]
        tools = {one.name: one.digest for one in source(root).to_accept}
        done = operate("accept_tools", toolset_id="gear", namespace="disk", tools=tools)
        return renamed + done["renamed"]

    assert take(user, other) == []
    (old,) = (name for name, tool in gateway.tools().items() if tool.tool_id == "disk:get_user")
    renamed = {"tool_id": "disk:get_user", "old_name": old, "new_name": "disk_get_user"}
    assert old.startswith("disk_get_user_")

    assert take(user) == [renamed]
    assert gateway.tools()["disk_get_user"].tool_id == "disk:get_user"

    take(other)
    take(user, other)
    offer(root, user)
    with pytest.raises(SystemExit):
        main(["-C", str(root), "source", "refresh", "--accept", "--no-terminal", "test"])
    (line,) = (one for one in capsys.readouterr().out.splitlines() if "renamed" in one)
    assert ": disk_get_user_" in line
    assert line.endswith(" -> disk_get_user; change their allow lists")


def test_a_tool_that_changed_since_it_was_shown_is_not_accepted(root: Path) -> None:
    asked(root)
    shown = {one.name: one.digest for one in source(root).to_accept}
    offer(root, READ, WIPE | {"title": "Wipe"}, LIST)
    asked(root)

    with pytest.raises(StaleError, match="disk:wipe"):
        accept(root, "gear", "disk", shown)
    assert not any(enabled(root).values())


@pytest.mark.kills
def test_a_killed_acceptance_leaves_a_tool_accepted_or_not(root: Path) -> None:
    asked(root)
    accepted_all(root)
    offer(root, READ | {"description": "Another."}, WIPE)
    asked(root)
    shown = {one.name: one.digest for one in source(root).to_accept}
    kept = {file: file.read_bytes() for file in (root / "toolsets").glob("*/*.yaml")}

    def reset() -> None:
        for file, content in kept.items():
            file.write_bytes(content)

    ends = set()
    for _ in kills(lambda: accept(root, "gear", "disk", shown), reset):
        toolset = read_toolset(root, "gear")
        assert toolset.problems == ()
        ends.add(enabled(root)[f"disk:{READ_FILE}"])
        accepted_all(root)
        assert source(root).to_accept == ()

    assert ends == {True, False}
    assert "replaced" not in lock_text(root)


def test_a_server_is_not_started_without_a_grant_or_if_it_is_off(root: Path) -> None:
    revoke_all(root, "gear")
    with pytest.raises(GrantNeededError, match="may not start"):
        asked(root, start=True)
    declare(root, ", enabled: false")
    with pytest.raises(CovaltError, match="the MCP server 'disk' is disabled") as off:
        asked(root)
    assert "under mcp_servers in toolsets/gear/toolset.yaml" in off.value.hint
    assert lock_text(root) == ""
    with pytest.raises(NoLockError, match="disk") as refused:
        accept(root, "gear", "disk", {})
    assert refused.value.hint == "covalt-git source refresh gear/disk"


def test_a_server_that_changed_during_the_refresh_is_refused(root: Path) -> None:
    before = source(root)
    asking: list[str] = []

    def ask(*_: object) -> tuple[LockedTool, ...]:
        declare(root, ", requires_confirmation: false")
        asking.append("asked")
        return ()

    with pytest.raises(StaleError, match="has changed"):
        refresh(root, before, ask)
    assert asking == ["asked"]
    assert lock_text(root) == ""
