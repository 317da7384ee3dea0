"""A role gets a chat's store only if it may see every tool in it, wherever in the store a record is."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from covalt_git.operations.context import Context, ForbiddenError
from covalt_git.operations.registry import every_operation
from covalt_git.project import Project
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from covalt_server.app import create_git_app
from tests.api_client import TOKEN, make_project
from tests.operations_client import Operations, uploads
from tests.workspaces.stores import call_record, git, run_git
from tests.wsgi_server import listening

CONFIG = """\
version: 1
roles:
  reader: {allow: [workspace.read_file, workspace.list_files]}
  writer: {allow: ["app-builder.write_file"]}
  manager: {allow: [workspace.read_file], chats: manage}
  owner: {admin: true}
"""
SECRET = "s3cret"
LARGE = SECRET * 5000  # so that the record is below refs/covalt/records


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_project(tmp_path / "project")
    (root / "covalt.yaml").write_text(CONFIG)
    owner = Operations(root, role="owner")
    owner("create_chat", chat_id="c1")
    owner.commit("c1", **{"a.txt": "a"})
    return root


def call(root: Path, content: str, chat_id: str = "c1") -> None:
    """Call a tool that the reader may not see."""
    args = {"path": "b.txt", "content": content}
    owner = Operations(root, role="owner")
    answer = owner("call_tool", chat_id=chat_id, tool_id="app-builder:write_file", args=args)
    assert answer["status"] == "success"


def gets_store(root: Path, role: str, chat_id: str, tmp_path: Path) -> set[str]:
    """Return the ways in which a role gets the store of a chat."""
    operate = Operations(root, role=role)
    ways: dict[str, Callable[[], object]] = {
        "export": lambda: operate("export_chat", chat_id=chat_id),
        "export_to": lambda: operate("export_chat_to", chat_id=chat_id, path=tmp_path / "x.bundle"),
        "fork": lambda: operate("fork_chat", chat_id=chat_id),
    }
    got = set()
    for name, way in ways.items():
        with suppress(ForbiddenError):
            way()
            got.add(name)
    (tmp_path / "x.bundle").unlink(missing_ok=True)
    apps: list[Flask] = []
    with listening(lambda environ, start: apps[0](environ, start)) as port:  # noqa: PLW0108 - made with its port
        apps.append(create_git_app(root, token=TOKEN, port=port, role=role))
        url = f"http://x:{TOKEN}@127.0.0.1:{port}/git/{chat_id}"
        done = run_git(tmp_path, "ls-remote", url)
        if done.returncode == 0:
            got.add("git")
        # Without the request for the refs before it.
        answer = (
            apps[0]
            .test_client()
            .post(
                f"/git/{chat_id}/git-upload-pack",
                base_url=f"http://127.0.0.1:{port}",
                headers={"Authorization": f"Bearer {TOKEN}"},
                content_type="application/x-git-upload-pack-request",
                data=b"0000",
            )
        )
        assert answer.status_code == (200 if "git" in got else 403)
    return got


EVERY_WAY = {"export", "export_to", "fork", "git"}


def test_a_store_of_visible_calls_only_is_exported(root: Path, tmp_path: Path) -> None:
    assert gets_store(root, "reader", "c1", tmp_path) == EVERY_WAY
    call(root, LARGE)
    assert gets_store(root, "writer", "c1", tmp_path) == EVERY_WAY


def test_an_imported_record_counts_although_it_is_never_read_as_a_call(
    root: Path, tmp_path: Path
) -> None:
    call(root, SECRET)
    owner = Operations(root, role="owner")
    bundle = owner("export_chat", chat_id="c1")
    owner("import_chat", file=uploads(**{"c1.bundle": bundle}), chat_id="c2")
    assert owner("list_calls", chat_id="c2")["calls"] == []

    assert gets_store(root, "reader", "c2", tmp_path) == set()
    assert gets_store(root, "writer", "c2", tmp_path) == EVERY_WAY
    assert gets_store(root, "manager", "c2", tmp_path) == EVERY_WAY


def test_a_foreign_commit_that_only_looks_like_a_record_counts_as_an_unknown_tool(
    root: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    git(tmp_path, "init", "-q", str(source))
    (source / "a.txt").write_text("a")
    git(source, "add", "-A")
    message = "tool_run: x\n\n{not JSON}\n\nCovalt-Source: tool_run\n"
    git(source, "-c", "user.name=e", "-c", "user.email=e@x", "commit", "-q", "-m", message)
    Operations(root, role="owner")("import_chat_from", path=source, chat_id="c2")

    assert gets_store(root, "writer", "c2", tmp_path) == set()
    assert gets_store(root, "manager", "c2", tmp_path) == EVERY_WAY


def test_large_fields_of_a_deleted_branch_count(root: Path, tmp_path: Path) -> None:
    owner = Operations(root, role="owner")
    owner("create_branch", chat_id="c1", name="side")
    owner("switch_branch", chat_id="c1", branch="side")
    call(root, LARGE)
    owner("switch_branch", chat_id="c1", branch="main")
    owner("delete_branch", chat_id="c1", branch="side", force=True)

    # refs/covalt/records, which is fetched with the branches, still has the arguments.
    assert gets_store(root, "reader", "c1", tmp_path) == set()
    assert gets_store(root, "writer", "c1", tmp_path) == EVERY_WAY
    owner("collect_garbage", chat_id="c1", now=True)
    assert gets_store(root, "reader", "c1", tmp_path) == EVERY_WAY


@pytest.mark.rest
def test_large_fields_of_no_known_commit_count_as_those_of_an_unknown_tool(
    root: Path, tmp_path: Path
) -> None:
    owner = Operations(root, role="owner")
    before = owner("get_chat", chat_id="c1")["active_manifest_id"]
    call(root, LARGE)
    # The fork shares refs/covalt/records, but has no branch with the call.
    owner("fork_chat", chat_id="c1", from_manifest=before, new_chat_id="c2")

    assert gets_store(root, "reader", "c2", tmp_path) == set()
    owner("collect_garbage", chat_id="c2", now=True)
    assert gets_store(root, "reader", "c2", tmp_path) == EVERY_WAY


def test_a_pending_call_does_not_count_because_no_copy_has_it(root: Path, tmp_path: Path) -> None:
    rule = 'approvals: [{pattern: "app-builder.write_file", require: true}]\n'
    (root / "covalt.yaml").write_text(CONFIG + rule)
    args = {"path": "b.txt", "content": LARGE}
    owner = Operations(root, role="owner")
    answer = owner("call_tool", chat_id="c1", tool_id="app-builder:write_file", args=args)
    assert answer["execution_id"]

    assert git(owner.store("c1"), "for-each-ref", "refs/covalt/records") == ""
    assert gets_store(root, "reader", "c1", tmp_path) == EVERY_WAY


@pytest.mark.parametrize("name", ["fork_chat", "export_chat_to"])
def test_a_call_that_ends_while_the_operation_waits_for_the_chat_counts(
    root: Path, tmp_path: Path, name: str
) -> None:
    request: dict[str, Any] = {"fork_chat": {}, "export_chat_to": {"path": tmp_path / "x.bundle"}}[
        name
    ]
    waits = threading.Event()
    errors: list[BaseException | None] = []

    def perform() -> None:
        opened = partial(Project.open, root, role="reader")
        with Context(root, opened, waiting=lambda _: waits.set()) as context:
            try:
                every_operation()[name](context, chat_id="c1", **request)
            except ForbiddenError as error:
                errors.append(error)
            else:
                errors.append(None)

    thread = threading.Thread(target=perform)
    chats: Chats = Project.open(root, role="owner").chats
    with chats.open("c1") as chat, writing(chat) as writer:
        thread.start()
        assert waits.wait(20)
        record = call_record(args={"content": SECRET})
        writer.commit("tool_run", writer.scan(), subject="x", by="local", call=record)
    thread.join()

    assert isinstance(errors[0], ForbiddenError)
    assert not (tmp_path / "x.bundle").exists()
    assert chats.ids() == ["c1"]
