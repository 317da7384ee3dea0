"""Servers that put calls in a queue, and workers in processes of their own that make them."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from covalt_git.calls.executors import Work, executed_by
from covalt_git.calls.running import Cancel, Follower, Started
from covalt_git.elicitation.requests import Inquiry, Respondent
from covalt_git.errors import CovaltError
from covalt_git.models.outcomes import Log, Progress
from covalt_git.models.queued_call import Caller, QueuedCall
from covalt_git.names import new_id
from covalt_git.operations.calls.calls import CallTool, call_tool
from covalt_git.operations.calls.queued_calls import repeated_id
from covalt_git.operations.context import Context
from covalt_git.project import Project
from covalt_git.serving.project_queue import ProjectQueue
from covalt_git.workspaces.writing import writing
from tests.api_client import configure, make_project
from tests.command import Piped, run
from tests.operations_client import Operations
from tests.redis_server import RedisServer
from tests.workspaces.nodes import on_files
from tests.workspaces.stores import fsck

_TOOLS = '''
import time
from dataclasses import dataclass
from pathlib import Path

from covalt_toolset import get_context


def note(text: str) -> int:
    """Add a line to a file of the chat."""
    with Path("notes.txt").open("a") as file:
        file.write(text)
    return len(Path("notes.txt").read_text())


def hold(text: str) -> int:
    """Add a line, report it, and wait until the process ends; a file of the chat ends the wait."""
    length = note(text)
    get_context().progress(1, 2, "noted")
    while not Path("go").exists():
        time.sleep(0.01)
    return length


def hold_again(text: str) -> int:
    """Do the same; calling it twice is the same as calling it once."""
    return hold(text)


@dataclass
class Name:
    name: str


def greet() -> str:
    """Greet whoever answers."""
    get_context().log("asks")
    answer = get_context().elicit("Who are you?", Name)
    return f"hello {answer.content.name}" if answer.content else answer.action
'''
_MANIFEST = """
manifest_version: "1"
id: slow
name: Slow
version: 1.0.0
description: Tools of the test
tools:
  - {id: note, entrypoint: "tools.slow:note", annotations: {idempotent: false}}
  - {id: hold, entrypoint: "tools.slow:hold", annotations: {idempotent: false}}
  - {id: hold_again, entrypoint: "tools.slow:hold_again", annotations: {idempotent: true}}
  - {id: greet, entrypoint: "tools.slow:greet"}
"""


def add_tools(root: Path) -> None:
    folder = root / "toolsets" / "slow"
    (folder / "tools").mkdir(parents=True)
    (folder / "toolset.yaml").write_text(_MANIFEST.lstrip())
    (folder / "tools" / "slow.py").write_text(_TOOLS.lstrip())


class WorkerProcess:
    """``covalt-git worker`` that is ready."""

    def __init__(self, root: Path, url: str, *options: str) -> None:
        # The URL may have a password, which other users of the machine could read in a list of processes.
        env = os.environ | {"COVALT_GIT_QUEUE": url, "COVALT_GIT_LOG_FORMAT": "json"}
        words = ("-C", str(root), "worker", "--json", "--concurrency", "4", *options)
        self.command = Piped(*words, env=env)
        line = self.command.stdout.readline()
        assert line, self.command.end()
        self.name: str = json.loads(line)["worker"]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send it a signal, and wait for its end; return its exit status, and what it logged."""
        os.kill(self.command.pid, number)
        ended = self.command.end()
        return ended.returncode, ended.stderr


@dataclass
class Server:
    """A project whose calls are put in a queue, as those of ``covalt-git serve --queue``."""

    root: Path
    queue: ProjectQueue

    def call(
        self, tool_id: str, follower: Follower | None = None, chat_id: str = "c1", **fields: Any
    ) -> Any:
        request = CallTool(chat_id=chat_id, tool_id=tool_id, **fields)
        opened = partial(Project.open, self.root)
        with Context(self.root, opened, follower=follower) as context:
            return call_tool(context, **request.model_dump(exclude_unset=True))

    def bury(self, worker: WorkerProcess) -> None:
        """Kill a worker, and find its calls as a server does after 15 seconds without its report."""
        worker.stop(signal.SIGKILL)
        self.queue.open_calls.forget_worker(worker.name)
        self.queue.send_lost()


@contextmanager
def serving(root: Path, url: str) -> Iterator[Server]:
    """Put the calls of this process in the queue of a project."""
    queue = ProjectQueue(Project.open(root), url)
    with executed_by(queue.executor):
        yield Server(root, queue)
    queue.close()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    started = RedisServer(tmp_path_factory.mktemp("redis"))
    yield started
    started.kill()


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one chat, c1, which tests of this module share."""
    root = make_project(tmp_path_factory.mktemp("shared") / "project")
    add_tools(root)
    Operations(root)("create_chat", chat_id="c1")
    return root


@pytest.fixture(scope="module")
def shared_worker(shared_root: Path, redis: RedisServer) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(shared_root, redis.url)
    yield worker
    assert worker.stop()[0] == 0


@pytest.fixture
def server(shared_root: Path, redis: RedisServer, shared_worker: WorkerProcess) -> Iterator[Server]:
    """A server of the shared project, which has a worker."""
    assert shared_worker.name
    with serving(shared_root, redis.url) as started:
        yield started


@pytest.fixture
def own(root: Path, redis: RedisServer) -> Iterator[Server]:
    """A server of a project of this test's own, without a worker."""
    add_tools(root)
    Operations(root)("create_chat", chat_id="c1")
    with serving(root, redis.url) as started:
        yield started


class Background:
    """A call in a thread, whose events can be waited for."""

    def __init__(self, make: Callable[[Follower], Any]) -> None:
        self.events: list[object] = []
        self.cancel = Cancel()
        self._changed = threading.Condition()
        self._outcome: Any = None
        self._thread = threading.Thread(target=self._run, args=(make,))
        self._thread.start()

    def _run(self, make: Callable[[Follower], Any]) -> None:
        try:
            self._outcome = make(Follower(self._report, self.cancel))
        except CovaltError as error:
            self._outcome = error

    def _report(self, event: object) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def until(self, kind: type) -> None:
        """Wait for an event of a kind."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: any(isinstance(event, kind) for event in self.events), 60
            ), self.events

    def end(self) -> Any:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self._outcome


def test_a_worker_makes_the_call_of_a_server_and_reports_its_events(server: Server) -> None:
    events: list[object] = []
    call_id = new_id()
    go = server.root / "data/chats/c1/workspace/go"
    go.touch()
    answer = server.call("slow:hold", Follower(events.append), call_id=call_id, args={"text": "x"})
    go.unlink()

    assert (answer.status, answer.sandbox, answer.id) == ("success", "full", call_id)
    assert events == [Started(call_id), Progress(1, 2, "noted")]
    # A repeated request finds the call, without a worker.
    again = server.call("slow:hold", call_id=call_id, args={"text": "x"})
    assert (again.repeated, again.post_manifest_id) == (True, answer.post_manifest_id)


def test_a_refused_call_gets_the_error_of_the_worker(server: Server) -> None:
    with pytest.raises(CovaltError) as refused:
        server.call("slow:note", args={"text": 5})
    assert refused.value.code == "invalid_arguments"
    # Pydantic refuses it at the worker only.
    with pytest.raises(CovaltError) as late:
        server.call("data-lab:select_rows", args={"file": "no.csv", "filters": [{}], "output": ""})
    assert late.value.code == "invalid_arguments"
    assert late.value.as_json()["problems"]


def test_an_approved_call_runs_at_a_worker(server: Server) -> None:
    pending = server.call("app-builder:run_command", args={"command": "echo hi"})
    assert pending.status == "pending"
    approved = Operations(server.root)("approve_call", execution_id=pending.execution_id)
    assert (approved["status"], approved["id"]) == ("success", pending.id)
    assert "hi" in str(approved["result"])
    error = Operations(server.root).error("approve_call", execution_id=pending.execution_id)
    assert error.code == "already_settled"


def test_an_approval_that_is_outdated_is_replaced(server: Server) -> None:
    pending = server.call("app-builder:run_command", args={"command": "echo hi"})
    server.call("slow:note", args={"text": "changed"})
    error = Operations(server.root).error("approve_call", execution_id=pending.execution_id)
    assert error.code == "asked_again"
    newer = Operations(server.root)("get_approval", execution_id=error.execution_id)  # type: ignore[attr-defined]
    assert newer["state"] == "pending"


def test_a_request_that_a_server_repeats_gets_the_approval_that_is_pending_now(
    server: Server,
) -> None:
    args = {"command": "echo hi"}
    pending = server.call("app-builder:run_command", args=args)
    server.call("slow:note", args={"text": "changed again"})
    error = Operations(server.root).error("approve_call", execution_id=pending.execution_id)
    # A server whose copy of the chat is older than the call does not find its record.
    call = QueuedCall(
        call_id=pending.id,
        chat_id="c1",
        tool_id="app-builder:run_command",
        args=args,
        caller=Caller(id="local"),
    )
    chats = Project.open(server.root).chats
    work = Work(lambda: pytest.fail("it runs at a worker"), lambda: call, chats.open)
    outcome = server.queue.executor.submit(work).follow(Follower(), None)
    assert outcome.approval is not None
    assert outcome.approval.execution_id == error.execution_id  # type: ignore[attr-defined]


def test_a_script_and_its_calls_run_at_a_worker(server: Server) -> None:
    script = 'tools.slow.note(text="a")\nreturn tools.slow.note(text="b")'
    answer = server.call("workspace:run_script", args={"script": script})
    assert answer.status == "success", answer
    made = Operations(server.root)("list_calls", chat_id="c1")["calls"]
    assert [call["tool_id"] for call in made[:3]].count("slow:note") == 2


def test_any_server_cancels_a_call(server: Server) -> None:
    call_id = new_id()
    call = Background(
        lambda follower: server.call("slow:hold", follower, call_id=call_id, args={"text": "x"})
    )
    call.until(Progress)
    # Another server knows the call from the queue only.
    with serving(server.root, server.queue.open_calls.broker.url) as other:
        assert other.queue.executor.tool_of(call_id, chat_id="c1") == "slow:hold"
        other.queue.executor.cancel(call_id)
    answer = call.end()
    assert answer.error == "cancelled: the user cancelled it"
    assert other.queue.executor is not server.queue.executor


@pytest.mark.rest
def test_the_client_of_a_server_cancels_its_call(server: Server) -> None:
    call = Background(lambda follower: server.call("slow:hold", follower, args={"text": "x"}))
    call.until(Progress)
    call.cancel.set_as("its client cancelled it")
    assert call.end().error == "cancelled: its client cancelled it"


def test_a_user_at_a_server_answers_what_a_tool_at_a_worker_asks(server: Server) -> None:
    def answer(inquiry: Inquiry) -> None:
        with pytest.raises(CovaltError):
            inquiry.answer("answer", {"action": "accept", "content": {}})
        inquiry.answer("answer", {"action": "accept", "content": {"name": "Ann"}})

    events: list[object] = []
    asked = Follower(events.append, respondent=Respondent(frozenset({"form"}), answer))
    assert server.call("slow:greet", asked, args={}).result == "hello Ann"
    assert Log("info", "asks") in events
    lacking: list[str] = []
    mute = Follower(respondent=Respondent(frozenset(), answer, lacking.append))
    assert server.call("slow:greet", mute, args={}).error_detail.code == "cannot_ask"
    assert lacking == ["form"]


@dataclass
class Killed:
    """Three calls whose worker was killed: after the tool began, the same with an idempotent tool, and before."""

    server: Server
    interrupted: Any
    repeated: Any
    repeated_id: str
    made: Any
    requested_again: Any
    """The answer to the same request as that of ``repeated``, afterwards."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, redis: RedisServer) -> Killed:
    root = make_project(tmp_path_factory.mktemp("killed") / "project")
    add_tools(root)
    for chat_id in ("c1", "c2", "c3"):
        Operations(root)("create_chat", chat_id=chat_id)
    call_id, waits = new_id(), threading.Event()
    fields = {"c1": {}, "c2": {"call_id": call_id}, "c3": {}}
    tools = {"c1": "slow:hold", "c2": "slow:hold_again", "c3": "slow:note"}
    worker = WorkerProcess(root, redis.url)
    with serving(root, redis.url) as server:

        def make(chat_id: str, follower: Follower) -> Any:
            request = {"chat_id": chat_id, "tool_id": tools[chat_id], "args": {"text": "x"}}
            opened = partial(Project.open, root)
            with Context(root, opened, follower=follower, waiting=lambda _: waits.set()) as context:
                return call_tool(context, **request, **fields[chat_id])

        with Project.open(root).chats.open("c3") as chat, writing(chat):
            calls = [Background(partial(make, chat_id)) for chat_id in tools]
            calls[0].until(Progress)
            calls[1].until(Progress)
            assert waits.wait(60)  # the worker has the third call, and waits for its chat
            server.bury(worker)
        for chat_id in ("c1", "c2"):
            (Operations(root).workspace(chat_id) / "go").touch()
        other = WorkerProcess(root, redis.url)
        answers = [call.end() for call in calls]
        again = make("c2", Follower())
        other.stop()
    return Killed(server, answers[0], answers[1], call_id, answers[2], again)


def test_a_call_whose_worker_dies_after_it_began_is_recorded_and_not_repeated(
    killed: Killed,
) -> None:
    assert killed.interrupted.error_detail.code == "interrupted"
    assert "may have had its effect" in killed.interrupted.error
    assert (Operations(killed.server.root).workspace("c1") / "notes.txt").read_text() == "x"


def test_a_call_of_an_idempotent_tool_is_repeated_under_an_id_of_its_own(killed: Killed) -> None:
    assert (killed.repeated.status, killed.repeated.result) == ("success", 2)
    assert killed.repeated.id == repeated_id(killed.repeated_id, 1)
    operate = Operations(killed.server.root)
    first = operate("get_call", chat_id="c2", call_id=killed.repeated_id)
    assert first["error_detail"]["code"] == "interrupted"


def test_a_request_for_a_repeated_call_gets_the_same_answer_again(killed: Killed) -> None:
    again, answer = killed.requested_again, killed.repeated
    assert (again.id, again.status, again.result) == (answer.id, answer.status, answer.result)


def test_a_call_whose_worker_dies_before_it_began_is_made_by_another(killed: Killed) -> None:
    made = killed.made
    assert (made.status, made.result, made.repeated) == ("success", 1, False)


@pytest.mark.rest
def test_calls_that_wait_for_their_chat_occupy_no_place_of_a_worker(own: Server) -> None:
    Operations(own.root)("create_chat", chat_id="c2")
    worker = WorkerProcess(own.root, own.queue.open_calls.broker.url, "--concurrency", "2")
    first = Background(lambda follower: own.call("slow:hold", follower, args={"text": "x"}))
    first.until(Progress)
    waiting = [
        Background(lambda follower: own.call("slow:note", follower, args={"text": "y"}))
        for _ in range(3)
    ]
    cancelled = Background(lambda follower: own.call("slow:note", follower, args={"text": "z"}))
    # This would wait for a place if the others had one.
    assert own.call("slow:note", chat_id="c2", args={"text": "x"}).result == 1
    cancelled.cancel.set_as("not needed")
    assert cancelled.end().code == "cancelled"

    (Operations(own.root).workspace("c1") / "go").touch()
    assert first.end().result == 1
    assert sorted(call.end().result for call in waiting) == [2, 3, 4]
    worker.stop()


@pytest.mark.rest
def test_a_stopped_worker_ends_its_calls_and_cancels_them_after_the_time_for_that(
    own: Server,
) -> None:
    url = own.queue.open_calls.broker.url
    patient = WorkerProcess(own.root, url)
    call = Background(lambda follower: own.call("slow:hold", follower, args={"text": "x"}))
    call.until(Progress)
    os.kill(patient.command.pid, signal.SIGTERM)
    (own.root / "data/chats/c1/workspace/go").touch()
    assert call.end().status == "success"
    assert patient.command.end().returncode == 0
    assert own.queue.open_calls.workers() == {}

    (own.root / "data/chats/c1/workspace/go").unlink()
    hasty = WorkerProcess(own.root, url, "--drain", "0")
    call = Background(lambda follower: own.call("slow:hold", follower, args={"text": "x"}))
    call.until(Progress)
    assert hasty.stop()[0] == 0
    assert call.end().error == "cancelled: the worker was stopped"


@pytest.mark.rest
def test_a_tool_with_a_tag_runs_at_a_worker_with_the_tag_only(own: Server) -> None:
    configure(own.root, 'workers: {tags: {gpu: ["slow.*"]}}')
    url = own.queue.open_calls.broker.url
    refused = run(
        "worker", "--tags", "gup", cwd=own.root, env=os.environ | {"COVALT_GIT_QUEUE": url}
    )
    assert (refused.returncode, "no tag 'gup'" in refused.stderr) == (1, True)
    others, gpu = WorkerProcess(own.root, url), WorkerProcess(own.root, url, "--tags", "gpu")
    names = {worker.name for worker in (others, gpu)}
    assert own.queue.open_calls.workers().keys() == names
    for tool_id, args in (("slow:note", {"text": "x"}), ("app-builder:list_files", {})):
        assert own.call(tool_id, args=args).status == "success"

    _, log = others.stop()
    assert ("app-builder:list_files" in log, "slow:note" in log) == (True, False)
    _, log = gpu.stop()
    assert ("app-builder:list_files" in log, "slow:note" in log) == (False, True)


@pytest.mark.rest
def test_a_call_survives_a_restart_of_redis_that_loses_everything(
    root: Path, tmp_path: Path
) -> None:
    add_tools(root)
    Operations(root)("create_chat", chat_id="c1")
    redis = RedisServer(tmp_path / "redis", durable=False)
    worker = WorkerProcess(root, redis.url)
    with serving(root, redis.url) as server:
        call = Background(lambda follower: server.call("slow:hold", follower, args={"text": "x"}))
        call.until(Progress)
        redis.kill()
        (root / "data/chats/c1/workspace/go").touch()
        redis.start()
        answer = call.end()
    assert (answer.status, answer.result) == ("success", 1)
    worker.stop()
    redis.kill()


@pytest.mark.rest
def test_a_worker_with_another_clone_makes_calls_of_chats_on_a_git_server(
    tmp_path: Path, redis: RedisServer
) -> None:
    url, create = on_files(tmp_path / "server")
    first, second = tmp_path / "a", tmp_path / "b"
    configure(make_project(first), f"storage: {{type: git, url: '{url}', create: {[*create]}}}")
    add_tools(first)
    shutil.copytree(first, second, ignore=shutil.ignore_patterns("data"))
    Operations(first)("migrate_storage", to="git")
    Operations(first)("create_chat", chat_id="c1")
    worker = WorkerProcess(second, redis.url)
    with ExitStack() as stack:
        server = stack.enter_context(serving(first, redis.url))
        assert server.call("slow:note", args={"text": "x"}).result == 1
        # The server writes under its own lease, and the worker continues from there.
        path = {"path": "notes.txt", "content": "long"}
        Operations(first)("call_tool", chat_id="c1", tool_id="workspace:write_file", args=path)
        assert server.call("slow:note", args={"text": "x"}).result == 5
        chat = stack.enter_context(Project.open(first).chats.open("c1"))
        assert (chat.workspace / "notes.txt").read_text() == "longx"
        assert fsck(chat) == ""
    worker.stop()
