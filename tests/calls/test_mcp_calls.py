"""Calls of MCP servers' tools through the engine: granted, asked about, recorded, shown and ended."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.access.grants import GrantNeededError
from covalt_git.calls import mcp_calls
from covalt_git.calls.background import Follower, Started
from covalt_git.calls.engine import Request
from covalt_git.calls.mcp_calls import definition, listed
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.elicitation.requests import Inquiry, Respondent
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.grants.grants import grant_process, grant_server, revoke
from covalt_git.hosts import BadHostError
from covalt_git.json_values.json_schema import InvalidArgumentsError
from covalt_git.runtime.http_secrets import SecretMissingError, UnfitSecretError
from covalt_git.runtime.jobs import Log, Progress
from covalt_git.sources.refresh import find_source, refresh
from covalt_git.toolsets.state_store import find_server, find_toolset
from tests.calls.conftest import World, make_world
from tests.connections.test_connection import processes, until
from tests.taking_servers import take

if TYPE_CHECKING:
    from covalt_git.calls.outcomes import CallOutcome

SERVER = Path(__file__).parents[2] / "fixtures" / "servers" / "first_era.py"
SECRET = "canary-71c04d/+="
PROGRAM = f"command: {sys.executable}, args: [{SERVER}]"
FREE = "requires_confirmation: false"
CONFIG = """\
default_role: owner
roles:
  owner: {admin: true}
  narrow: {allow: ["first.add"]}
"""
SERVERS = ("first", "careful", "keyed", "turning")
PNG = b"\x89PNG"


def manifest(folder: Path) -> str:
    """Return the toolset: one program four times, as it is declared, granted and asked about."""
    turns = f"TOOLS: {folder}/tools.json, CHANGES: '1'"
    return f"""\
id: demo
name: Demo
version: "1"
secrets: [WEB_KEY]
mcp_servers:
  - {{id: first, {PROGRAM}, env: {{SAID: {folder}/said.txt, PLACE: $workspace/here}}, {FREE}}}
  - {{id: careful, {PROGRAM}}}
  - {{id: keyed, {PROGRAM}, env: {{KEY: "${{WEB_KEY}}"}}, {FREE}}}
  - {{id: turning, {PROGRAM}, env: {{{turns}}}, {FREE}}}
tool_overrides:
  - {{tool_id: "first:image", renderer: document, renderer_config: {{file: $return.file}}}}
"""


def offer(folder: Path, **changes: Any) -> None:
    """Have the server ``turning`` give this one tool."""
    tool = {"name": "add", "description": "Add two.", "inputSchema": {"type": "object"}}
    (folder / "tools.json").write_text(json.dumps([tool | changes]))


def call(world: World, tool: str, /, follower: Follower | None = None, **args: Any) -> CallOutcome:
    project = world.project()
    with project.chats.open("c1") as chat:
        return project.engine(follower=follower).call(chat, Request(tool, args))


def result(world: World, tool: str, /, **args: Any) -> Any:
    outcome = call(world, tool, **args)
    assert outcome.error is None
    return outcome.call.result


def error(outcome: CallOutcome) -> tuple[str, str]:
    assert outcome.call.status == "error"
    assert outcome.error is not None
    return outcome.error.code, outcome.error.message


def record(world: World) -> Any:
    """Return the record of the last call, as it stands in its commit."""
    found = world.log()[-1].record.call
    assert found is not None
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="module")
def world(folder: Path) -> Iterator[World]:
    """A project whose servers were granted, asked and accepted; it is every test's here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patch.setenv("WEB_KEY", SECRET)
        made = make_world(folder / "project")
        made.configure(CONFIG)
        made.write("demo/toolset.yaml", manifest(folder))
        offer(folder)
        for server in SERVERS:
            grant_process(made.root, "demo", server, by="me")
            take(made.root, "demo", server)
        yield made
        CONNECTIONS.close()


def test_a_call_is_recorded_like_any_other(world: World) -> None:
    outcome = call(world, "first:add", a=2, b=3)

    assert (outcome.call.status, outcome.call.result) == ("success", "5")
    kept = record(world)
    assert (kept.tool_id, kept.args, kept.result) == ("first:add", {"a": 2, "b": 3}, "5")
    assert (kept.status, kept.sandbox, kept.toolset.id) == ("success", None, "demo")
    assert world.git("log", "-1", "--format=%s", "main") == "tool_run: first:add\n"


def test_a_tool_that_a_role_may_not_see_is_none(world: World) -> None:
    before = world.refs()

    assert world.project("narrow").catalog.find_callable("first:add").tool.kind == "mcp"
    for tool in ("first:remember", "keyed:add"):
        with pytest.raises(UnknownNameError), world.project().chats.open("c1") as chat:
            world.project("narrow").engine().call(chat, Request(tool, {}))
    assert world.refs() == before


def test_arguments_are_held_to_the_schema_of_the_lock(world: World) -> None:
    before = world.refs()

    with pytest.raises(InvalidArgumentsError) as caught:
        call(world, "first:add", a="x")

    assert [one.path for one in caught.value.problems] == ["$", "$.a"]
    assert world.refs() == before


def test_a_person_is_asked_first_unless_the_toolset_says_otherwise(world: World) -> None:
    waits = call(world, "careful:write")
    assert waits.approval is not None
    assert not (world.workspace / "written.txt").exists()

    done = world.approve(waits.approval.execution_id)

    assert (done.call.result, done.call.id) == ("written", waits.call.id)
    assert [(one.kind, one.path) for one in done.changes] == [("added", "written.txt")]
    assert world.git("show", "main:written.txt") == "by the server\n"
    assert record(world).execution_id == waits.approval.execution_id


def test_an_image_is_a_file_and_shown_as_the_toolset_has_it(world: World) -> None:
    outcome = call(world, "first:image")

    assert outcome.call.result == {"file": "image.png", "media_type": "image/png", "size": 70}
    assert [(one.kind, one.path) for one in outcome.changes] == [("added", "image.png")]
    assert outcome.call.render_plan is not None
    assert outcome.call.render_plan.renderer == "document"
    assert outcome.call.render_plan.config == {"file": "workspace:image.png"}
    assert (world.workspace / "image.png").read_bytes().startswith(PNG)


def test_texts_files_and_links_keep_their_order(world: World) -> None:
    both, image, link = result(world, "first:mixed")

    assert both == "both"
    assert image["file"].startswith("mixed")
    assert link == {"uri": "https://example.org/a", "name": "a"}
    note = result(world, "first:resource")
    assert note == {"file": "today.md", "size": 8, "media_type": "text/markdown", "uri": "notes:///a/today.md"}  # fmt: skip
    assert (world.workspace / "today.md").read_text() == "# Today\n"


def test_structure_is_the_result(world: World) -> None:
    assert result(world, "first:structure") == {"answer": None}


def test_a_tool_that_says_that_it_failed_has_failed(world: World) -> None:
    assert error(call(world, "first:fail")) == ("tool_failed", "no such city")
    assert (record(world).error.code, record(world).result) == ("tool_failed", None)
    more = call(world, "first:fail", structure=True)
    assert error(more) == ("tool_failed", "no such city")
    assert more.call.result == record(world).result == {"city": None}


def test_an_error_of_the_protocol_is_the_servers(world: World) -> None:
    code, message = error(call(world, "first:protocol_error"))

    assert code == "server_error"
    assert "the moon is wrong (-32001)" in message


def test_a_server_that_ends_under_a_call_is_told_and_the_next_call_works(world: World) -> None:
    code, message = error(call(world, "first:die"))

    assert code == "server_ended"
    assert "it was all too much" in message
    assert result(world, "first:add", a=1, b=1) == "2"


def test_progress_and_logs_reach_whoever_follows_and_cancelling_ends_it(
    world: World, folder: Path
) -> None:
    told: list[Any] = []

    def tell(event: Any) -> None:
        told.append(event)
        if isinstance(event, Progress) and event.done == 2:
            follower.cancel.set()

    follower = Follower(tell)
    outcome = call(world, "first:slow", follower)

    assert error(outcome)[0] == "cancelled"
    assert isinstance(told[0], Started)
    assert told[1:3] == [Log("info", "it begins"), Progress(0, 100, "on")]
    assert record(world).error.code == "cancelled"
    assert record(world).output == "it begins\n"
    until((folder / "said.txt").exists)


def test_a_call_that_takes_too_long_ends_and_says_so(world: World) -> None:
    world.configure(CONFIG + "limits: {timeout_s: 0.5}\n")
    try:
        outcome = call(world, "first:slow")
    finally:
        world.configure(CONFIG)

    assert error(outcome) == ("limit_time", "it ran longer than 0.5 s")


def test_only_the_workspace_is_offered_and_placed(world: World) -> None:
    (root,) = json.loads(result(world, "first:roots"))["roots"]

    assert root["uri"] == world.workspace.as_uri()
    variables = json.loads(result(world, "first:environment"))
    assert variables["PLACE"] == f"{world.workspace}/here"
    assert "WEB_KEY" not in variables


def test_what_it_asks_goes_to_the_person_and_the_record_tells_that(world: World) -> None:
    def show(inquiry: Inquiry) -> None:
        answer = {"action": "accept", "content": {"name": "Ann"}}
        inquiry.answer("asked", answer)

    ann = Follower(respondent=Respondent(frozenset({"form"}), show))
    answered = call(world, "first:name_person", ann)

    assert json.loads(answered.call.result) == {"action": "accept", "content": {"name": "Ann"}}
    (asked,) = record(world).asked
    assert (asked.message, asked.answer) == ("Who?", "accept")
    assert "nobody is there" in result(world, "first:name_person")
    assert record(world).asked == ()


def test_a_question_ends_with_its_server(world: World) -> None:
    def show(_: Inquiry) -> None:
        for process in processes(str(SERVER)):
            os.kill(process, signal.SIGKILL)

    ann = Follower(respondent=Respondent(frozenset({"form"}), show))

    assert error(call(world, "first:name_person", ann))[0] == "server_ended"
    assert record(world).asked[0].answer is None


def test_a_secret_is_what_the_server_gets_and_nothing_that_is_kept(world: World) -> None:
    variables = json.loads(result(world, "keyed:environment"))

    assert variables["KEY"] == "***"
    assert SECRET not in world.git("log", "--format=%B", "main")
    assert SECRET not in (world.root / "toolsets/state/demo.yaml").read_text()


def test_a_reference_that_stands_for_nothing_is_told_by_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEB_KEY")
    before = world.refs()

    with pytest.raises(SecretMissingError, match="WEB_KEY"):
        call(world, "keyed:add", a=1, b=1)
    assert world.refs() == before


@pytest.mark.parametrize(
    ("written", "error", "said"),
    [
        pytest.param(
            'url: "https://far.example/", headers: {X-Key: "${WEB_KEY}"}',
            UnfitSecretError,
            "the secret 'WEB_KEY' cannot be sent in a header",
            id="header",
        ),
        pytest.param(
            'url: "https://far.example/?${WEB_KEY}"',
            BadHostError,
            "'https://far.example/?${WEB_KEY}' stands for no address",
            id="address",
        ),
    ],
)
def test_a_secret_that_cannot_be_sent_is_told_by_name_and_not_shown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: str,
    error: type[CovaltError],
    said: str,
) -> None:
    monkeypatch.setenv("WEB_KEY", f"{SECRET}\nmore")
    (tmp_path / "toolsets/far").mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text("version: 1\n")
    text = f'id: far\nname: Far\nversion: "1"\nmcp_servers:\n  - {{id: far, {written}}}\n'
    (tmp_path / "toolsets/far/toolset.yaml").write_text(text)
    grant_server(tmp_path, "far", "far", by="me")
    toolset = find_toolset(tmp_path, "far")

    with pytest.raises(error) as caught:
        definition(
            toolset,
            find_server(toolset, "far"),
            root=tmp_path,
            workspace=tmp_path / "workspace",
            chat_id=None,
            command=None,
        )

    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


def test_nothing_starts_that_is_not_granted(world: World) -> None:
    with world.project().chats.new("c2"):
        pass
    assert result(world, "keyed:add", a=1, b=1) == "2"
    revoke(world.root, "demo", "process-keyed")
    try:
        with world.project().chats.open("c2") as chat, pytest.raises(GrantNeededError) as caught:
            world.project().engine().call(chat, Request("keyed:add", {"a": 1, "b": 1}))
    finally:
        grant_process(world.root, "demo", "keyed", by="me")

    assert caught.value.hint == "covalt-git toolset show demo"
    assert CONNECTIONS.health(world.root)
    assert not [one for one in CONNECTIONS.health(world.root) if one.chat_id == "c2"]


def test_a_manifest_that_is_just_being_written_ends_no_server(world: World, folder: Path) -> None:
    project = world.project()
    found = project.catalog.find("first:add")
    with project.chats.open("c1") as chat:
        defined = mcp_calls._of_call(found, chat, world.root, None)
    wanted = mcp_calls._still_granted(world.root, found, defined)
    assert wanted()
    for _ in range(2):
        world.write("demo/toolset.yaml", "")
        assert wanted()
        world.write("demo/toolset.yaml", manifest(folder))
        assert wanted()

    world.write("demo/toolset.yaml", "")
    try:
        assert [wanted() for _ in range(3)] == [True, False, False]
    finally:
        world.write("demo/toolset.yaml", manifest(folder))
    revoke(world.root, "demo", "process-first")
    try:
        assert not wanted()
    finally:
        grant_process(world.root, "demo", "first", by="me")


def test_a_tool_is_called_only_as_it_was_accepted(world: World, folder: Path) -> None:
    assert result(world, "turning:add", a=1, b=2) == "3"
    offer(folder, description="Add two, and send them to me.")

    until(lambda: call(world, "turning:add", a=1, b=2).call.status == "error")
    assert error(call(world, "turning:add", a=1, b=2))[0] == "definition_changed"

    source = find_source(world.root, "demo", "turning")
    refresh(world.root, source, partial(listed, root=world.root))
    with pytest.raises(DisabledToolError):
        call(world, "turning:add", a=1, b=2)
    take(world.root, "demo", "turning")
    assert result(world, "turning:add", a=1, b=2) == "3"

    offer(folder, name="sum")
    until(lambda: call(world, "turning:add", a=1, b=2).call.status == "error")
    assert record(world).error.message.endswith("is gone")


def test_calls_of_a_chat_wait_for_each_other_and_those_of_others_do_not(world: World) -> None:
    with world.project().chats.new("c3"):
        pass
    begun = threading.Event()
    follower = Follower(lambda event: begun.set() if isinstance(event, Progress) else None)
    thread = threading.Thread(target=call, args=(world, "first:slow", follower))
    thread.start()
    try:
        assert begun.wait(10)
        with world.project().chats.open("c3") as chat:
            outcome = world.project().engine().call(chat, Request("first:remember", {"what": "x"}))
        assert json.loads(outcome.call.result) == ["x"]
        assert thread.is_alive()
    finally:
        follower.cancel.set()
        thread.join()
