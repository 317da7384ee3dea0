"""Two machines with one project, whose chats are on a git server."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from covalt_git import CovaltError, open_project
from covalt_git.names import new_id
from covalt_git.operations.chats.messages import add_message
from covalt_git.operations.context import Context
from covalt_git.project import Project
from covalt_git.trust import NotTrustedError, trust_folder
from covalt_git.workspaces import lease_holder
from covalt_server.preview import shared_keys
from tests.api_client import HOME, TOKEN, Api, configure, make_project
from tests.git_http_backend import http_backend
from tests.operations_client import Operations
from tests.workspaces.nodes import LATER, on_files, taken
from tests.wsgi_server import listening

WRITE = "app-builder:write_file"


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[Path, Path]:
    """Two clones of a project, and a server with an empty list of chats."""
    url, create = on_files(tmp_path / "server")
    roots = tmp_path / "a", tmp_path / "b"
    first = make_project(roots[0])
    configure(first, f"storage: {{type: git, url: '{url}', create: {[*create]}}}")
    shutil.copytree(first, roots[1], ignore=shutil.ignore_patterns("data"))
    Operations(first)("migrate_storage", to="git")
    return roots


def test_a_team_calls_and_approves_on_any_node(nodes: tuple[Path, Path]) -> None:
    a, b = nodes
    with open_project(a) as first, open_project(b) as second:
        first.create_chat("c1")
        key, args = new_id(), {"path": "a.txt", "content": "1"}
        written = first.chat("c1").call(WRITE, args, call_id=key)
        # A client that repeats its request at another node gets the answer of the first one.
        again = second.chat("c1").call(WRITE, args, call_id=key)
        assert again.commit == written.commit

        pending = first.chat("c1").call("app-builder:run_command", {"command": "touch b.txt"})
        approved = second.approve(str(pending.execution_id))
        assert (approved.status, approved.files_changed) == ("success", ("b.txt",))
        assert first.chat("c1").log()[0].id == approved.commit
        with pytest.raises(CovaltError) as refused:
            first.approve(str(pending.execution_id))
        assert refused.value.code == "already_settled"


@pytest.mark.rest
def test_a_script_that_waits_continues_on_the_node_of_the_decision(
    nodes: tuple[Path, Path],
) -> None:
    a, b = nodes
    source = """
tools.app_builder.write_file(path="a.txt", content="a")
tools.app_builder.run_command(command="touch b.txt")
tools.app_builder.write_file(path="c.txt", content="c")
"""
    with open_project(a) as first, open_project(b) as second:
        first.create_chat("c1")
        waiting = first.chat("c1").call("workspace:run_script", {"script": source})
        assert waiting.status == "pending", waiting
        second.approve(str(waiting.execution_id))
    calls = Operations(a)("list_calls", chat_id="c1")["calls"]
    made = [WRITE, "app-builder:run_command", WRITE, "workspace:run_script"]
    assert sorted(call["tool_id"] for call in calls) == sorted(made)
    files = Operations(a)("get_workspace_files", chat_id="c1")["files"]
    assert [file["path"] for file in files] == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.rest
def test_a_write_of_the_node_that_wrote_last_costs_one_push_and_a_call_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Work that takes long takes the lease first, in a push of its own; here the machine may be slow.
    monkeypatch.setattr(lease_holder, "ASSUMED_S", 3600.0)
    _, create = on_files(tmp_path / "server")
    backend, requests = http_backend(tmp_path / "server"), list[str]()

    def counted(environ: Any, start: Any) -> Any:
        requests.append(environ["PATH_INFO"].rpartition("/")[2])
        return backend(environ, start)

    root = make_project(tmp_path / "a")
    operate = Operations(root)
    with listening(counted) as port:
        url = f"http://127.0.0.1:{port}/{{chat_id}}.git"
        configure(root, f"storage: {{type: git, url: '{url}', create: {[*create]}}}")
        operate("migrate_storage", to="git")
        operate("create_chat", chat_id="c1")
        look, push = ["refs"], ["git-receive-pack"]
        # The first push of a branch also looks whether it exists.
        operate("add_message", chat_id="c1", text="Hello.", role="user")

        requests.clear()
        operate("add_message", chat_id="c1", text="Again.", role="user")
        assert requests == look + push
        requests.clear()
        args = {"path": "a.txt", "content": "1"}
        operate("call_tool", chat_id="c1", tool_id=WRITE, args=args)
        assert requests == look + push + push
        requests.clear()
        operate("get_chat", chat_id="c1")
        assert requests == look


def test_a_node_that_is_slower_than_another_one_repeats_its_work(nodes: tuple[Path, Path]) -> None:
    a, b = nodes
    on_a, on_b = Operations(a), Operations(b)
    on_a("create_chat", chat_id="c1")
    # This node wrote last, and opens the chat; then the other one writes, before the lock is taken.
    with Context.of(Project.open(a)) as context:
        context.chat("c1")
        on_b("add_message", chat_id="c1", text="from b", role="user")
        add_message(context, chat_id="c1", text="from a", role="user")
    texts = [row["text"] for row in on_b("list_messages", chat_id="c1")["messages"]]
    assert texts == ["from b", "from a"]
    assert on_b("get_chat", chat_id="c1")["status"]["lost"] == []


@pytest.mark.rest
def test_status_names_the_work_of_a_node_that_was_replaced(nodes: tuple[Path, Path]) -> None:
    a, b = (Project.open(root) for root in nodes)
    a.chats.new("c1").close()
    with a.chats.open("c1") as paused, b.chats.open("c1") as other:
        writer, lease = taken(paused)
        second, second_lease = taken(other, later=LATER)
        other.workspace.mkdir(exist_ok=True)
        (other.workspace / "b.txt").write_text("b")
        second.commit_changes()
        second_lease.push(release=True)
        (paused.workspace / "a.txt").write_text("a")
        head = writer.commit_changes()
        with pytest.raises(CovaltError, match="took over"):
            lease.push(release=True)
        lease.save_lost(writer)
    on_b = Operations(nodes[1])
    (lost,) = on_b("get_chat", chat_id="c1")["status"]["lost"]

    assert (lost["branch"], lost["manifest_id"], lost["manifests"]) == ("main", head, 1)
    on_b("create_branch", chat_id="c1", name="saved", from_manifest=lost["manifest_id"][:12])
    assert on_b("get_chat", chat_id="c1")["status"]["lost"] == []
    assert Operations(nodes[0])("get_workspace_files", chat_id="c1", manifest="saved")["files"]


def test_nothing_is_sent_to_a_server_that_the_user_has_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: tuple[Path, Path]
) -> None:
    """A pull that names a server would otherwise send it every chat, and run its command."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    trust_folder(nodes[1])
    shutil.rmtree(nodes[0] / "data")
    with pytest.raises(NotTrustedError, match="store the chats on"):
        Project.open(nodes[0]).chats.new("c9")
    assert not (tmp_path / "server" / "c9.git").exists()


@pytest.mark.rest
def test_a_preview_of_one_node_opens_on_another_until_its_user_signs_out(
    nodes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_keys, "FRESH_S", -1.0)
    first, second = (Api.of(root).client() for root in nodes)
    Operations(nodes[0])("create_chat", chat_id="c1")
    Operations(nodes[0]).commit("c1", **{"index.html": "<h1>Start</h1>"})
    first.get(f"/?token={TOKEN}", base_url=HOME)
    page = first.get("/chats/c1/preview/index.html", base_url=HOME).text
    found = re.search(r'src="(/preview/[0-9a-f]+/index.html)"', page)
    assert found is not None

    def status_on_the_other_node() -> int:
        headers = {"Sec-Fetch-Dest": "iframe"}
        return second.get(found[1], base_url=HOME, headers=headers).status_code

    assert status_on_the_other_node() == 200
    assert first.post("/sign-out", base_url=HOME, headers={"Origin": HOME}).status_code == 303
    assert status_on_the_other_node() in {401, 404}
