"""The steps of a call: what stops it before anything is recorded, and what its one commit holds."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from covalt_git.calls import engine
from covalt_git.calls.engine import CallRequest
from covalt_git.calls.running import RunningCalls
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.json_values.json_schema import InvalidArgumentsError
from covalt_git.runtime import sandbox_levels
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.workspaces.lock import CancelledError
from tests.calls.conftest import World, code
from tests.examples import rest

IMPORTED = "source_type: zip\n"


# Before a call


def test_a_call_that_comes_after_the_server_has_stopped_does_not_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = RunningCalls()
    monkeypatch.setattr(engine, "RUNNING", running)

    with running.served():
        world.call("add", text="a")
    with pytest.raises(CancelledError, match="the server was stopped"):
        world.call("add", text="b")

    assert world.codes() == ["success"]


@pytest.mark.parametrize(
    ("state", "tool", "hint"),
    [
        (None, "off", "covalt-git tool enable demo:off"),
        ("enabled: false\n", "off", "covalt-git toolset enable demo"),
        (IMPORTED, "add", "covalt-git toolset enable demo"),
    ],
    ids=["the-tool", "its-toolset", "imported"],
)
def test_a_disabled_tool_is_refused_with_the_command_that_enables_it(
    world: World, state: str | None, tool: str, hint: str
) -> None:
    if state:
        world.write("state/demo.yaml", state)

    with pytest.raises(DisabledToolError) as caught:
        world.call(tool)

    assert caught.value.hint == hint


@pytest.mark.requirement("cjson-tools.argsSchema")
@pytest.mark.parametrize(
    ("tool", "args", "places"),
    [
        ("add", {"text": 1, "times": "many", "tmies": 2}, {"$", "$.text", "$.times"}),
        ("judge", {}, {"$"}),
        ("judge", {"number": 3}, {"$.number"}),
        ("add", {"text": "\ud800"}, {"$.text"}),
        ("ask", {"text": 1}, {"$.text"}),
    ],
    ids=["all-at-once", "missing", "refused-by-the-function", "not-json", "before-approval"],
)
def test_wrong_arguments_are_reported_with_their_places_and_not_recorded(
    world: World, tool: str, args: dict[str, Any], places: set[str]
) -> None:
    before = world.refs()

    with pytest.raises(InvalidArgumentsError) as caught:
        world.call(tool, **args)

    assert {one.path for one in caught.value.problems} == places
    by_function = (
        "the function also checks what its schema does not say: number (AfterValidator(even))"
    )
    by_schema = f"covalt-git tool schema demo:{tool}"
    assert caught.value.hint == (by_function if tool == "judge" and args else by_schema)
    assert (world.refs(), world.approvals()) == (before, [])


def test_a_toolset_edited_while_a_call_waits_for_the_chat_is_read_again(world: World) -> None:
    waits = threading.Event()
    project = world.project()

    def call() -> Any:
        with project.chats.open("c1") as chat:
            return project.engine(lambda _: waits.set()).call(chat, CallRequest("demo:add", {}))

    with ThreadPoolExecutor() as pool:
        with project.chats.open("c1") as chat, project.engine().writing(chat):
            made = pool.submit(call)
            assert waits.wait(30)
            world.edit("demo/toolset.yaml", "{id: add,", "{id: add, requires_confirmation: true,")
        outcome = made.result()

    assert outcome.approval is not None
    assert world.log() == []


# The commit of a call


@pytest.mark.requirement("covalt-4.3.7", "covalt-4.3.8")
def test_a_successful_call_is_one_commit_that_holds_everything(world: World) -> None:
    outcome = world.call("add", text="hello")

    (manifest,) = world.log()
    record = world.record()
    toolset = read_toolset(world.root, "demo")
    assert record.model_dump(exclude={"started_at", "finished_at"}) == {
        "tool_id": "demo:add",
        "args": {"text": "hello"},
        "result": {"text": "hello"},
        "links": (),
        "fields": (),
        "parent": None,
        "line": None,
        "waived_by": None,
        "token": None,
        "script": None,
        "role": None,
        "render_plan": None,
        "status": "success",
        "error": None,
        "output": "added hello\n",
        "sandbox": sandbox_levels.level(),
        "toolset": {"id": "demo", "version": "2.0.0", "digest": toolset.digest, "commit": None},
        "execution_id": None,
        "base": None,
        "asked": (),
    }
    assert (manifest.record.id, manifest.record.by) == (outcome.call.id, "local")
    assert record.started_at <= record.finished_at
    assert world.files() == {"runs.txt": "hello\n"}
    assert [(change.kind, change.path) for change in outcome.changes] == [("added", "runs.txt")]
    assert world.waiting() == []


@pytest.mark.parametrize("how", ["deleted", "link", rest("file")])
def test_deleting_the_workspace_fails_the_call_and_touches_nothing_outside(
    world: World, how: str
) -> None:
    outside = world.root / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("keep")
    first = world.call("add")
    outcome = world.call("vanish", level="process", how=how, outside=str(outside))

    assert code(outcome) == "workspace_deleted"
    assert outcome.error is not None
    assert outcome.error.hint.endswith(
        f"covalt-git chat branch c1 before --from {first.call.post_manifest_id}"
    )
    assert outcome.call.result is None
    assert world.call("add").call.status == "success"
    assert world.files() == {"runs.txt": "run\n"}
    assert [(one.name, one.read_text()) for one in outside.iterdir()] == [("precious.txt", "keep")]
    assert world.git("fsck", "--strict") == ""
