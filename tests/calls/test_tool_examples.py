"""Examples run in scratch chats: judged by what they expect, asked about only where they can reach out."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import pytest

from covalt_git.calls.tool_examples import ExampleRun, run_example
from covalt_git.grants.grants import grant_network
from covalt_git.project import Project
from covalt_git.toolsets.new_project import SAMPLES, create_project
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.workspaces.chats import Chats

if TYPE_CHECKING:
    from tests.calls.conftest import World

HEAD = 'id: shown\nname: Shown\nversion: "1"\nsecrets: [KEY]\ntools:\n'
PYTHON = """\
from pathlib import Path

from covalt_toolset import tool


def read(workspace: Path, path: str) -> dict:
    if not (workspace / path).exists():
        raise ValueError(f"there is no {path!r}")
    return {"text": (workspace / path).read_bytes().decode(), "one": 1, "path": path}


def nothing() -> None:
    return None


@tool(requires_confirmation=True)
def ask() -> str:
    return "ran"
"""


@pytest.fixture
def chats(world: World, tmp_path: Path) -> Chats:
    return Chats(tmp_path / "scratch", world.project().config.workspace)


def declared(world: World, entry: str) -> None:
    world.write("shown/tools.py", PYTHON)
    world.write("shown/toolset.yaml", f"{HEAD}  - id: it\n{indent(entry, '    ')}")


def ran(world: World, chats: Chats, *, role: str | None = None) -> ExampleRun:
    project = world.project(role)
    tool = read_toolset(world.root, "shown").tool("shown:it")
    assert tool is not None
    return run_example(project.engine(), chats, tool, 1)


def test_its_files_are_there_and_its_result_is_the_expected_one(world: World, chats: Chats) -> None:
    declared(
        world,
        "entrypoint: tools:read\nexamples:\n"
        "- description: a file in a folder\n"
        '  files: {a/b.txt: "x\\r\\n"}\n'
        "  args: {path: a/b.txt}\n"
        '  expected: {text: "x\\r\\n", one: 1.0, path: a/b.txt}\n',
    )
    before = world.project().chats.ids()

    one = ran(world, chats)

    assert (one.verdict, one.reason, one.differences) == ("ok", "", ())
    assert (one.tool_id, one.number, one.description) == ("shown:it", 1, "a file in a folder")
    assert one.result == {"text": "x\r\n", "one": 1, "path": "a/b.txt"}
    assert chats.ids() == [one.chat_id]
    assert world.project().chats.ids() == before


def test_what_is_not_as_expected_is_told_by_its_place(world: World, chats: Chats) -> None:
    declared(
        world,
        "entrypoint: tools:read\nexamples:\n"
        "- files: {a: x}\n  args: {path: a}\n  expected: {text: y, one: true, more: []}\n",
    )

    one = ran(world, chats)

    assert (one.verdict, one.reason) == ("failed", "the result is not the expected one")
    assert [(at.path, at.then, at.now) for at in one.differences] == [
        ("$.more", "[]", None),
        ("$.one", "true", "1"),
        ("$.path", None, '"a"'),
        ("$.text", '"y"', '"x"'),
    ]


@pytest.mark.parametrize(("expected", "verdict"), [("null", "ok"), ("0", "failed")])
def test_an_expected_null_is_an_expectation(
    world: World, chats: Chats, expected: str, verdict: str
) -> None:
    declared(
        world, f"entrypoint: tools:nothing\nexamples: [{{args: {{}}, expected: {expected}}}]\n"
    )

    assert ran(world, chats).verdict == verdict


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        pytest.param(
            "entrypoint: tools:read\nexamples: [{args: {path: missing}}]\n",
            "tool_raised: ValueError: there is no 'missing'",
            id="it-raises",
        ),
        pytest.param(
            "entrypoint: tools:ask\noutput_schema: {type: integer}\nexamples: [{}]\n",
            "bad_result: $: must be an integer, not a text",
            id="not-what-its-schema-says",
        ),
        pytest.param(
            "entrypoint: tools:read\nexamples: [{args: {}}]\n",
            "the toolset 'shown' has errors, so none of its tools can be used; "
            "toolsets/shown/toolset.yaml:8:23: CG208 tools[it].examples[0].args: 'path' is missing",
            id="broken",
        ),
    ],
)
def test_a_call_that_fails_is_a_failed_example(
    world: World, chats: Chats, entry: str, reason: str
) -> None:
    declared(world, entry)

    one = ran(world, chats)

    assert (one.verdict, one.reason) == ("failed", reason)


def test_a_tool_that_stays_in_the_chat_asks_nobody(world: World, chats: Chats) -> None:
    for asks in ("requires_confirmation: true\n", ""):  # the manifest, and only its decorator
        declared(world, f"entrypoint: tools:ask\n{asks}examples: [{{expected: ran}}]\n")

        assert ran(world, chats).verdict == "ok"


def test_a_rule_of_the_project_asks_nobody_either(world: World, chats: Chats) -> None:
    world.configure('approvals: [{pattern: "**", require: true}]\n')
    declared(world, "entrypoint: tools:read\nexamples: [{files: {a: x}, args: {path: a}}]\n")

    assert ran(world, chats).verdict == "ok"


@pytest.mark.parametrize("asks", ["requires_confirmation: true\n", ""])
def test_one_that_may_reach_a_host_still_asks_and_does_not_run(
    world: World, chats: Chats, asks: str
) -> None:
    declared(world, f"entrypoint: tools:ask\n{asks}examples: [{{expected: ran}}]\n")
    grant_network(world.root, "shown", ["api.example.com"], by="local")

    one = ran(world, chats)

    assert one.verdict == "skipped"
    assert one.reason == "it asks first, and may reach beyond the scratch chat"
    assert one.hint == "covalt-git call CHAT shown:it asks you"
    assert one.result is None


def test_under_a_role_that_may_not_approve_it_does_not_run(world: World, chats: Chats) -> None:
    world.configure('roles: {maker: {allow: ["**"]}}\n')
    declared(world, "entrypoint: tools:ask\nrequires_confirmation: true\nexamples: [{}]\n")

    one = ran(world, chats, role="maker")

    assert (one.verdict, one.reason) == (
        "skipped",
        "a person has to approve it, and your role may not",
    )
    assert chats.ids() == []


@pytest.mark.parametrize(
    ("entry", "reason", "hint"),
    [
        pytest.param(
            "http: {url: 'https://example.com/x'}\nexamples: [{}]\n",
            "the toolset 'shown' may not reach https://example.com",
            "covalt-git grant add shown network example.com",
            id="host",
        ),
        pytest.param(
            "entrypoint: tools:ask\nenabled: false\nexamples: [{}]\n",
            "shown:it is disabled",
            "covalt-git tool enable shown:it",
            id="off",
        ),
    ],
)
def test_what_may_not_run_is_skipped_with_what_to_do(
    world: World, chats: Chats, entry: str, reason: str, hint: str
) -> None:
    declared(world, entry)

    one = ran(world, chats)

    assert (one.verdict, one.reason, one.hint) == ("skipped", reason, hint)


def test_every_example_of_the_samples_does_what_it_says(tmp_path: Path) -> None:
    create_project(tmp_path / "project")
    project = Project.open(tmp_path / "project")
    fast = project.config.workspace.model_copy(update={"durability": "fast"})
    chats = Chats(tmp_path / "scratch", fast)
    tools = [one for name in SAMPLES for one in read_toolset(project.root, name).tools]

    done = [
        run_example(project.engine(), chats, tool, number + 1)
        for tool in tools
        for number in range(len(tool.examples))
    ]

    assert [one for one in done if one.verdict != "ok"] == []
    assert {one.tool_id.partition(":")[0] for one in done} == set(SAMPLES)
    assert [tool.tool_id for tool in tools if not tool.examples] == []
