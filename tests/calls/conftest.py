"""A project with a toolset for each way in which a call can end, and short ways to act in it."""

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from covalt_git.calls.engine import CallRequest
from covalt_git.calls.outcomes import CallOutcome
from covalt_git.calls.running import Follower
from covalt_git.models.calls import Approval, PendingCall, SandboxLevel
from covalt_git.models.chats import WorkspaceManifest
from covalt_git.models.commit_record import CallRecord
from covalt_git.project import Project
from covalt_git.system import file_lock
from covalt_git.toolsets.new_project import create_project
from tests import command
from tests.copied import copied
from tests.http_tools.upstream import Upstream, upstream
from tests.workspaces.stores import branch_off, checkout, git

TOOLSETS = Path(__file__).parents[2] / "fixtures" / "calls"


@dataclass(frozen=True)
class World:
    """A project with one chat, ``c1``."""

    root: Path

    @property
    def workspace(self) -> Path:
        return self.root / "data" / "chats" / "c1" / "workspace"

    @property
    def store(self) -> Path:
        return self.root / "data" / "chats" / "c1" / "store.git"

    def project(self, role: str | None = None) -> Project:
        return Project.open(self.root, role=role)

    def configure(self, text: str = "") -> None:
        """Write ``covalt.yaml``: what every test wants, and ``text``."""
        base = "version: 1\nworkspace: {durability: fast}\n"
        (self.root / "covalt.yaml").write_text(base + dedent(text), encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """Write a file below ``toolsets``."""
        file = self.root / "toolsets" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def add(self, toolset: str) -> None:
        """Add a toolset of ``fixtures/calls``."""
        shutil.copytree(TOOLSETS / toolset, self.root / "toolsets" / toolset, dirs_exist_ok=True)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text, which has to be there, in a file below ``toolsets``."""
        text = (self.root / "toolsets" / path).read_text(encoding="utf-8")
        assert old in text
        self.write(path, text.replace(old, new))

    # Acting

    def call(
        self,
        tool: str,
        /,
        *,
        role: str | None = None,
        chat_id: str = "c1",
        message_id: str | None = None,
        call_id: str | None = None,
        follower: Follower | None = None,
        level: SandboxLevel | None = None,
        **args: Any,
    ) -> CallOutcome:
        """Call a tool; one without a namespace is the toolset demo's."""
        tool = tool if ":" in tool else f"demo:{tool}"
        project = self.project(role)
        with project.chats.open(chat_id) as chat:
            engine = replace(project.engine(follower=follower), level=level)
            return engine.call(chat, CallRequest(tool, args, message_id, call_id))

    def call_for(self, message_id: str | None, tool: str, /, **args: Any) -> CallOutcome:
        return self.call(tool, message_id=message_id, **args)

    def ask(self, tool: str = "ask", /, **args: Any) -> str:
        """Make a call that requires approval, as ``call`` does; return the id of the approval."""
        outcome = self.call(tool, **args)
        assert outcome.approval is not None
        return outcome.approval.execution_id

    def approve(self, execution_id: str, *, role: str | None = None) -> CallOutcome:
        return self.project(role).approvals().approve(execution_id)

    def deny(self, execution_id: str, *, role: str | None = None) -> CallOutcome:
        return self.project(role).approvals().deny(execution_id)

    def branch(self, name: str) -> None:
        """Create a branch at the active one and check it out."""
        with self.project().chats.open("c1") as chat:
            branch_off(chat, name)

    def checkout(self, name: str) -> None:
        with self.project().chats.open("c1") as chat:
            checkout(chat, name)

    def lose_index(self, how: str) -> None:
        """Delete the index, or have something in its place, or leave it ``present``."""
        index = self.root / "data" / "index.db"
        if how != "present":
            index.unlink(missing_ok=True)
        if how == "unusable":
            index.mkdir()

    def cli(self, *args: str, role: str | None = None) -> subprocess.CompletedProcess[str]:
        roles = [] if role is None else ["--role", role]
        return command.run_here(*roles, *args, cwd=self.root)

    def start(self, *args: str) -> command.Piped:
        return command.Piped("-C", str(self.root), *args)

    # Reading

    def log(self, branch: str = "main") -> list[WorkspaceManifest]:
        """Return the branch's manifests, oldest first."""
        with self.project().chats.open("c1") as chat:
            line = [one.id for one in chat.log(chat.branch(branch).manifest_id)]
            return [chat.manifest(oid) for oid in reversed(line)]

    def record(self, branch: str = "main") -> CallRecord:
        """Return the record of the branch's last call, as its commit holds it."""
        record = self.log(branch)[-1].record.call
        assert record is not None
        return record

    def codes(self, branch: str = "main") -> list[str]:
        """Return how each finished call ended, oldest first."""
        calls = [manifest.record.call for manifest in self.log(branch)]
        return [call.error.code if call.error else call.status for call in calls if call]

    def files(self, branch: str = "main") -> dict[str, str]:
        """Return the texts of the branch's last manifest."""
        with self.project().chats.open("c1") as chat:
            oid = chat.branch(branch).manifest_id
            return {path: chat.read_file(oid, path).decode() for path in chat.files(oid)}

    def runs(self) -> int:
        """Return how often ``add`` or ``wait`` ran, according to the history."""
        return self.files().get("runs.txt", "").count("\n")

    def waiting(self) -> list[PendingCall]:
        with self.project().chats.open("c1") as chat:
            return chat.calls()

    def approvals(self) -> list[Approval]:
        with self.project().chats.open("c1") as chat:
            return chat.approvals()

    def approval(self, execution_id: str) -> Approval:
        return next(one for one in self.approvals() if one.execution_id == execution_id)

    def git(self, *args: str) -> str:
        return git(self.store, *args)

    def refs(self) -> str:
        return self.git("for-each-ref")

    def has_next_writer(self) -> bool:
        """Return whether a writer waits for the chat."""
        try:
            with file_lock.held(self.workspace.with_name("lock.next"), wait=False):
                return False
        except BlockingIOError:
            return True


def code(outcome: CallOutcome) -> str:
    """Return the error code of a call, which has to have failed."""
    assert outcome.call.status == "error"
    assert outcome.error is not None
    return outcome.error.code


@cache
def _template() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="covalt-world-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    world = World(folder / "project")
    create_project(world.root)
    world.configure()
    world.add("demo")
    world.project().chats.new("c1")
    with world.project().tool_index():  # an empty one: each test would make its tables
        return world.root


def make_world(root: Path) -> World:
    return World(copied(_template(), root))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path / "project")


@pytest.fixture
def root(world: World) -> Path:
    return world.root


@pytest.fixture
def new_world(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], World]:
    """Make as many worlds as a test wants."""
    return lambda: make_world(tmp_path_factory.mktemp("world") / "project")


@pytest.fixture(scope="module")
def served() -> Iterator[Upstream]:
    """A host for HTTP tools."""
    with upstream() as made:
        yield made
