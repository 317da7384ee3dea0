"""Requests to the git server that a call in the queue costs, made by a server and by a worker with a node each."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from covalt_git.calls.engine import CallRequest
from covalt_git.calls.outcomes import as_recorded
from covalt_git.calls.running import Follower
from covalt_git.errors import CovaltError
from covalt_git.index import chat_rows
from covalt_git.models.calls import ToolCall
from covalt_git.models.queued_call import QueuedCall
from covalt_git.models.reported_refs import UNREAD
from covalt_git.names import new_id
from covalt_git.operations.calls.queued_calls import perform, prepare_call
from covalt_git.operations.context import Context
from covalt_git.project import Project
from covalt_git.workspaces import lease_holder
from tests.api_client import configure, make_project
from tests.git_http_backend import http_backend
from tests.operations_client import Operations
from tests.workspaces.nodes import on_files
from tests.wsgi_server import listening

WRITE = "app-builder:write_file"
PUSH, FETCH, READ = "git-receive-pack", "git-upload-pack", "refs"


class Team(NamedTuple):
    """The folders of a server, a worker and another node, and the requests that the git server gets."""

    server: Path
    worker: Path
    other: Path
    requests: list[str]
    chats: list[str]

    @property
    def chat_id(self) -> str:
        return self.chats[-1]

    def prepared(self, content: str, message_id: str | None = None) -> QueuedCall:
        with Context.of(Project.open(self.server)) as context:
            chat = context.chat(self.chat_id, UNREAD)
            args = {"path": "a.txt", "content": content}
            call = prepare_call(context, chat, CallRequest(WRITE, args, message_id, new_id()), None)
            assert isinstance(call, QueuedCall)
            return call

    def make(self, call: QueuedCall) -> ToolCall:
        """Make a call at the worker, and read its outcome at the server."""
        end = perform(self.worker, call, Follower(), lambda _: None)
        assert end.manifest_id is not None
        with Project.open(self.server).chats.open(self.chat_id, end.reported) as chat:
            return as_recorded(chat, chat.manifest(end.manifest_id)).call


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    tmp_path = tmp_path_factory.mktemp("nodes")
    _, create = on_files(tmp_path / "git")
    backend, requests = http_backend(tmp_path / "git"), list[str]()

    def counted(environ: Any, start: Any) -> Any:
        requests.append(environ["PATH_INFO"].rpartition("/")[2])
        return backend(environ, start)

    first, worker, other = (tmp_path / name for name in ("server", "worker", "other"))
    make_project(first)
    with listening(counted) as port:
        url = f"http://127.0.0.1:{port}/{{chat_id}}.git"
        configure(first, f"storage: {{type: git, url: '{url}', create: {[*create]}}}")
        for root in (worker, other):
            shutil.copytree(first, root, ignore=shutil.ignore_patterns("data"))
        Operations(first)("migrate_storage", to="git")
        yield Team(first, worker, other, requests, [])


@pytest.fixture
def team(nodes: Team, monkeypatch: pytest.MonkeyPatch) -> Team:
    """The nodes, with a chat that they have."""
    # Work that takes long takes the lease first, in a push of its own; here the machine may be slow.
    monkeypatch.setattr(lease_holder, "ASSUMED_S", 3600.0)
    monkeypatch.setattr(chat_rows, "_LIST_AGE_S", 3600.0)
    nodes.chats.append(f"c{len(nodes.chats)}")
    Operations(nodes.server)("create_chat", chat_id=nodes.chat_id)
    for content in (
        "0",
        "00",
    ):  # the worker fetches the chat, and the copies are locked for the first time
        nodes.make(nodes.prepared(content))
    nodes.requests.clear()
    return nodes


def test_a_queued_call_costs_two_pushes_and_one_fetch(team: Team) -> None:
    assert team.make(team.prepared("1")).status == "success"
    assert team.requests == [PUSH, PUSH, FETCH]


def test_a_worker_whose_copy_is_older_notices_before_the_tool_runs(team: Team) -> None:
    call = team.prepared("1")
    args = {"path": "b.txt", "content": "b"}
    Operations(team.other)("call_tool", chat_id=team.chat_id, tool_id=WRITE, args=args)
    team.requests.clear()
    assert team.make(call).status == "success"
    # The refused push, the refs and what the other node wrote, and then the call, which takes the lease first.
    assert team.requests == [PUSH, READ, READ, FETCH, READ, PUSH, PUSH, PUSH, FETCH]
    files = Operations(team.other)("get_workspace_files", chat_id=team.chat_id)["files"]
    assert [file["path"] for file in files] == ["a.txt", "b.txt"]
    assert Operations(team.worker)("get_chat", chat_id=team.chat_id)["status"]["lost"] == []


@pytest.mark.rest
def test_a_message_that_only_another_node_has_belongs_to_a_call(team: Team) -> None:
    message = Operations(team.other)(
        "add_message", chat_id=team.chat_id, text="Hello.", role="user"
    )
    call = team.prepared("1", message["message_id"])
    assert team.make(call).message_id == message["message_id"]
    with pytest.raises(CovaltError, match="message"):
        team.make(team.prepared("1", new_id()))


@pytest.mark.rest
def test_a_chat_that_another_node_deleted_is_unknown(team: Team) -> None:
    call = team.prepared("1")
    Operations(team.other)("delete_chat", chat_id=team.chat_id)
    with pytest.raises(CovaltError) as refused:
        perform(team.worker, call, Follower(), lambda _: None)
    assert refused.value.http_status == 404


def test_a_call_that_another_node_made_is_not_made_again(team: Team) -> None:
    call = team.prepared("1")
    args = {"chat_id": team.chat_id, "tool_id": WRITE, "args": call.args, "call_id": call.call_id}
    made = Operations(team.other)("call_tool", **args)
    assert team.make(call).post_manifest_id == made["post_manifest_id"]
