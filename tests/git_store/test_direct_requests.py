"""Requests to a git server that this process makes, compared with stock git, which makes them if they are not suited."""

import random
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, RemoteDisconnected
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any, NamedTuple, SupportsIndex

import pytest

from covalt_git.git_store import direct_requests, git_http, server_repository
from covalt_git.git_store.git_http import PUSH, UnsuitedError
from covalt_git.git_store.objects import FILE, FOLDER, CommitObject, TreeEntry
from covalt_git.git_store.server_repository import Move, PushRefusedError, ServerRepository
from covalt_git.git_store.store import GitStore
from covalt_git.system import programs
from tests.examples import one_in
from tests.git_http_backend import http_backend
from tests.wsgi_server import listening

MAIN = "refs/heads/main"


class Server(NamedTuple):
    """A git server over HTTP, the commands of stock git that this process has run, and the requests that arrived."""

    folder: Path
    url: str
    commands: list[str]
    requests: list[str]

    def repository(self, *options: str) -> ServerRepository:
        path = self.folder / f"r{len(list(self.folder.iterdir()))}.git"
        subprocess.run(["git", "init", "-q", "--bare", *options, path], check=True)
        return ServerRepository(f"{self.url}/{path.name}")

    def git(self, repository: ServerRepository, *arguments: str) -> str:
        path = self.folder / repository.url.rpartition("/")[2]
        return subprocess.run(
            ["git", "-C", path, *arguments], capture_output=True, text=True, check=True
        ).stdout


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    backend, commands, requests = http_backend(tmp_path / "server"), list[str](), list[str]()
    (tmp_path / "server").mkdir()
    run = programs.run

    def counted(argv: Any, **options: Any) -> Any:
        commands.extend({"ls-remote", "fetch", "push"} & {*argv})
        return run(argv, **options)

    def seen(environ: Any, start: Any) -> Any:
        requests.append(environ["PATH_INFO"].rpartition("/")[2])
        return backend(environ, start)

    monkeypatch.setattr(programs, "run", counted)
    with listening(seen) as port:
        yield Server(tmp_path / "server", f"http://127.0.0.1:{port}", commands, requests)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with GitStore.create(tmp_path / "store.git", durable=False) as created:
        yield created


def commit(store: GitStore, files: dict[str, bytes], *parents: str) -> str:
    """Store a commit with files in folders."""
    tree = _tree(store, {tuple(path.split("/")): text for path, text in files.items()})
    who = "a <a@example.com>"
    return store.write_commit(CommitObject(tree, parents, who, who, 1_700_000_000, "change\n"))


def _tree(store: GitStore, files: dict[tuple[str, ...], bytes]) -> str:
    entries = []
    for name in {path[0] for path in files}:
        inner = {path[1:]: text for path, text in files.items() if path[0] == name}
        is_file = () in inner
        oid = store.write_blob(inner[()]) if is_file else _tree(store, inner)
        entries.append(TreeEntry(name.encode(), FILE if is_file else FOLDER, oid))
    return store.write_tree(entries)


@pytest.mark.parametrize("object_format", one_in(2, ["sha256", "sha1"]))
def test_pushed_histories_are_complete_and_fetched_as_they_were(
    server: Server, tmp_path: Path, object_format: str
) -> None:
    chance = random.Random(object_format)
    repository = server.repository(f"--object-format={object_format}", "-b", "main")
    made, copied = tmp_path / "made.git", tmp_path / "copied.git"
    with (
        GitStore.create(made, object_format=object_format, durable=False) as store,
        GitStore.create(copied, object_format=object_format, durable=False) as copy,
    ):
        refs: dict[str, str] = {}
        files: dict[str, bytes] = {}
        for number in range(8):
            for _ in range(chance.randrange(4)):
                path = "/".join(chance.choice("abc") for _ in range(chance.randint(1, 3))) + ".txt"
                files[path] = chance.randbytes(chance.randrange(200))
            ref = chance.choice([MAIN, "refs/heads/idea"])
            names = (ref,) if number % 3 else (MAIN, "refs/heads/idea")
            parents = {refs[name] for name in names if name in refs}
            moves = {ref: Move(refs.get(ref), commit(store, files, *sorted(parents)))}
            note = store.write_blob(b"%d" % number)
            moves["refs/covalt/lease"] = Move(refs.get("refs/covalt/lease"), note)
            repository.push(store, moves, known=refs.values())
            refs |= {name: str(move.new) for name, move in moves.items()}
            assert repository.refs() == refs
            repository.fetch_objects(
                copy, {name: oid for name, oid in refs.items() if not copy.has(oid)}
            )
            for name, oid in refs.items():
                copy.swap_ref(name, copy.read_ref(name), oid)
        moves = {"refs/covalt/lease": Move(refs.pop("refs/covalt/lease"), None)}
        repository.push(store, moves, known=refs.values())
        assert repository.refs() == refs
    assert server.commands == []
    for folder in (copied, server.folder / "r0.git"):
        subprocess.run(["git", "-C", folder, "fsck", "--strict", "--no-dangling"], check=True)


def test_a_push_is_one_request_and_sends_what_is_new(server: Server, store: GitStore) -> None:
    repository = server.repository("-b", "main")
    files = {f"{n}/{n}.txt": b"%d" % n for n in range(50)}
    first = commit(store, files)
    repository.push(store, {MAIN: Move(None, first)})
    second = commit(store, files | {"1/1.txt": b"new"}, first)
    store.flush()
    # The commit, two trees and a file.
    assert len(direct_requests._missing(store, [second], {first})) == 4
    server.requests.clear()
    repository.push(store, {MAIN: Move(first, second)})
    assert server.requests == ["git-receive-pack"]


def test_a_push_moves_all_refs_or_none(server: Server, store: GitStore) -> None:
    repository = server.repository("-b", "main")
    old, new = (store.write_blob(text) for text in (b"old", b"new"))
    repository.push(store, {"refs/covalt/a": Move(None, old)})
    moves = {"refs/covalt/b": Move(None, new), "refs/covalt/a": Move(new, old)}
    with pytest.raises(PushRefusedError) as refused:
        repository.push(store, moves)
    assert "refs/covalt/a" in refused.value.reasons
    assert repository.refs() == {"refs/covalt/a": old}
    assert server.commands == []


def test_a_server_without_atomic_pushes_gets_none(server: Server, store: GitStore) -> None:
    repository = server.repository("-b", "main")
    server.git(repository, "config", "receive.advertiseAtomic", "false")
    with pytest.raises(PushRefusedError, match="does not support atomic pushes"):
        repository.push(store, {"refs/covalt/a": Move(None, store.write_blob(b"a"))})
    assert repository.refs() == {}


@pytest.mark.parametrize("name", [b".gitmodules", b"GIT~1", ".g\u200cit".encode()])
def test_unusual_names_are_checked_by_stock_git(
    server: Server, store: GitStore, tmp_path: Path, name: bytes
) -> None:
    repository = server.repository("-b", "main")
    tree = store.write_tree([TreeEntry(name, FILE, store.write_blob(b"[x]\n"))])
    who = "a <a@example.com>"
    oid = store.write_commit(CommitObject(tree, (), who, who, 1_700_000_000, "change\n"))
    repository.push(store, {MAIN: Move(None, oid)})
    with GitStore.create(tmp_path / "copy.git", durable=False) as copy:
        place = git_http.place_of(repository.url, {})
        with pytest.raises(UnsuitedError):
            direct_requests.fetch(git_http.GitHttp(repository.url, place), copy, [oid])
        assert not copy.has(oid)


def test_what_is_large_is_left_to_stock_git(
    server: Server, store: GitStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_http, "MOST_BYTES", 1000)
    monkeypatch.setattr(direct_requests, "MOST_BYTES", 1000)
    repository = server.repository("-b", "main")
    oid = store.write_blob(random.Random(1).randbytes(5000))
    repository.push(store, {"refs/covalt/a": Move(None, oid)})
    with GitStore.create(tmp_path / "copy.git", durable=False) as copy:
        repository.fetch_objects(copy, {"refs/covalt/a": oid})
        assert copy.has(oid)
    assert server.commands == ["push", "fetch"]


def test_a_connection_that_the_server_closed_is_not_used_again(
    server: Server, store: GitStore
) -> None:
    repository = server.repository("-b", "main")
    assert repository.refs() == {}
    (connections,) = [c for place, c in git_http._CONNECTIONS.items() if place.host in server.url]
    for _, connection in connections.idle:
        assert connection.sock is not None
        connection.sock.shutdown(0)  # reads end, as after the server has closed it
    repository.push(store, {"refs/covalt/a": Move(None, store.write_blob(b"a"))})
    assert server.commands == []


def test_threads_that_take_the_last_idle_connection_at_once_get_one_each() -> None:
    both = Barrier(2)

    class Connections(list[tuple[float, HTTPConnection]]):
        def pop(self, index: SupportsIndex = -1) -> tuple[float, HTTPConnection]:
            with suppress(
                BrokenBarrierError
            ):  # the other thread does not come here, which is right
                both.wait(0.2)
            return super().pop(index)

    idle = Connections([(time.monotonic(), HTTPConnection("127.0.0.1", 1))])
    connections = git_http._Connections(git_http.ServerPlace("http", "127.0.0.1:1"), idle)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.submit(connections.take), threads.submit(connections.take)
    assert first.result() is not second.result()


def test_a_connection_that_ends_within_a_request_is_replaced_for_reads_only() -> None:
    """The server answers the first request of each connection, reads the second, and closes."""
    answers = []

    class OnceOnly(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            answered = getattr(self, "answered", False)
            if not answered:
                super().handle_one_request()
            elif self.rfile.readline():
                self.close_connection = True

        def do_GET(self) -> None:
            self.answered = True
            answers.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", f"application/x-{PUSH}-advertisement")
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"0000")

    with ThreadingHTTPServer(("127.0.0.1", 0), OnceOnly) as http_server:
        thread = Thread(target=http_server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{http_server.server_port}/c1.git"
        requests = git_http.GitHttp(url, git_http.place_of(url, {}))
        try:
            assert [requests.get(PUSH), requests.get(PUSH)] == [b"0000"] * 2
            with pytest.raises(RemoteDisconnected):
                requests.post(PUSH, b"0000")
        finally:
            http_server.shutdown()
            thread.join()
    assert len(answers) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"http.sslverify": "false"},
        {"http.http://example.com.extraheader": "X: 1"},
        {"http.proxy": "http://127.0.0.1:8080"},
        {"url.https://other.example.com/.insteadof": "http://example.com/"},
        {"protocol.http.allow": "never"},
        {"push.pushoption": "ci.skip"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_of_git_that_matter_are_left_to_stock_git(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://example.com/c1.git"
    for name in git_http._PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert git_http.place_of(url, {"http.version": "HTTP/1.1"}).host == "example.com"
    with pytest.raises(UnsuitedError):
        git_http.place_of(url, settings)


def test_a_server_that_asks_for_a_login_is_left_to_stock_git(store: GitStore) -> None:
    def refuse(_environ: Any, start: Any) -> list[bytes]:
        start("401 Unauthorized", [("WWW-Authenticate", "Basic"), ("Content-Length", "0")])
        return []

    with listening(refuse) as port:
        repository = ServerRepository(f"http://127.0.0.1:{port}/c1.git")
        with pytest.raises(server_repository.ServerError, match="user name and a password"):
            repository.push(store, {"refs/covalt/a": Move(None, store.write_blob(b"a"))})


def test_a_server_that_stopped_to_offer_atomic_pushes_is_asked_again_after_an_error(
    server: Server, store: GitStore
) -> None:
    repository = server.repository("-b", "main")
    old, new = (store.write_blob(text) for text in (b"old", b"new"))
    repository.push(store, {"refs/covalt/a": Move(None, old), "refs/covalt/b": Move(None, old)})
    server.git(repository, "config", "receive.advertiseAtomic", "false")
    moves = {"refs/covalt/a": Move(old, new), "refs/covalt/b": Move(new, None)}
    with pytest.raises(server_repository.ServerError, match="some of the refs"):
        repository.push(store, moves)
    moves = {"refs/covalt/c": Move(None, old), "refs/covalt/d": Move(None, new)}
    with pytest.raises(PushRefusedError, match="does not support atomic pushes"):
        repository.push(store, moves)
