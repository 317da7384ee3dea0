"""Examples run in scratch chats; approval is required only for tools that can reach out of them."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING

import pytest

from covalt_git.calls.tool_examples import ExampleRun, run_example
from covalt_git.grants.grants import grant_network
from covalt_git.toolsets.new_project import SAMPLES
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.workspaces.registry import Chats

if TYPE_CHECKING:
    from pathlib import Path

    from tests.calls.conftest import World

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
        grant_network(world.root, "shown", ["api.example.com"], by="local")
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


def test_differences_from_the_expected_result_are_named_by_their_places(
    world: World, chats: Chats
) -> None:
    done = run(
        world,
        chats,
        "entrypoint: tools:read\nexamples:\n"
        "- {files: {a: x}, args: {path: a}, expected: {text: y, one: true, more: []}}\n",
    )

    assert done.verdict == "failed"
    assert [(at.path, at.then, at.now) for at in done.differences] == [
        ("$.more", "[]", None),
        ("$.one", "true", "1"),
        ("$.path", None, '"a"'),
        ("$.text", '"y"', '"x"'),
    ]


@pytest.mark.parametrize(
    ("entry", "verdict", "reason"),
    [
        ("entrypoint: tools:nothing\nexamples: [{expected: null}]", "ok", ""),
        ("entrypoint: tools:nothing\nexamples: [{expected: 0}]", "failed", "the result"),
        ("entrypoint: tools:read\nexamples: [{args: {path: a}}]", "failed", "tool_raised: "),
        (
            "entrypoint: tools:ask\noutput_schema: {type: integer}\nexamples: [{}]",
            "failed",
            "bad_result: ",
        ),
        ("entrypoint: tools:read\nexamples: [{args: {}}]", "failed", "the toolset 'shown' has err"),
        # A scratch chat belongs to nobody, so that neither of these needs an approval.
        (f"entrypoint: tools:ask\n{ASKS}examples: [{{expected: ran}}]", "ok", ""),
        ("entrypoint: tools:ask\nexamples: [{expected: ran}]", "ok", ""),
        # But a tool with a granted host could send something.
        (f"entrypoint: tools:ask  # granted\n{ASKS}examples: [{{}}]", "skipped", "it asks first"),
        ("entrypoint: tools:ask  # granted\nexamples: [{}]", "skipped", "it asks first"),
        (
            "http: {url: 'https://example.com/x'}\nexamples: [{}]",
            "skipped",
            "the toolset 'shown' m",
        ),
        (
            "entrypoint: tools:ask\nenabled: false\nexamples: [{}]",
            "skipped",
            "shown:it is disabled",
        ),
    ],
)
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


def test_a_rule_of_the_project_requires_no_approval_in_a_scratch_chat(
    world: World, chats: Chats
) -> None:
    world.configure('approvals: [{pattern: "**", require: true}]\n')
    entry = "entrypoint: tools:read\nexamples: [{files: {a: x}, args: {path: a}}]\n"

    assert run(world, chats, entry).verdict == "ok"


def test_a_role_that_may_not_approve_does_not_run_an_example_that_requires_approval(
    world: World, chats: Chats
) -> None:
    world.configure('roles: {maker: {allow: ["**"]}}\n')

    done = run(world, chats, f"entrypoint: tools:ask\n{ASKS}examples: [{{}}]\n", role="maker")

    assert done.verdict == "skipped"
    assert chats.ids() == []


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
