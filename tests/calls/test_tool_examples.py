"""Examples run in scratch chats; approval is required only for tools that can reach out of them."""

from pathlib import Path
from textwrap import indent

import pytest

from covalt_git.calls.engine import Engine
from covalt_git.calls.tool_examples import ExampleRun, run_example
from covalt_git.grants.grants import add_grant
from covalt_git.runtime import sandbox_levels
from covalt_git.toolsets.new_project import SAMPLES
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.workspaces.registry import Chats
from tests.calls.conftest import World
from tests.tables import tables

TABLES = tables(__file__)

HEAD = 'id: shown\nname: Shown\nversion: "1"\nsecrets: [KEY]\ntools:\n'
ASKS = "requires_confirmation: true\n"


@pytest.fixture
def chats(world: World, tmp_path: Path) -> Chats:
    return Chats(tmp_path / "scratch", world.project().config.workspace)


def run(world: World, chats: Chats, entry: str, *, role: str | None = None) -> ExampleRun:
    """Declare the tool ``shown:it``, and run its first example."""
    world.add("shown")
    world.write("shown/toolset.yaml", f"{HEAD}  - id: it\n{indent(entry, '    ')}")
    if "granted" in entry:
        add_grant(world.root, "shown", "network", hosts=["api.example.com"], by="local")
    tool = read_toolset(world.root, "shown").tool("shown:it")
    assert tool is not None
    return run_example(world.project(role).engine(), chats, tool, 1)


def test_an_example_with_its_files_returns_the_expected_result(world: World, chats: Chats) -> None:
    before = world.project().chats.ids()

    done = run(
        world,
        chats,
        "entrypoint: tools:read\nexamples:\n"
        "- description: a file in a folder\n"
        '  files: {a/b.txt: "x\\r\\n"}\n'
        "  args: {path: a/b.txt}\n"
        '  expected: {text: "x\\r\\n", one: 1.0, path: a/b.txt}\n',
    )

    assert (done.verdict, done.reason, done.differences) == ("ok", "", ())
    assert (done.tool_id, done.number, done.description) == ("shown:it", 1, "a file in a folder")
    assert done.result == {"text": "x\r\n", "one": 1, "path": "a/b.txt"}
    assert chats.ids() == [done.chat_id]
    assert world.project().chats.ids() == before


@pytest.mark.parametrize(("entry", "verdict", "reason"), TABLES["verdicts"])
def test_the_verdict_of_an_example(
    world: World, chats: Chats, entry: str, verdict: str, reason: str
) -> None:
    done = run(world, chats, f"{entry}\n")

    assert done.verdict == verdict
    assert done.reason.startswith(reason)
    assert bool(done.reason) == bool(reason)
    if verdict == "skipped":
        assert done.hint.startswith("covalt-git ")
        assert done.result is None


def test_without_a_sandbox_an_example_that_requires_approval_is_skipped(
    world: World, chats: Chats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_levels, "level", lambda: "process")
    monkeypatch.setattr(Engine, "run", None)

    done = run(world, chats, f"entrypoint: tools:ask\n{ASKS}examples: [{{}}]\n")

    assert done.verdict == "skipped"
    assert done.reason == "it requires approval, and may reach beyond the scratch chat"
    assert chats.ids() == []


def test_a_role_that_may_not_approve_does_not_run_an_example_that_requires_approval(
    world: World, chats: Chats
) -> None:
    world.configure('roles: {maker: {allow: ["**"]}}\n')

    done = run(world, chats, f"entrypoint: tools:ask\n{ASKS}examples: [{{}}]\n", role="maker")

    assert done.verdict == "skipped"
    assert chats.ids() == []


@pytest.mark.rest
def test_every_sample_tool_has_examples_that_succeed(world: World, chats: Chats) -> None:
    engine = world.project().engine()
    tools = [one for name in SAMPLES for one in read_toolset(world.root, name).tools]

    done = [
        run_example(engine, chats, tool, number + 1)
        for tool in tools
        for number in range(len(tool.examples))
    ]

    assert [one for one in done if one.verdict != "ok"] == []
    assert {one.tool_id.partition(":")[0] for one in done} == set(SAMPLES)
    assert [tool.tool_id for tool in tools if not tool.examples] == []
