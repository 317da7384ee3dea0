"""The result of a call whose git server stops before the call ends."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from covalt_git.git_store.server_repository import ServerError, ServerRepository
from covalt_git.trust import NotTrustedError
from covalt_git.workspaces import later_pushes, lease_holder, node_copy
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.lease import LOST, RUNNING
from covalt_git.workspaces.lock import ChatBusyError
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import recover_calls, writing
from tests.git_http_backend import http_backend
from tests.trusting import use_config
from tests.workspaces.nodes import LATER, node, on_files, prepare, taken
from tests.workspaces.stores import call_record, pending_call
from tests.wsgi_server import listening


class Server:
    """A real git server, which can be stopped and started again at its port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self.port = 0
        self.start()

    def start(self) -> None:
        app = http_backend(self.folder)
        self.port = self._stack.enter_context(listening(app, port=self.port))

    def stop(self) -> None:
        self._stack.close()

    def refs(self) -> dict[str, str]:
        return ServerRepository(f"http://127.0.0.1:{self.port}/c1.git").refs()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    # Other tests of this process may have left work for a server that has gone, which is tried for ever.
    later_pushes._LEFT.clear()
    server = Server(tmp_path / "server")
    yield server
    server.stop()
    later_pushes._LEFT.clear()


@pytest.fixture
def nodes(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Chats, Chats]:
    monkeypatch.setattr(lease_holder, "_PUSHES", 1)
    monkeypatch.setattr(later_pushes, "PAUSE_S", 0.01)
    _, create = on_files(server.folder)
    url = f"http://127.0.0.1:{server.port}/{{chat_id}}.git"
    a, b = (node(tmp_path, name, url, create) for name in "ab")
    prepare(a)
    a.new("c1").close()
    return a, b


@contextmanager
def call(chats: Chats, server: Server) -> Iterator[Writer]:
    """Make a call, whose git server stops while the tool runs."""
    with chats.open("c1") as chat, writing(chat) as writer:
        writer.commit_changes()
        pending = pending_call(chat)
        writer.put_call(pending)
        server.stop()
        (chat.workspace / "a.txt").write_text("result")
        writer.finish_call(pending, call_record(), snapshot=writer.scan())
        yield writer


def interrupted(chats: Chats, server: Server) -> str | None:
    """Make a call whose lease expires before the server is back; return its commit."""

    def make() -> None:
        with call(chats, server) as writer:
            assert writer.holder is not None
            writer.holder._held_until = 0.0

    with pytest.raises(ServerError) as failed:
        make()
    assert "pushed when the git server answers" in failed.value.hint
    with ChatStore("c1", chats.folder / "c1", chats.config) as chat:
        return chat.head()


def test_a_result_is_pushed_when_the_server_is_back_before_the_lease_expires(
    nodes: tuple[Chats, Chats], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_failed, push = threading.Event(), ServerRepository.push

    def watched(*arguments: Any, **options: Any) -> None:
        try:
            push(*arguments, **options)
        except ServerError:
            has_failed.set()
            raise

    def restart() -> None:
        has_failed.wait()
        server.start()

    monkeypatch.setattr(ServerRepository, "push", watched)
    thread = threading.Thread(target=restart)
    thread.start()
    with call(nodes[0], server) as writer:
        pass
    thread.join()
    assert server.refs()["refs/heads/main"] == writer.chat.head()
    assert RUNNING not in server.refs()


@pytest.mark.rest
def test_a_result_is_pushed_when_the_server_is_back_after_the_lease_expired(
    nodes: tuple[Chats, Chats], server: Server
) -> None:
    a, b = nodes
    head = interrupted(a, server)
    server.start()
    while later_pushes.waiting():
        threading.Event().wait(0.01)
    assert server.refs()["refs/heads/main"] == head
    with b.open("c1") as chat, writing(chat):  # the lease is free
        assert (chat.head(), chat.calls()) == (head, [])


@pytest.mark.rest
def test_a_result_that_comes_too_late_becomes_lost_work_on_the_server(
    nodes: tuple[Chats, Chats], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = nodes
    b.open("c1").close()
    left: list[Callable[[], None]] = []
    monkeypatch.setattr(later_pushes, "push_later", lambda _folder, push: left.append(push))
    head = interrupted(a, server)
    server.start()
    with b.open("c1") as chat:
        other, lease = taken(chat, later=LATER)
        recover_calls(other, unclean=True, due="")  # it records the call as interrupted
        lease.push(release=True)
        recorded = chat.head()
    left[0]()
    refs = server.refs()
    assert [oid for ref, oid in refs.items() if ref.startswith(LOST)] == [head]
    assert refs["refs/heads/main"] == recorded


def test_what_a_process_left_is_pushed_by_the_next_one(
    nodes: tuple[Chats, Chats], server: Server
) -> None:
    a, _ = nodes
    head = interrupted(a, server)
    later_pushes._LEFT.clear()  # the process has ended
    a.finish_left()  # a server or a worker starts, and the git server is still away
    server.start()
    while later_pushes.waiting():
        threading.Event().wait(0.01)
    assert server.refs()["refs/heads/main"] == head


@pytest.mark.rest
def test_work_before_an_error_is_pushed_when_the_server_is_back(
    nodes: tuple[Chats, Chats], server: Server
) -> None:
    def fail() -> None:
        with nodes[0].open("c1") as chat, writing(chat) as writer:
            (chat.workspace / "a.txt").write_text("an edit")
            writer.commit_changes()
            server.stop()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with ChatStore("c1", nodes[0].folder / "c1", nodes[0].config) as chat:
        head = chat.head()
    server.start()
    while later_pushes.waiting():
        threading.Event().wait(0.01)
    assert server.refs()["refs/heads/main"] == head


def test_nothing_is_pushed_to_a_server_that_the_user_does_not_trust_any_more(
    nodes: tuple[Chats, Chats], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[Callable[[], None]] = []
    monkeypatch.setattr(later_pushes, "push_later", lambda _folder, push: left.append(push))
    head = interrupted(nodes[0], server)
    use_config(monkeypatch, tmp_path / "other", trusts=False)
    server.start()
    with pytest.raises(NotTrustedError):
        left[0]()
    assert server.refs().get("refs/heads/main") != head


def test_a_server_that_lacks_the_objects_of_its_refs_is_not_asked_without_an_end(
    nodes: tuple[Chats, Chats], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    monkeypatch.setattr(node_copy, "fetch", lambda *_: looks.append(1))
    with nodes[0].open("c1") as chat, pytest.raises(ChatBusyError), writing(chat, timeout_s=0):
        pass
    assert len(looks) < 20
