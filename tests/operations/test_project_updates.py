"""Nodes whose project comes from a git repository: which commit a call runs, and to which commits a node moves."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from covalt_git.calls.engine import CallRequest
from covalt_git.calls.running import Follower
from covalt_git.errors import CovaltError
from covalt_git.git_store import project_repository
from covalt_git.git_store.project_repository import BadProjectCommitError, ProjectUnavailableError
from covalt_git.manifests.added_signer import add_signer
from covalt_git.manifests.followed_project import NoProjectCommitError, current_root, source_of
from covalt_git.models.queued_call import QueuedCall
from covalt_git.operations.calls.queued_calls import perform, prepare_call
from covalt_git.operations.context import Context
from covalt_git.operations.project_updates import UNUSED_S, update
from covalt_git.project import Project
from covalt_git.serving.project_follower import MOVES, ProjectFollower
from covalt_git.system import node_folder
from covalt_git.system.node_folder import FollowedProjectError, checkout, commit_of
from covalt_git.trust import Consents, NotTrustedError, project_source
from tests.api_client import Api
from tests.examples import rest
from tests.operations_client import Operations
from tests.trusting import use_config

_CONFIG = "version: 1\nworkspace: {durability: fast}\n"
_MANIFEST = """\
manifest_version: "1"
id: gear
name: Gear
version: 1.0.0
description: A tool of each version
tools:
  - {id: version, entrypoint: "tools.gear:version", requires_confirmation: CONFIRM}
"""
_TOOL = '''\
def version() -> str:
    """Return the version."""
    return "NAME"
'''


class Origin:
    """The git repository of a project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        (folder / "covalt.yaml").write_text(_CONFIG)
        self.gear("A")

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
        return subprocess.check_output(
            ["git", "-C", str(self.folder), *who, *words], text=True, stderr=subprocess.STDOUT
        ).strip()

    def commit(self, **files: str) -> str:
        """Write files, whose names have ``__`` for a slash, and commit them; return the commit."""
        for name, text in files.items():
            path, _, ending = name.replace("__", "/").rpartition("_")
            file = self.folder / f"{path}.{ending}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=change")
        return self.git("rev-parse", "HEAD")

    def gear(self, name: str, *, confirm: bool = False) -> str:
        """Commit a version of the tool, which returns its name."""
        return self.commit(
            toolsets__gear__toolset_yaml=_MANIFEST.replace("CONFIRM", str(confirm).lower()),
            toolsets__gear__tools__gear_py=_TOOL.replace("NAME", name),
        )


@pytest.fixture(autouse=True)
def _user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who trusts nothing yet."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin")


def make_node(folder: Path, origin: Origin, ref: str = "main", *, trusted: bool = True) -> Path:
    folder.mkdir()
    (folder / "covalt.yaml").write_text(
        f"version: 1\nproject: {{url: 'file://{origin.folder}', ref: {ref}, every_s: 86400}}\n"
    )
    if trusted:
        source = source_of(folder)
        assert source is not None
        Consents.of(folder).check_data()
        Consents.of(folder).trust([project_source(source)])
    return folder


@pytest.fixture
def node(tmp_path: Path, origin: Origin) -> Path:
    """A node that has the first commit, with the chat c1."""
    folder = make_node(tmp_path / "node", origin)
    update(folder)
    perform_on(folder, "create_chat", chat_id="c1")
    return folder


def perform_on(node: Path, name: str, **request: Any) -> Any:
    return Operations(current_root(node))(name, **request)


def call(node: Path) -> Any:
    return perform_on(node, "call_tool", chat_id="c1", tool_id="gear:version", args={})


def queued(node: Path) -> QueuedCall:
    """Return a call as a server of the node puts it in the queue."""
    with Context.of(Project.open(node)) as context:
        request = CallRequest("gear:version", {})
        prepared = prepare_call(context, context.chat("c1"), request, None)
    assert isinstance(prepared, QueuedCall)
    return QueuedCall.model_validate_json(prepared.model_dump_json())


def made(node: Path, queued_call: QueuedCall) -> Any:
    """Make a call of the queue as a worker of a node does, and return it."""
    end = perform(node, queued_call, Follower(), lambda _holder: None)
    assert end.manifest_id is not None, end
    return perform_on(node, "get_call", chat_id="c1", call_id=queued_call.call_id)


def test_new_calls_run_the_commit_of_the_ref_and_record_it(node: Path, origin: Origin) -> None:
    first = call(node)
    second_commit = origin.gear("B")
    assert call(node)["result"] == "A"
    update(node)
    second = call(node)

    assert (first["result"], second["result"]) == ("A", "B")
    assert second["toolset"]["commit"] == second_commit
    assert first["toolset"]["commit"] == origin.git("rev-parse", "HEAD~1")
    store = node / "data/chats/c1/store.git"
    shown = subprocess.check_output(
        ["git", "-C", str(store), "log", "-1", "--format=%(trailers:key=Covalt-Project)", "main"],
        text=True,
    )
    assert shown.strip() == f"Covalt-Project: {second_commit}"
    assert perform_on(node, "verify_audit", chat_id="c1")["fits"]


@pytest.mark.rest
def test_a_call_that_waits_across_an_update_runs_its_own_version(
    node: Path, origin: Origin
) -> None:
    waiting, running = queued(node), Project.open(node)
    origin.gear("B")
    update(node)
    later = queued(node)

    assert made(node, waiting)["result"] == "A"
    assert made(node, later)["result"] == "B"
    # A process that opened the project before the update sees one version to its end.
    with Context.of(running) as context:
        assert context.catalog.find_callable("gear:version").toolset.folder.is_relative_to(
            checkout(node, waiting.project or "")
        )
        assert running.as_of_now().root == running.root


def test_a_worker_fetches_the_commit_that_a_call_names(
    node: Path, origin: Origin, tmp_path: Path
) -> None:
    worker = make_node(tmp_path / "worker", origin)
    update(worker)
    perform_on(worker, "create_chat", chat_id="c1")
    first = queued(node)
    origin.gear("B")
    update(node)
    second = queued(node)
    # The worker has not seen the new commit, and the other one is not the newest.
    assert made(worker, second)["result"] == "B"
    assert made(worker, first)["result"] == "A"
    assert commit_of(current_root(worker)) == first.project

    # A branch that was reset does not lose calls; a commit that was never in the branch does not run.
    origin.git("reset", "--quiet", "--hard", "HEAD~1")
    again = second.model_copy(update={"call_id": queued(node).call_id})
    assert made(worker, again)["result"] == "B"
    origin.git("checkout", "--quiet", "-b", "side")
    foreign = second.model_copy(update={"project": origin.gear("C")})
    with pytest.raises(BadProjectCommitError):
        made(worker, foreign)
    with pytest.raises(BadProjectCommitError):
        made(worker, second.model_copy(update={"project": "../../../.."}))


def test_a_commit_with_errors_is_not_used(node: Path, origin: Origin) -> None:
    good = origin.git("rev-parse", "HEAD")
    bad = origin.commit(toolsets__gear__toolset_yaml="broken: [")
    state = update(node)
    assert state.current == good
    assert state.waiting is not None
    assert (state.waiting.commit, state.waiting.kind) == (bad, "invalid")
    assert "toolsets/gear/toolset.yaml:1: CG102" in state.waiting.why
    assert call(node)["result"] == "A"
    (need,) = [
        need for need in perform_on(node, "list_needs")["needs"] if need["kind"] == "project"
    ]
    assert bad[:12] in need["message"]

    fixed = origin.gear("B")
    assert update(node).current == fixed
    assert perform_on(node, "list_needs")["needs"] == []


@pytest.mark.parametrize(
    "files",
    [
        {"covalt_yaml": "version: 1\nproject: {url: 'file:///srv/other'}\n"},
        rest({"data__chats_txt": "a chat of another machine"}),
        {"large_txt": "x" * 3000},
    ],
    ids=["node_in_node", "data", "too_large"],
)
def test_a_commit_that_no_node_can_have_is_not_used(
    node: Path, origin: Origin, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = origin.git("rev-parse", "HEAD")
    monkeypatch.setattr(project_repository, "MOST_BYTES", 2000)
    origin.commit(**files)
    with suppress(BadProjectCommitError):
        assert update(node).waiting is not None
    assert commit_of(current_root(node)) == good


def test_a_commit_that_needs_trust_waits_for_it(node: Path, origin: Origin) -> None:
    roles = "roles:\n  owner: {admin: true}\n  helper: {approve: ['gear.*']}\ndefault_role: owner\n"
    new = origin.commit(covalt_yaml=_CONFIG + roles)
    state = update(node)
    assert state.waiting is not None
    assert (state.waiting.commit, state.waiting.kind) == (new, "not_trusted")
    assert call(node)["result"] == "A"

    # What is reviewed is the commit that waits.
    listed = perform_on(node, "list_permissions")["permissions"]
    assert any(not row["trusted"] and "helper" in row["permits"] for row in listed)
    perform_on(node, "trust_project")
    assert commit_of(current_root(node)) == new


def test_an_approval_is_for_the_code_that_was_reviewed(node: Path, origin: Origin) -> None:
    origin.gear("A", confirm=True)
    update(node)
    pending, other = call(node), call(node)
    # Another file of the project changes; the reviewed tool does not.
    unrelated = origin.commit(covalt_yaml=f"{_CONFIG}# changed\n")
    update(node)
    approved = perform_on(node, "approve_call", execution_id=pending["execution_id"])
    assert (approved["result"], approved["toolset"]["commit"]) == ("A", unrelated)

    origin.gear("B", confirm=True)
    update(node)
    with pytest.raises(CovaltError) as asked_again:
        perform_on(node, "approve_call", execution_id=other["execution_id"])
    assert asked_again.value.code == "asked_again"
    newer = asked_again.value.execution_id  # type: ignore[attr-defined]
    assert perform_on(node, "approve_call", execution_id=newer)["result"] == "B"


def test_nothing_is_fetched_before_the_user_trusts_the_repository(
    tmp_path: Path, origin: Origin
) -> None:
    folder = make_node(tmp_path / "node", origin, trusted=False)
    with pytest.raises(NotTrustedError):
        update(folder)
    with pytest.raises(NoProjectCommitError):
        Project.open(folder)
    assert not (folder / "data/project").exists()
    (row,) = perform_on(folder, "list_permissions")["permissions"]
    assert (row["trusted"], str(origin.folder) in row["permits"]) == (False, True)
    perform_on(folder, "trust_project")
    assert Project.open(folder).root.is_relative_to(folder)
    # Another ref is another decision.
    text = (folder / "covalt.yaml").read_text()
    (folder / "covalt.yaml").write_text(text.replace("ref: main", "ref: side"))
    with pytest.raises(NotTrustedError):
        update(folder)
    with pytest.raises(NoProjectCommitError):
        Project.open(folder)


def test_files_of_a_node_are_never_its_users_own(tmp_path: Path, origin: Origin) -> None:
    roles = "roles:\n  owner: {admin: true}\n  helper: {approve: ['gear.*']}\ndefault_role: owner\n"
    origin.commit(covalt_yaml=_CONFIG + roles)
    folder = make_node(tmp_path / "node", origin)
    Consents.of(folder).trust_new_project()
    update(folder)
    listed = perform_on(folder, "list_permissions")["permissions"]
    assert any(not row["trusted"] and "helper" in row["permits"] for row in listed)


@pytest.mark.parametrize("ref", ["v1", "COMMIT"])
def test_a_node_can_follow_a_tag_or_stay_at_a_commit(
    tmp_path: Path, origin: Origin, ref: str
) -> None:
    commit = origin.git("rev-parse", "HEAD")
    origin.git("tag", "--annotate", "--message=first", "v1")
    origin.gear("B")
    folder = make_node(tmp_path / "node", origin, ref.replace("COMMIT", commit))
    assert update(folder).current == commit
    assert update(folder).current == commit


def test_a_ref_that_the_server_lacks_is_named(tmp_path: Path, origin: Origin) -> None:
    folder = make_node(tmp_path / "node", origin, "gone")
    with pytest.raises(ProjectUnavailableError, match="gone"):
        update(folder)


def test_the_files_of_a_node_change_only_in_its_repository(node: Path) -> None:
    root = current_root(node)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    changes: list[Callable[[], object]] = [
        partial(perform_on, node, "enable_toolset", toolset_id="gear", enabled=False),
        partial(perform_on, node, "create_toolset", toolset_id="other"),
        partial(perform_on, node, "fix_files", write=True),
        partial(perform_on, node, "uninstall_toolset", toolset_id="gear"),
        partial(add_signer, root, "ann ssh-ed25519 AAAA"),
    ]
    for change in changes:
        with pytest.raises(FollowedProjectError):
            change()
    answer = Api.of(node).tell("enable_toolset", toolset_id="gear", enabled=False)
    assert (answer.status_code, "followed_project" in answer.text) == (409, True)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    assert all(not path.stat().st_mode & 0o222 for path in [root, *before])


def test_checkouts_are_removed_when_no_call_uses_them(node: Path, origin: Origin) -> None:
    first = current_root(node)
    origin.gear("B")
    update(node)
    os.utime(first, (0, time.time() - UNUSED_S - 1))
    with node_folder.in_use(first):
        update(node)
        assert first.is_dir()
    update(node)
    assert not first.exists()
    assert call(node)["result"] == "B"


def test_a_follower_moves_its_node_at_sighup_and_reports_what_stops_it(
    node: Path, origin: Origin, caplog: pytest.LogCaptureFixture
) -> None:
    follower = ProjectFollower(node)
    follower.start()
    moves = MOVES.value()
    with follower.following():
        new = origin.gear("B")
        os.kill(os.getpid(), signal.SIGHUP)
        until(lambda: commit_of(current_root(node)) == new and MOVES.value() == moves + 1)
        assert follower.detail is None
        origin.commit(toolsets__gear__toolset_yaml="broken: [")
        os.kill(os.getpid(), signal.SIGHUP)
        until(lambda: follower.detail is not None)
        assert {name: value for name, _, value in follower.gauges()} == {"project_behind": 1}
        origin.folder.rename(origin.folder.with_name("gone"))
        os.kill(os.getpid(), signal.SIGHUP)
        until(lambda: len(caplog.messages) > 1)
    assert "has errors" in caplog.messages[0]
    # A node that has a commit starts without its git server.
    ProjectFollower(node).start()
    assert commit_of(current_root(node)) == new


def until(is_reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)
