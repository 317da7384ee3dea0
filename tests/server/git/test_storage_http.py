"""``covalt-git storage serve`` as the git server of two nodes, and ``/git`` of a project, which is not one."""

import base64
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covalt_git.git_store.server_repository import PushRefusedError, ServerError
from covalt_git.serving.storage_server import clear_left_locks, storage_app
from covalt_git.workspaces import lease_holder, server_check
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.server_storage import ServerStorage
from covalt_server.security import Guard
from tests.api_client import make_project
from tests.uvicorn_server import TOKEN, Running, running_app, served
from tests.workspaces.nodes import node, prepare
from tests.workspaces.stores import upload

LOGIN: dict[str, Any] = {"username": "node", "password": "${STORAGE_PASSWORD}"}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setenv("STORAGE_PASSWORD", TOKEN)
    folder = tmp_path / "server"
    folder.mkdir()
    with running_app(lambda port: storage_app(folder, Guard(TOKEN, port))) as running:
        yield running


def on(server: Running, folder: Path, name: str) -> Chats:
    return node(folder, name, f"http://127.0.0.1:{server.port}/{{chat_id}}.git", **LOGIN)


def lacking(chats: Chats) -> list[str]:
    storage = chats.config.git_storage
    assert storage is not None
    return [
        finding.lacks for finding in server_check.findings(ServerStorage(storage)) if finding.lacks
    ]


def test_the_lock_that_a_killed_push_left_does_not_stop_a_chat_for_good(
    server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_holder, "_REFUSALS", 1)  # the lock stays: no further try helps
    chats = on(server, tmp_path, "a")
    prepare(chats)
    with chats.new("c1") as chat:
        upload(chat, "x.txt", b"1")
        refs = tmp_path / "server" / "c1.git" / "refs"
        left, held = refs / "covalt" / "lease.lock", refs / "heads" / "idea.lock"
        left.touch()
        os.utime(left, (0, 0))
        held.touch()
        with pytest.raises(PushRefusedError):
            upload(chat, "y.txt", b"2")
        assert clear_left_locks(tmp_path / "server", held.stat().st_mtime) == 1
        assert held.exists()
        upload(chat, "z.txt", b"3")


def test_two_nodes_store_their_chats_on_it(server: Running, tmp_path: Path) -> None:
    a, b = (on(server, tmp_path, name) for name in "ab")
    assert lacking(a) == []
    with a.new("c1") as chat:
        # Larger than git's http.postBuffer, so that git sends the push in chunks.
        upload(chat, "x.bin", bytes(range(256)) * (3 << 12))
    with b.open("c1") as chat:
        upload(chat, "y.txt", b"2")
    with a.open("c1") as chat:
        assert sorted(chat.files(chat.head())) == ["x.bin", "y.txt"]
    a.delete("c1")
    assert b.ids() == []
    check = subprocess.run(
        ["git", "-C", f"{tmp_path}/server/c1.git", "fsck", "--strict"],
        capture_output=True,
        check=False,
    )
    assert check.returncode == 0


def test_it_serves_only_the_repositories_of_chats_to_the_holder_of_its_token(
    server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", "--bare", f"{tmp_path}/other.git"], check=True)
    prepare(on(server, tmp_path, "a"))

    def status(path: str, password: str, **headers: str) -> int:
        connection = server.connect()
        pair = base64.b64encode(f"any:{password}".encode()).decode()
        connection.request("GET", path, headers={"Authorization": f"Basic {pair}", **headers})
        code = connection.getresponse().status
        connection.close()
        return code

    refs = "info/refs?service=git-upload-pack"
    assert status(f"/covalt.registry.git/{refs}", TOKEN) == 200
    assert status(f"/covalt.registry.git/{refs}", "wrong") == 401
    assert status(f"/covalt.registry.git/{refs}", TOKEN, Host="evil.example") == 421
    # No other repository, no file of one, and nothing that a fetch creates.
    assert status(f"/..%2Fother.git/{refs}", TOKEN) == 404
    assert status(f"/c9.git/{refs}", TOKEN) == 404
    assert status("/covalt.registry.git/HEAD", TOKEN) == 404
    assert status("/covalt.registry.git/info/refs", TOKEN) == 403
    assert sorted(path.name for path in (tmp_path / "server").iterdir()) == ["covalt.registry.git"]
    monkeypatch.setenv("STORAGE_PASSWORD", "another-password")
    with pytest.raises(ServerError):
        prepare(on(server, tmp_path, "b"))


def test_a_check_of_the_git_of_a_project_names_the_server_to_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_PASSWORD", TOKEN)
    with served(make_project(tmp_path / "project")) as port:
        url = f"http://127.0.0.1:{port}/git/{{chat_id}}"
        (sentence,) = lacking(node(tmp_path, "a", url, **LOGIN))
    assert "covalt-git storage serve" in sentence
