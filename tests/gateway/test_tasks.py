"""Tasks of MCP clients: pending, running and recorded calls, which survive a restart and belong to their principal."""

import json
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.extension import NotificationBinding
from pydantic import ConfigDict

from covalt_git.calls.approvals import AlreadyDecidedError
from covalt_git.gateway.tasks import task_notices
from covalt_git.names import new_id
from covalt_git.project import Project
from tests import tasks_client as tasks
from tests.mcp_client import add_toolset, call, make_project, one_version, refused, talk
from tests.operations_client import Operations
from tests.tasks_client import EXTENSIONS, MISSING_CAPABILITY, Created, get, start, until
from tests.workspaces.stores import dying

Result = TypeVar("Result")

ARGS = {"path": "a.txt", "content": "hi"}
JOBS = """\
id: jobs
name: Jobs
version: "1"
tools:
  - {id: long, entrypoint: "tools.jobs:long", task_support: required}
  - {id: ask, entrypoint: "tools.jobs:ask", task_support: required}
  - {id: fail, entrypoint: "tools.jobs:fail", task_support: required}
  - {id: pend, entrypoint: "tools.jobs:typed", requires_confirmation: true}
  - {id: typed, entrypoint: "tools.jobs:typed", task_support: required}
  - {id: roots, entrypoint: "tools.jobs:roots", task_support: required}
"""
CODE = """\
import time
from dataclasses import dataclass
from pathlib import Path

from covalt_toolset import Form, get_context


@dataclass
class Person:
    name: str


def long(workspace: Path) -> str:
    get_context().progress(1, 2, "half of it")
    (workspace / "begun.txt").write_text("x")
    while not (workspace / "go.txt").exists():
        time.sleep(0.01)
    return "done"


def ask() -> list[str]:
    context = get_context()
    both = context.ask({"who": Form("Who?", Person), "whom": Form("Whom?", Person)})
    last = context.elicit("Again: who?", Person, key="who")
    return [both["who"].content.name, both["whom"].content.name, last.content.name]


def fail() -> str:
    raise ValueError("no such luck")


def typed(item: str) -> dict[str, int]:
    if item == "none":
        raise ValueError("there is no such item")
    return {"number": 1}


def roots() -> int:
    return len(get_context().roots())
"""
DENY = "rules: [{pattern: demo.write, when: {args: {path: a.txt}}, effect: deny}]\n"
ROLES = """\
  narrow: {allow: ["demo.**"]}
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_project(tmp_path_factory.mktemp("tasks") / "project", roles=ROLES)
    add_toolset(root, "jobs", JOBS, CODE)
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "project"))


def say(root: Path, talks: Callable[[Client], Awaitable[Result]], **options: Any) -> Result:
    """Talk to a new server, as after a restart, as a client that supports tasks."""
    return talk(root, talks, extensions=EXTENSIONS, **options)


def created(root: Path, name: str, args: Any = None, **options: Any) -> str:
    """Return the id of the task of a call."""

    async def talks(client: Client) -> str:
        task = await start(client, name, args)
        assert isinstance(task, Created), task
        return task.task_id

    return say(root, talks, **options)


def state_of(root: Path, task_id: str, **options: Any) -> dict[str, Any]:
    """Return the state of a task for a client of a new server."""
    return say(root, partial(get, task_id=task_id), **options)


def pending(root: Path, task_id: str) -> str:
    """Return the execution id of the approval for which a task waits."""
    chat_id, _, call_id = task_id.rpartition(".")
    with Project.open(root).chats.open(chat_id) as chat:
        waiting = chat.call(call_id)
    assert waiting is not None
    assert waiting.execution_id is not None
    return waiting.execution_id


@pytest.mark.parametrize("decision", ["approve_call", "deny_call"])
def test_a_pending_approval_is_a_task_that_survives_restarts(root: Path, decision: str) -> None:
    task_id = created(root, "demo.asks", ARGS)
    waiting = state_of(root, task_id)
    assert waiting["status"] == "working"
    assert waiting["resultType"] == "complete"
    assert "needs approval" in waiting["statusMessage"]
    assert 86_400_000 <= waiting["ttlMs"] < 86_460_000

    Operations(root)(decision, execution_id=pending(root, task_id))

    ended, again = state_of(root, task_id), state_of(root, task_id)
    assert ended == again
    assert ended["status"] == "completed"
    assert ended["ttlMs"] is None
    assert ended["createdAt"] == waiting["createdAt"]
    result = ended["result"]
    assert result["isError"] is (decision == "deny_call")
    if decision == "approve_call":
        assert result["structuredContent"] == {"written": "a.txt"}
        assert [block.get("name") for block in result["content"]][-1] == "a.txt"
    else:
        assert result["_meta"]["covalt-git/error"]["error"] == "denied"


def test_a_task_of_another_principal_or_role_is_unknown_byte_for_byte(root: Path) -> None:
    task_id = created(root, "demo.asks", ARGS)
    ended = created(root, "demo.asks", ARGS)
    Operations(root)("deny_call", execution_id=pending(root, ended))
    chat_id = task_id.rpartition(".")[0]
    foreign = (
        task_id,
        ended,
        f"{chat_id}.{new_id()}",
        f"nochat.{new_id()}",
        "x",
        "",
        "../c1." + new_id(),
    )

    async def errors(client: Client) -> set[str]:
        answers: set[str] = set()
        for asked in foreign:
            requests = (
                get(client, asked),
                tasks.cancel(client, asked),
                tasks.update(client, asked, key={"action": "accept"}),
            )
            answers |= {(await refused(request)).model_dump_json() for request in requests}
        return answers

    of_role = say(root, errors, role="narrow")
    # Another client of this machine is another principal: its chats are its own.
    stranger = types.Implementation(name="stranger", version="1")
    assert say(root, errors, callbacks={"client_info": stranger}) == of_role
    (answer,) = of_role
    assert json.loads(answer)["code"] == types.INVALID_PARAMS
    # Nothing that they sent has changed the tasks.
    assert state_of(root, task_id)["status"] == "working"


def test_cancelling_a_task_withdraws_its_approval(root: Path) -> None:
    task_id = created(root, "demo.asks", ARGS)
    execution_id = pending(root, task_id)

    async def talks(client: Client) -> Any:
        first = await tasks.cancel(client, task_id)
        return first, await tasks.cancel(client, task_id)

    acknowledged = say(root, talks)
    assert [{*answer} - {"_meta"} for answer in acknowledged] == [{"resultType"}] * 2
    state = state_of(root, task_id)
    assert (state["status"], state["statusMessage"]) == (
        "cancelled",
        "its client cancelled the task",
    )
    assert "result" not in state
    approval = Operations(root)("get_approval", execution_id=execution_id)
    assert approval["state"] == "denied"
    assert approval["decision_reason"] == "its client cancelled the task"
    with pytest.raises(AlreadyDecidedError):
        Operations(root)("approve_call", execution_id=execution_id)


def test_a_client_is_asked_once_to_open_the_page_of_an_approval(root: Path) -> None:
    async def never(*_: Any) -> types.ElicitResult:
        raise AssertionError("the request is in the task")

    async def talks(client: Client) -> Any:
        task = await start(client, "demo.asks", ARGS)
        first = await get(client, task.task_id)
        ((key, request),) = first["inputRequests"].items()
        await tasks.update(client, task.task_id, **{key: {"action": "accept"}, "no": {}})
        return task, request, await get(client, task.task_id)

    task, request, later = say(
        root,
        talks,
        callbacks={"elicitation_callback": never},
        pages=lambda execution_id: f"http://127.0.0.1:1/approvals/{execution_id}",
    )
    assert task.status == "input_required"
    assert request["method"] == "elicitation/create"
    assert request["params"]["mode"] == "url"
    assert later["status"] == "working"  # the answer approves nothing
    assert "inputRequests" not in later
    assert pending(root, task.task_id) in request["params"]["url"]


def test_a_call_that_runs_longer_becomes_a_task_with_its_progress(root: Path) -> None:
    (root / "covalt.yaml").write_text(
        (root / "covalt.yaml").read_text() + "limits: {task_after_s: 0}\n"
    )

    async def talks(client: Client) -> Any:
        task = await start(client, "jobs.long")
        state = await until(client, task.task_id, "working")
        while state.get("statusMessage") != "half of it":
            state = await get(client, task.task_id)
        chat_id = task.task_id.rpartition(".")[0]
        with Project.open(root).chats.open(chat_id) as chat:
            (chat.workspace / "go.txt").touch()
        return task, state, await until(client, task.task_id)

    task, state, ended = say(root, talks)
    assert state["pollIntervalMs"] == 1000
    assert ended["result"]["content"][0] == {"type": "text", "text": "done"}
    assert ended == state_of(root, task.task_id)
    # Without the extension, the same call is answered as it always was.
    assert call(root, "demo.write", ARGS).structured_content == {"written": "a.txt"}


def test_a_running_task_is_cancelled(root: Path) -> None:
    async def talks(client: Client) -> Any:
        task = await start(client, "jobs.long")
        while (await get(client, task.task_id)).get("statusMessage") is None:
            pass
        await tasks.cancel(client, task.task_id)
        return task.task_id, await until(client, task.task_id)

    task_id, ended = say(root, talks)
    assert (ended["status"], ended["statusMessage"]) == (
        "cancelled",
        "its client cancelled the task",
    )
    assert state_of(root, task_id) == ended


def test_a_task_whose_process_was_killed_has_failed(root: Path) -> None:
    task_id = created(root, "demo.asks", ARGS)
    chat_id, _, call_id = task_id.rpartition(".")
    with Project.open(root).chats.open(chat_id) as chat:
        waiting, approval = chat.call(call_id), chat.approval(pending(root, task_id))
        assert waiting is not None
        assert approval is not None
        with dying(chat) as writer:
            writer.decide(approval, "approved", decided_by="ann")
            writer.put_call(waiting.model_copy(update={"status": "running"}))

    # The server itself may be recovering the chat at the first request.
    state = say(root, partial(until, task_id=task_id))
    assert state["status"] == "failed"
    assert state["error"]["code"] == types.INTERNAL_ERROR
    assert state["error"]["data"]["error"] == "interrupted"
    assert "result" not in state


def test_questions_of_a_task_are_answered_one_by_one_under_new_keys(root: Path) -> None:
    async def never(*_: Any) -> types.ElicitResult:
        raise AssertionError("the questions are in the task")

    async def talks(client: Client) -> Any:
        task = await start(client, "jobs.ask")
        state = await until(client, task.task_id, "input_required")
        keys = [*state["inputRequests"]]
        by_message = {
            request["params"]["message"]: key for key, request in state["inputRequests"].items()
        }
        await tasks.update(client, task.task_id, **{by_message["Who?"]: _named("Ann")})
        state = await get(client, task.task_id)
        assert [*state["inputRequests"]] == [by_message["Whom?"]]
        # Of a wrong form: the question stays open.
        wrong = {"action": "accept", "content": {"name": 3}}
        await tasks.update(client, task.task_id, **{by_message["Whom?"]: wrong})
        assert (await get(client, task.task_id))["status"] == "input_required"
        await tasks.update(client, task.task_id, **{by_message["Whom?"]: _named("Bob")})
        while True:
            state = await until(client, task.task_id, "input_required")
            (last,) = state["inputRequests"]
            if last not in keys:
                break
        await tasks.update(client, task.task_id, **dict.fromkeys(keys, _named("Eve")))
        await tasks.update(client, task.task_id, **{last: _named("Cid")})
        return await until(client, task.task_id)

    ended = say(root, talks, callbacks={"elicitation_callback": never})
    assert ended["result"]["structuredContent"] == {"result": ["Ann", "Bob", "Cid"]} or ended[
        "result"
    ]["structuredContent"] == ["Ann", "Bob", "Cid"]


def _named(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


@pytest.mark.parametrize(
    ("name", "args"),
    [("jobs.typed", {"item": "none"}), ("jobs.fail", {}), ("jobs.pend", {"item": "pen"})],
)
def test_errors_of_tasks_of_tools_with_an_output_schema_reach_every_client(
    root: Path, name: str, args: Any
) -> None:
    async def talks(client: Client) -> Any:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        task = await start(client, name, args)
        if name == "jobs.pend":
            execution_id = pending(root, task.task_id)
            await anyio.to_thread.run_sync(
                lambda: Operations(root)("deny_call", execution_id=execution_id)
            )
        return listed[name], await until(client, task.task_id)

    tool, ended = say(root, talks)
    assert ended["status"] == "completed"
    result = ended["result"]
    assert result["isError"]
    assert result["_meta"]["covalt-git/error"]["error"] in {"tool_raised", "denied"}
    # Clients of the TypeScript SDK 1.x compare it with the schema also if it is an error.
    assert (result.get("structuredContent") is None) is (tool.output_schema is not None)


@one_version
def test_a_client_without_tasks_cannot_call_a_tool_that_requires_them(
    root: Path, version: str
) -> None:
    async def talks(client: Client) -> Any:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("jobs.fail", {})
        return raised.value.error

    error = talk(root, talks, version=version)
    assert error.code == MISSING_CAPABILITY
    assert error.data == {"requiredCapabilities": {"extensions": {tasks.EXTENSION: {}}}}
    assert not Project.open(root).chats.ids()
    # Every other interface waits for it.
    operate = Operations(root)
    operate("create_chat", chat_id="c1")
    answer = operate("call_tool", chat_id="c1", tool_id="jobs:typed", args={"item": "pen"})
    assert answer["status"] == "success"


def test_a_client_that_lacks_a_capability_gets_the_same_failure_after_a_restart(root: Path) -> None:
    async def talks(client: Client) -> Any:
        task = await start(client, "jobs.roots")
        return task.task_id, await until(client, task.task_id)

    task_id, ended = say(root, talks)
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == MISSING_CAPABILITY
    assert ended["error"]["data"]["requiredCapabilities"] == {"roots": {}}
    assert state_of(root, task_id) == ended


@pytest.mark.rest
def test_a_script_that_waits_is_a_task(root: Path) -> None:
    source = 'return (await tools.demo.asks({path: "a.txt", content: "hi"})).written'
    args = {"script": source, "language": "javascript"}
    task_id = created(root, "workspace.run_script", args)
    assert "needs approval" in state_of(root, task_id)["statusMessage"]
    chat_id = task_id.rpartition(".")[0]
    with Project.open(root).chats.open(chat_id) as chat:
        (waiting,) = chat.calls()
    Operations(root)("approve_call", execution_id=waiting.execution_id)
    ended = state_of(root, task_id)
    assert ended["status"] == "completed"
    assert ended["result"]["structuredContent"]["value"] == "a.txt"

    other = created(root, "workspace.run_script", args)
    say(root, partial(tasks.cancel, task_id=other))
    assert state_of(root, other)["status"] == "cancelled"


def test_a_call_that_is_refused_while_its_task_waits_for_its_chat(root: Path) -> None:
    """Nothing has run, so nothing is recorded; the process that refused it has the reason."""
    (root / "covalt.yaml").write_text(
        (root / "covalt.yaml").read_text() + "limits: {task_after_s: 0}\n"
    )
    with Project.open(root).chats.new("c1"):
        pass
    project = Project.open(root)

    async def talks(client: Client) -> Any:
        with project.chats.open("c1") as chat, project.writing(chat):
            task = await start(client, "demo.write", ARGS)
            state = await get(client, task.task_id)
            config = (root / "covalt.yaml").read_text()
            (root / "covalt.yaml").write_text(f"{config}{DENY}")
        return task.task_id, state, await until(client, task.task_id)

    task_id, state, ended = say(root, talks, chat="c1")
    assert state["status"] == "working"
    assert ended["status"] == "completed"
    assert ended["result"]["isError"]
    assert ended["ttlMs"] >= 600_000
    unknown = say(root, lambda client: refused(get(client, task_id)), chat="c1")
    assert unknown.message == "no task of yours has this id"


def test_a_client_is_notified_of_its_tasks_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_notices, "POLL_S", 0.02)
    task_id = created(root, "demo.asks", ARGS)
    messages: list[Any] = []

    async def note(message: Any) -> None:
        messages.append(message)

    notices = _Notices()

    async def talks(client: Client) -> Any:
        listening = types.SubscriptionsListenRequest(
            params=types.SubscriptionsListenRequestParams(
                notifications=types.SubscriptionFilter.model_validate(
                    {"taskIds": [task_id, f"c9.{new_id()}"]}
                )
            )
        )
        async with anyio.create_task_group() as group:
            group.start_soon(client.session.send_request, listening, tasks.Anything)
            await notices.has("working")
            execution_id = pending(root, task_id)
            await anyio.to_thread.run_sync(
                lambda: Operations(root)("approve_call", execution_id=execution_id)
            )
            await notices.has("completed")
            group.cancel_scope.cancel()

    talk(root, talks, extensions=[*EXTENSIONS, notices])
    assert [notice["taskId"] for notice in notices.heard] == [task_id] * len(notices.heard)
    assert notices.heard[-1]["result"]["structuredContent"] == {"written": "a.txt"}


class _Params(types.NotificationParams):
    model_config = ConfigDict(extra="allow")


class _Notices(tasks.Tasks):
    """What a client is notified of."""

    identifier = "test.covalt/notices"

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self._news = anyio.Event()

    def claims(self) -> Any:
        return ()

    def notifications(self) -> Any:
        return (
            NotificationBinding(
                method="notifications/tasks", params_type=_Params, handler=self._hear
            ),
        )

    async def _hear(self, params: _Params) -> None:
        self.heard.append(params.model_extra or {})
        self._news.set()

    async def has(self, status: str) -> None:
        """Wait until the client was notified of a status."""
        with anyio.fail_after(30):
            while status not in {notice["status"] for notice in self.heard}:
                await self._news.wait()
                self._news = anyio.Event()
