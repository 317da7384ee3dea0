"""A real project with a toolset for each way a call can go, and short ways to act in it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.calls.engine import Request
from covalt_git.calls.outcomes import CallOutcome
from covalt_git.project import Project
from covalt_git.toolsets.new_project import create_project
from tests import command

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.models.calls import Approval, PendingCall, SandboxLevel
    from covalt_git.models.chats import WorkspaceManifest

MANIFEST = """\
manifest_version: "1"
id: demo
name: Demo
version: "2.0.0"
tools:
  - {id: add, entrypoint: tools.plain:add}
  - {id: ask, entrypoint: tools.plain:add, requires_confirmation: true}
  - {id: quiet, entrypoint: tools.quiet:add}
  - {id: wait, entrypoint: tools.plain:wait, requires_confirmation: true}
  - {id: fail, entrypoint: tools.plain:fail}
  - {id: vanish, entrypoint: tools.plain:vanish}
  - {id: judge, entrypoint: tools.plain:judge}
  - {id: judge_later, entrypoint: tools.plain:judge, requires_confirmation: true}
  - {id: "off", entrypoint: tools.plain:add, enabled: false}
  - {id: show, entrypoint: tools.plain:show, renderer: {type: html, artifact: artifacts/page.html}}
  - {id: misshow, entrypoint: tools.plain:show, renderer: {type: code, content: $return.missing}}
  - {id: noshow, entrypoint: tools.plain:fail, renderer: {type: html, artifact: artifacts/page.html}}
  - {id: web, http: {url: "https://example.com/{city}"}, input_schema: {type: object}}
"""

PLAIN = '''\
import fcntl
import shutil
import time
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator


def even(value: int) -> int:
    if value % 2:
        raise ValueError("has to be even")
    return value


def add(workspace: Path, text: str = "run", times: int = 1) -> dict:
    """Write down, in the workspace, that it ran."""
    with (workspace / "runs.txt").open("a") as file:
        file.write(f"{text}\\n" * times)
    print("added", text)
    return {"text": text}


def wait(workspace: Path) -> None:
    """Say that it runs, then run until it is ended."""
    (workspace / "runs.txt").open("a").write("run\\n")
    lock = (workspace / "held.part").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    (workspace / "held.part").rename(workspace / "held")
    time.sleep(600)


def fail(workspace: Path) -> None:
    (workspace / "partial.txt").write_text("half")
    raise RuntimeError("half way \\ud800")


def vanish(workspace: Path, how: Literal["deleted", "link", "file"], outside: str = "") -> str:
    shutil.rmtree(workspace)
    if how == "link":
        workspace.symlink_to(outside)
    if how == "file":
        workspace.write_text("no folder")
    return "gone"


def judge(number: Annotated[int, AfterValidator(even)], other: int = 0) -> int:
    return number


def show(title: str) -> dict:
    return {"title": title}
'''

QUIET = """\
from covalt_toolset import tool
from tools.plain import add as plain

decorate = tool(requires_confirmation=True)


def add(text: str = "run") -> dict:
    from covalt_toolset import get_context

    return plain(get_context().workspace, text)


globals()["add"] = decorate(add)
"""


@dataclass(frozen=True)
class World:
    """A project with one chat, ``c1``."""

    root: Path

    def configure(self, text: str = "") -> None:
        """Write ``covalt.yaml``: what every test wants, and ``text``."""
        base = "version: 1\nworkspace: {durability: fast}\n"
        (self.root / "covalt.yaml").write_text(base + dedent(text), encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        file = self.root / "toolsets" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def project(self, role: str | None = None) -> Project:
        return Project.open(self.root, role=role)

    @property
    def workspace(self) -> Path:
        return self.root / "data" / "chats" / "c1" / "workspace"

    @property
    def store(self) -> Path:
        return self.root / "data" / "chats" / "c1" / "store.git"

    # Acting

    def call(self, tool: str, /, *, role: str | None = None, **args: Any) -> CallOutcome:
        return self.call_for(None, tool, role=role, **args)

    def call_at(self, level: SandboxLevel, tool: str, /, **args: Any) -> CallOutcome:
        project = self.project()
        with project.chats.open("c1") as chat:
            engine = replace(project.engine(), level=level)
            return engine.call(chat, Request(f"demo:{tool}", args))

    def call_for(
        self, message_id: str | None, tool: str, /, *, role: str | None = None, **args: Any
    ) -> CallOutcome:
        project = self.project(role)
        with project.chats.open("c1") as chat:
            return project.engine().call(chat, Request(f"demo:{tool}", args, message_id))

    def ask(self, tool: str = "ask", /, *, role: str | None = None, **args: Any) -> str:
        """Make a call that waits; return the id of its approval."""
        outcome = self.call(tool, role=role, **args)
        assert outcome.approval is not None
        return outcome.approval.execution_id

    def approve(self, execution_id: str, *, role: str | None = None) -> CallOutcome:
        return self.project(role).approvals().approve(execution_id)

    def deny(self, execution_id: str, *, role: str | None = None) -> CallOutcome:
        return self.project(role).approvals().deny(execution_id)

    def branch(self, name: str) -> None:
        """Make a branch at the active one and bring the folder to it."""
        with self.project().chats.open("c1") as chat, self.project().engine().writing(chat) as it:
            it.create_branch(name, it.save_edits())
            it.checkout(name)

    def checkout(self, name: str) -> None:
        with self.project().chats.open("c1") as chat, self.project().engine().writing(chat) as it:
            it.checkout(name)

    def cli(self, *args: str, role: str | None = None) -> subprocess.CompletedProcess[str]:
        roles = [] if role is None else ["--role", role]
        return command.run("-C", str(self.root), *roles, *args)

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def command(self, *args: str) -> list[str]:
        program = [sys.executable, "-c", "from covalt_git.cli import main; main()"]
        return [*program, "-C", str(self.root), *args]

    # Looking

    def log(self, branch: str = "main") -> list[WorkspaceManifest]:
        """Return the branch's manifests, oldest first."""
        with self.project().chats.open("c1") as chat:
            return [*chat.log(chat.branch(branch).manifest_id)][::-1]

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
        """Return how often a tool that writes down its runs has run, as the history tells it."""
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
        command = ["git", "-C", str(self.store), *args]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def refs(self) -> str:
        return self.git("for-each-ref")

    def index_rows(self) -> dict[str, Any]:
        shown = self.cli("approval", "list", "--all", "--json")
        return {row["execution_id"]: row for row in json.loads(shown.stdout)["approvals"]}

    def until(self, holds: Callable[[], bool]) -> bool:
        """Wait until something holds, for as long as a slow machine may take."""
        end = time.monotonic() + 30
        while not holds() and time.monotonic() < end:
            time.sleep(0.01)
        return holds()


def make_world(root: Path) -> World:
    create_project(root)
    world = World(root)
    world.configure()
    world.write("demo/toolset.yaml", MANIFEST)
    world.write("demo/tools/plain.py", PLAIN)
    world.write("demo/tools/quiet.py", QUIET)
    world.write("demo/artifacts/page.html", "<h1>first</h1>")
    world.project().chats.new("c1")
    return world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path / "project")


@pytest.fixture
def new_world(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], World]:
    """Make as many worlds as a test wants."""
    return lambda: make_world(tmp_path_factory.mktemp("world") / "project")
