"""The steps of a call: what stops it before anything is recorded, and what its one commit says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.access.grants import GrantNeededError
from covalt_git.calls.engine import Request, limits_of
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.errors import UnknownNameError
from covalt_git.json_values.json_schema import InvalidArgumentsError
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.names import new_id
from covalt_git.runtime import sandbox
from covalt_git.runtime.sandbox import SandboxNeededError
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from tests.calls.conftest import World

LACKING = """
id: lacking
name: MissingGrant
version: "1"
tools:
  - {id: run, entrypoint: "tools.it:run"}
"""
VIEWER = """
    roles:
      viewer: {allow: [demo.add]}
"""


def test_tool_that_a_role_may_not_call_is_a_tool_that_does_not_exist(world: World) -> None:
    world.configure(VIEWER)
    told = []
    for name in ("asj", "ask"):
        with pytest.raises(UnknownNameError) as caught:
            world.call(name, role="viewer")
        told.append(str(caught.value.as_json()).replace(name, "NAME"))

    assert told[0] == told[1]
    assert "no tool 'demo:NAME'" in told[0]


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        pytest.param(None, "covalt-git tool enable demo:off", id="in-its-manifest"),
        pytest.param("enabled: false", "covalt-git toolset enable demo", id="with-its-toolset"),
    ],
)
def test_disabled_tool_is_refused_with_the_way_to_enable_it(
    world: World, change: str | None, hint: str
) -> None:
    if change:
        world.write("state/demo.yaml", f"{change}\n")

    with pytest.raises(DisabledToolError) as caught:
        world.call("off")

    assert (caught.value.message, caught.value.hint) == ("demo:off is disabled", hint)


@pytest.mark.parametrize(
    ("tool", "args", "problems"),
    [
        pytest.param(
            "add",
            {"text": 1, "times": "many", "tmies": 2},
            {
                ("$", "'tmies' is unknown, did you mean 'times'?"),
                ("$.text", "must be a text, not an integer"),
                ("$.times", "must be an integer, not a text"),
            },
            id="every-problem-at-once",
        ),
        pytest.param("judge", {}, {("$", "'number' is missing")}, id="missing"),
        pytest.param(
            "judge", {"number": 3}, {("$.number", "has to be even")}, id="as-the-function-judges"
        ),
        pytest.param(
            "add",
            {"text": "\ud800"},
            {("$.text", "half of a surrogate pair is not text")},
            id="not-json",
        ),
    ],
)
def test_wrong_arguments_are_told_with_their_places_and_nothing_is_recorded(
    world: World, tool: str, args: dict[str, Any], problems: set[tuple[str, str]]
) -> None:
    before = world.refs()

    with pytest.raises(InvalidArgumentsError) as caught:
        world.call(tool, **args)

    assert {(one.path, one.message) for one in caught.value.problems} == problems
    assert caught.value.hint == f"covalt-git tool show demo:{tool}"
    assert world.refs() == before


def test_wrong_arguments_of_a_tool_that_asks_are_told_before_anybody_is_asked(
    world: World,
) -> None:
    with pytest.raises(InvalidArgumentsError):
        world.call("ask", text=1)

    assert world.approvals() == []


def test_http_tool_is_inert_until_its_host_was_granted(world: World) -> None:
    with pytest.raises(GrantNeededError) as caught:
        world.call("web", city="Seattle")

    assert caught.value.message == "the toolset 'demo' may not reach https://example.com"
    assert caught.value.hint == "covalt-git grant add demo network example.com"
    assert world.log() == []


def test_imported_toolset_is_refused_where_no_wall_holds(world: World) -> None:
    world.write("state/demo.yaml", "source_type: zip\nenabled: true\n")

    with pytest.raises(SandboxNeededError):
        world.call_at("process", "add")

    assert world.log() == []


@pytest.mark.skipif(sandbox.level() == "process", reason="this machine has no walls that hold")
def test_imported_toolset_runs_between_walls_and_its_record_says_which(world: World) -> None:
    world.write("state/demo.yaml", "source_type: zip\nenabled: true\n")

    assert [world.call("add").call.status for _ in range(2)] == ["success"] * 2

    recorded = [manifest.record.call for manifest in world.log()]
    assert [call.sandbox for call in recorded if call] == [sandbox.level()] * 2


def test_imported_toolset_starts_disabled(world: World) -> None:
    world.write("state/demo.yaml", "source_type: zip\n")

    with pytest.raises(DisabledToolError):
        world.call("add")


def test_success_is_one_commit_that_holds_everything(world: World) -> None:
    outcome = world.call("add", text="hello")

    (manifest,) = world.log()
    record = manifest.record.call
    toolset = read_toolset(world.root, "demo")
    assert record is not None
    assert record.model_dump(exclude={"started_at", "finished_at"}) == {
        "tool_id": "demo:add",
        "args": {"text": "hello"},
        "result": {"text": "hello"},
        "render_plan": None,
        "status": "success",
        "error": None,
        "output": "added hello\n",
        "sandbox": sandbox.level(),
        "toolset": {"id": "demo", "version": "2.0.0", "digest": toolset.digest},
        "execution_id": None,
        "base": None,
        "asked": (),
    }
    assert manifest.record.id == outcome.call.id
    assert manifest.record.by == "local"
    assert record.started_at <= record.finished_at
    assert world.files() == {"runs.txt": "hello\n"}
    assert [(change.kind, change.path) for change in outcome.changes] == [("added", "runs.txt")]
    assert world.waiting() == []


def test_commit_tells_the_call_to_people_who_only_have_git(world: World) -> None:
    message_id = new_id()
    outcome = world.call_for(message_id, "add")

    message = world.git("log", "-1", "--format=%B", "main")
    digest = read_toolset(world.root, "demo").digest
    assert message.splitlines()[0] == "tool_run: demo:add"
    assert message.splitlines()[4:] == [
        "Covalt-Source: tool_run",
        f"Covalt-Source-Ref: {outcome.call.id}",
        f"Covalt-Message: {message_id}",
        "Covalt-Status: success",
        f"Covalt-Toolset: demo 2.0.0 {digest}",
        "",
    ]
    assert world.git("fsck", "--strict") == ""


def test_call_names_the_states_before_and_after_it(world: World) -> None:
    first = world.call("add").call
    second = world.call("add").call

    assert first.pre_manifest_id is None
    assert second.pre_manifest_id == first.post_manifest_id
    assert [one.id for one in world.log()] == [first.post_manifest_id, second.post_manifest_id]


def test_call_that_changes_nothing_is_a_commit_all_the_same(world: World) -> None:
    first = world.call("judge", number=2).call
    second = world.call("judge", number=2).call

    trees = {one.tree_id for one in world.log()}
    assert len(trees) == 1
    assert first.post_manifest_id != second.post_manifest_id


def test_what_a_person_edited_becomes_a_manifest_before_the_call(world: World) -> None:
    world.call("add")
    (world.workspace / "notes.txt").write_text("mine")
    outcome = world.call("add")

    assert [one.source for one in world.log()] == ["tool_run", "edit", "tool_run"]
    assert outcome.call.pre_manifest_id == world.log()[1].id
    assert [change.path for change in outcome.changes] == ["runs.txt"]


def test_failed_call_is_a_commit_with_what_it_changed(world: World) -> None:
    outcome = world.call("fail")

    (manifest,) = world.log()
    record = manifest.record.call
    assert record is not None
    assert outcome.call.status == "error"
    assert outcome.call.error == "tool_raised: RuntimeError: half way ?"
    assert record.error is not None
    assert record.error.traceback.startswith("tools/plain.py:")
    assert record.result is None
    assert record.render_plan == {
        "renderer": "code",
        "config": {"content": f"{record.error}\n{record.error.traceback}", "language": "text"},
    }
    assert world.files() == {"partial.txt": "half"}
    assert "Covalt-Status: error" in world.git("log", "-1", "--format=%B", "main")


def test_large_fields_are_read_back_whole(world: World) -> None:
    text = "x" * 40_000
    outcome = world.call("add", text=text)

    (manifest,) = world.log()
    assert manifest.record.call is not None
    assert manifest.record.call.args == {"text": text}
    assert manifest.record.call.result == outcome.call.result == {"text": text}
    assert text not in world.git("log", "-1", "--format=%B", "main")


@pytest.mark.parametrize("how", ["deleted", "link", "file"])
def test_deleted_workspace_is_an_error_of_the_call_and_nothing_outside_is_touched(
    world: World, how: str
) -> None:
    outside = world.root / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("keep")
    first = world.call("add")
    outcome = world.call_at("process", "vanish", how=how, outside=str(outside))
    after = world.call("add")

    assert outcome.error is not None
    assert outcome.error.code == "workspace_deleted"
    assert outcome.error.hint.endswith(
        f"covalt-git chat branch c1 before --from {first.call.post_manifest_id}"
    )
    assert outcome.call.result is None
    assert after.call.status == "success"
    assert world.files() == {"runs.txt": "run\n"}
    assert os.listdir(outside) == ["precious.txt"]  # noqa: PTH208 - names are what is compared
    assert (outside / "precious.txt").read_text() == "keep"
    assert world.git("fsck", "--strict") == ""


def test_render_plan_keeps_the_page_as_it_was(world: World) -> None:
    plan = world.call("show", title="hi").call.render_plan
    world.write("demo/artifacts/page.html", "<h1>second</h1>")

    assert plan is not None
    assert plan.artifact is not None
    assert (plan.renderer, plan.error) == ("html", None)
    assert plan.config == {"artifact": "toolset:artifacts/page.html", "data": {"title": "hi"}}
    with world.project().chats.open("c1") as chat:
        assert chat.records.content(plan.artifact) == b"<h1>first</h1>"
    digest = plan.artifact.ref.removeprefix("sha256:")
    kept = world.git("show", f"refs/covalt/records:{digest[:2]}/{digest}")
    assert kept == "<h1>first</h1>"


def test_plan_that_cannot_be_resolved_is_never_an_error_of_the_call(world: World) -> None:
    call = world.call("misshow", title="hi").call

    assert (call.status, call.error) == ("success", None)
    assert call.render_plan is not None
    assert call.render_plan.error is not None


def test_page_that_is_gone_is_an_error_of_the_plan(world: World) -> None:
    (world.root / "toolsets" / "demo" / "artifacts" / "page.html").unlink()
    world.write(
        "demo/toolset.yaml",
        (world.root / "toolsets/demo/toolset.yaml")
        .read_text()
        .replace("artifact: artifacts/page.html", "artifact: $args.title"),
    )
    call = world.call("show", title="artifacts/page.html").call

    assert call.status == "success"
    assert call.render_plan is not None
    assert call.render_plan.error == "the toolset has no file 'artifacts/page.html'"


def test_failed_call_shows_its_error_where_the_page_would_need_a_result(world: World) -> None:
    plan = world.call("noshow").call.render_plan

    assert plan is not None
    assert plan.renderer == "code"
    assert str(plan.config["content"]).startswith("tool_raised: RuntimeError")


def test_toolset_edited_while_a_call_waits_for_the_chat_is_read_again(world: World) -> None:
    project = world.project()
    with project.chats.open("c1") as chat:
        with project.engine().writing(chat):
            waits = world.start("call", "c1", "demo:add")
            assert waits.stderr is not None
            assert waits.stderr.readline().startswith("waiting for the chat")
            manifest = world.root / "toolsets" / "demo" / "toolset.yaml"
            asks = "{id: add, requires_confirmation: true,"
            manifest.write_text(manifest.read_text().replace("{id: add,", asks))
        printed, _ = waits.communicate()

    assert waits.returncode == 1
    assert printed.startswith("demo:add waits for a person: the toolset asks")
    assert world.log() == []


@pytest.mark.parametrize(
    ("tool", "project", "timeout", "output"),
    [
        pytest.param({}, {}, 60, 16, id="defaults"),
        pytest.param({}, {"timeout_s": 5.0}, 5, 16, id="the-project-s"),
        pytest.param({"timeout_s": 90.0, "output_mb": 64}, {}, 90, 64, id="the-tool-s-own"),
        pytest.param(
            {"timeout_s": 90.0}, {"timeout_s": 5.0}, 5, 16, id="no-more-than-the-project-s"
        ),
        pytest.param({"timeout_s": 5.0}, {"timeout_s": 90.0}, 5, 16, id="less-than-the-project-s"),
        pytest.param({"timeout_s": 1.0}, {"output_mb": 2}, 1, 2, id="each-by-itself"),
    ],
)
def test_limits_are_the_smaller_of_the_tool_s_and_the_project_s_else_the_defaults(
    tool: dict[str, Any], project: dict[str, Any], timeout: float, output: int
) -> None:
    limited = Tool.model_validate(
        {
            "tool_id": "demo:add",
            "toolset_id": "demo",
            "name": "Add",
            "input_schema": {},
            "limits": tool,
        }
    )
    config = ProjectConfig.model_validate({"version": 1, "limits": project})

    found = limits_of(limited, config)

    assert (found.timeout_s, found.output_mb) == (timeout, output)


def test_limit_of_the_project_ends_a_tool_that_says_none(world: World) -> None:
    world.configure("limits: {timeout_s: 1.0}")
    waiting = world.ask("wait")
    outcome = world.approve(waiting)

    assert outcome.call.error == "limit_time: it ran longer than 1 s"
    assert world.files()["runs.txt"] == "run\n"


def test_limit_of_the_project_ends_a_tool_that_wants_more(world: World) -> None:
    manifest = world.root / "toolsets/demo/toolset.yaml"
    wants = "{id: wait, limits: {timeout_s: 600},"
    manifest.write_text(manifest.read_text().replace("{id: wait,", wants))
    world.configure("limits: {timeout_s: 1.0}")

    outcome = world.approve(world.ask("wait"))

    assert outcome.call.error == "limit_time: it ran longer than 1 s"


def test_module_that_lacks_a_dependency_says_where_it_is_named(world: World) -> None:
    world.write("lacking/toolset.yaml", LACKING)
    world.write("lacking/tools/it.py", "import nowhere_to_be_found\n\n\ndef run() -> None: ...\n")
    project = world.project()

    with project.chats.open("c1") as chat:
        outcome = project.engine().call(chat, Request("lacking:run", {}))

    assert outcome.error is not None
    assert outcome.error.code == "cannot_load"
    assert outcome.error.hint == "name it under python.dependencies of lacking/toolset.yaml"
