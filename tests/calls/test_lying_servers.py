"""Tasks of an MCP server that answers once, late, wrongly, or too much."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from mcp import Client

from covalt_git.calls.engine import CallRequest
from covalt_git.calls.running import STOPPED, Cancel, Follower
from covalt_git.calls.servers import left_tasks
from covalt_git.connections.pool import CONNECTIONS, Connections
from covalt_git.errors import CovaltError
from covalt_git.gateway.large_results import Delivery
from covalt_git.gateway.service import Gateway
from covalt_git.gateway.tasks import task_state
from covalt_git.gateway.tasks.task_state import TaskQuery
from covalt_git.grants.grants import add_grant
from covalt_git.models.calls import CallError
from covalt_git.models.commit_record import CallRecord
from covalt_git.models.outcomes import Log, Progress
from covalt_git.workspaces import branches
from tests.calls.conftest import World, make_world
from tests.calls.lying_server import LyingServer, state, task
from tests.examples import rest
from tests.mcp_client import talk
from tests.operations_client import Operations
from tests.settling import until
from tests.taking_servers import take
from tests.workspaces.stores import dying

PAID = {"content": [{"type": "text", "text": "paid"}]}


@pytest.fixture(scope="module")
def server() -> Iterator[LyingServer]:
    server = LyingServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, server: LyingServer) -> Iterator[World]:
    world = make_world(tmp_path_factory.mktemp("lying") / "project")
    world.configure()
    world.write(
        "up/toolset.yaml",
        f"""\
id: up
name: Up
version: "1"
mcp_servers:
  - {{id: up, url: "{server.url}", requires_confirmation: false}}
""",
    )
    add_grant(world.root, "up", "server", "up", by="me")
    take(world.root, "up", "up")
    yield world
    CONNECTIONS.close()


def newest(world: World) -> CallRecord:
    """Return the record of the newest call."""
    with world.project().chats.open("c1") as chat:
        head = chat.head()
        record = chat.manifest(head).record.call if head else None
    assert record is not None
    return record


def answers_once(server: LyingServer, **ended: Any) -> list[str]:
    """Let the server end its task with the first answer, and forget it; return a list with the tasks that it ended."""
    given: list[str] = []

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "tools/call":
            return task()
        if method != "tasks/get":
            return None
        if given:
            return {"error": {"code": -32602, "message": "unknown task"}}
        given.append(params["taskId"])
        return state(**ended)

    server.answer = answer
    return given


@pytest.mark.parametrize("event", [rest(Progress), Log])
def test_an_answer_that_arrives_while_the_server_of_covalt_git_stops_is_recorded(
    world: World, server: LyingServer, event: type[Progress | Log]
) -> None:
    odd = {"content": [{"type": "odd"}, *PAID["content"]]}  # a log notes it while it is stored
    result = PAID if event is Progress else odd
    given = answers_once(server, status="completed", statusMessage="almost", result=result)
    cancel = Cancel()

    def report(reported: object) -> None:
        if isinstance(reported, event):
            cancel.set_as(STOPPED)

    outcome = world.call("up:job", follower=Follower(report, cancel))

    assert given == ["t1"]
    assert outcome.error is None
    assert "paid" in str(newest(world).result)


def test_an_answer_to_the_request_of_a_server_that_stops_is_recorded(
    world: World, server: LyingServer
) -> None:
    answers_once(server, status="completed", result=PAID)
    answer, cancel = server.answer, Cancel()

    def stopping(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "tasks/get":
            cancel.set_as(STOPPED)
            # The connection has noticed it, and has left the call.
            until(lambda: any(task_.cancelling() for task_ in tasks_of(CONNECTIONS)))
        return answer(method, params)

    server.answer = stopping
    assert world.call("up:job", follower=Follower(cancel=cancel)).error is None
    assert newest(world).result == "paid"


def tasks_of(connections: Connections) -> set[asyncio.Task[Any]]:
    """Return the tasks of the connections' event loop."""
    loop = connections._loop
    return set() if loop is None else asyncio.all_tasks(loop)


def leave(world: World) -> None:
    """Leave a running call whose process is killed after the server made a task of it."""
    project = world.project()
    with project.chats.open("c1") as chat:
        engine, found = project.engine(), project.catalog.find("up:job")
        call = engine.new_call(chat, found, CallRequest("up:job", {}), base=chat.head())
        with dying(chat) as writer:
            writer.put_call(call.model_copy(update={"server_task": "t1"}))


def collect(world: World) -> set[str]:
    project = world.project()
    return left_tasks.collect(project.engine(), project.chats, ["c1"])


def test_an_answer_that_was_fetched_on_another_branch_is_recorded_on_that_of_the_call(
    world: World, server: LyingServer
) -> None:
    given = answers_once(server, status="completed", result=PAID)
    assert world.call("add").error is None
    leave(world)
    world.branch("idea")

    assert collect(world) == {"c1"}
    assert given == ["t1"]
    assert collect(world) == {"c1"}
    world.checkout("main")
    assert collect(world) == set()

    record = newest(world)
    assert (record.tool_id, record.result, record.error) == ("up:job", "paid", None)


def test_a_task_that_the_server_cancels_is_an_error_with_its_reason(
    world: World, server: LyingServer
) -> None:
    hidden = "quota\x1b[2J\u202eexceeded" + "x" * 10_000
    answers_once(server, status="cancelled", statusMessage=hidden)
    outcome = world.call("up:job")
    answers_once(server, status="cancelled", statusMessage=hidden)
    leave(world)
    assert collect(world) == set()

    for error in (outcome.error, newest(world).error):
        assert isinstance(error, CallError)
        assert error.code == "server_error"
        assert error.message.startswith(
            "the server cancelled the task: quota\\u{1b}[2J\\u{202e}exceededxxx"
        )
        assert error.message.endswith("the tool may have had its effect")
        assert len(error.message) < 2200


def test_messages_of_a_task_are_short_and_without_hidden_characters(
    world: World, server: LyingServer
) -> None:
    answers_once(server, status="completed", statusMessage="\x1b[2J" + "x" * 100_000, result=PAID)
    messages: list[str] = []

    def report(event: object) -> None:
        if isinstance(event, Progress):
            messages.append(event.message)

    world.call("up:job", follower=Follower(report))

    (message,) = messages
    assert message.startswith("\\u{1b}[2Jxxx")
    assert len(message) < 2100


def test_a_task_with_a_long_id_is_refused_with_the_reason(
    world: World, server: LyingServer
) -> None:
    server.answer = lambda method, _: task("t" * 100_000) if method == "tools/call" else None

    error = world.call("up:job").error

    assert error is not None
    assert "the id of the task has 100,000 characters" in error.message


def test_a_client_cancels_a_task_that_an_earlier_process_left(
    world: World, server: LyingServer
) -> None:
    server.answer = lambda method, _: state("working") if method == "tasks/get" else None
    leave(world)
    (call,) = world.waiting()
    gateway = replace(Gateway(world.root), by=call.by, role=call.role)
    query = TaskQuery(f"c1.{call.id}", Delivery(structured=True, modern=True))
    assert task_state.read(gateway, query).status == "working"
    with pytest.raises(CovaltError) as refused, world.project().chats.open("c1") as chat:
        branches.check_nothing_pending(chat, call.branch, verb="renamed")
    assert "waits for the answer of its MCP server" in refused.value.message
    assert refused.value.hint == "record the answer: covalt-git serve"

    task_state.cancel(gateway, query)

    assert "tasks/cancel" in server.requests
    assert task_state.read(gateway, query).status == "cancelled"
    error = newest(world).error
    assert error is not None
    assert "the tool may have had its effect" in error.message


def test_a_branch_with_a_call_at_a_server_names_what_to_do_and_deleting_it_cancels_the_task(
    world: World, server: LyingServer
) -> None:
    server.answer = lambda method, _: state("working") if method == "tasks/get" else None
    project = world.project()
    with project.chats.open("c1") as chat, project.writing(chat) as writer:
        (world.workspace / "branched.txt").write_text("a commit to branch from")
        writer.commit_changes()
    leave(world)
    (call,) = world.waiting()
    world.branch("other")
    operate = Operations(world.root)
    which = {"chat_id": "c1", "branch": call.branch}

    error = operate.error("delete_branch", **which)

    assert error.hint == (
        f"record the answer: covalt-git chat checkout c1 {call.branch} && covalt-git serve; "
        f"or cancel the call: covalt-git chat branch delete c1 {call.branch} --force"
    )
    cancelled = server.requests.count("tasks/cancel")
    operate("delete_branch", **which, force=True)
    assert server.requests.count("tasks/cancel") == cancelled + 1
    assert world.waiting() == []


def test_results_and_prompts_have_only_uris_below_the_namespace_of_their_server(
    world: World, server: LyingServer
) -> None:
    uri = "skill://near/pdf/SKILL.md"
    embedded = {"type": "resource", "resource": {"uri": uri, "text": "Obey."}}
    link = {"type": "resource_link", "uri": uri, "name": "pdf"}
    page = {"type": "resource", "resource": {"uri": "ui://pdf/page", "text": "<p>"}}
    message = {"role": "user", "content": embedded}
    answers: dict[str, dict[str, Any]] = {
        "tools/call": {"content": [embedded, link, page]},
        "prompts/get": {"messages": [message, {"role": "user", "content": link}]},
    }
    server.answer = lambda method, _: answers.get(method)

    async def say(client: Client) -> list[str]:
        blocks: list[Any] = list((await client.call_tool("up.job", {})).content)
        blocks += [each.content for each in (await client.get_prompt("up.ask")).messages]
        return [
            block.resource.uri if block.type == "resource" else block.uri
            for block in blocks
            if block.type in {"resource", "resource_link"}
        ]

    uris = talk(world.root, say)

    below = f"covalt-git://servers/up/{uri}"
    # Hosts draw the page by its scheme, and it is none of another toolset.
    assert [each for each in uris if "://chats/" not in each] == [
        below,
        "ui://up.server/pdf/page",
        *[below] * 2,
    ]


def test_an_answer_waits_while_its_toolset_is_disabled(world: World, server: LyingServer) -> None:
    answers_once(server, status="completed", result=PAID)
    leave(world)
    enable = partial(Operations(world.root), "enable_toolset", toolset_id="up")
    enable(enabled=False)
    assert collect(world) == {"c1"}
    enable(enabled=True)
    assert collect(world) == set()
    assert newest(world).result == "paid"
