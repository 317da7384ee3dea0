"""A project with tools that leave marks outside of the chat, and with roles that run and review scripts."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from covalt_git.toolsets.new_project import create_project
from tests.copied import copied
from tests.operations_client import Operations
from tests.workspaces.stores import git

CONFIG = """\
version: 1
workspace: {durability: fast}
default_role: agent
roles:
  agent: {allow: ["marks.*", "workspace.*", "secrets-lab.open"], deny: ["marks.hidden"], approve: ["marks.*"]}
  boss: {admin: true}
  reviewer: {approve: ["marks.pay"], approve_own: true}
approvals:
  - {pattern: "marks.pay", require: true}
  - {pattern: "marks.peek-twice", require: true}
  - {pattern: "marks.flag", require: true}
  - {pattern: "workspace.restore", require: true}
limits: {script: {waiting: 3}}
"""
MANIFEST = """\
id: marks
name: Marks
version: "1"
tools:
  - {id: mark, entrypoint: "tools.marks:mark", annotations: {read_only: false}}
  - {id: pay, entrypoint: "tools.marks:mark", annotations: {read_only: false}}
  - {id: fail, entrypoint: "tools.marks:fail", annotations: {read_only: false}}
  - {id: read, entrypoint: "tools.marks:read", annotations: {read_only: true}}
  - {id: peek-twice, entrypoint: "tools.marks:read", annotations: {read_only: true}}
  - {id: hidden, entrypoint: "tools.marks:mark", annotations: {read_only: false}}
  - {id: direct, entrypoint: "tools.marks:mark", annotations: {read_only: false}, callers: [direct]}
  - {id: order, entrypoint: "tools.marks:order", annotations: {read_only: false}}
  - {id: flag, entrypoint: "tools.marks:flag", annotations: {read_only: false}}
  - {id: inner, entrypoint: "tools.marks:mark", annotations: {read_only: false}, callers: [script]}
"""
CODE = '''\
"""Tools whose calls leave a line in a file of the chat."""

from covalt_toolset import get_context


def mark(name: str, to: str = "") -> str:
    """Append a name to marks.txt."""
    with open("marks.txt", "a") as file:
        file.write(name + "\\n")
    return name.upper()


def flag(name: str, every: object) -> None:
    """Append a name."""
    mark(name)


def read() -> list[str]:
    """Return the marks."""
    try:
        with open("marks.txt") as file:
            return file.read().split()
    except FileNotFoundError:
        return []


def order(item: str) -> str:
    """Append an item, ask how many of it, and append the number."""
    mark(item)
    form = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
    answer = get_context().elicit("How many of " + item + "?", form)
    mark(str(answer.content["size"]) if answer.accepted else "none")
    return item


def fail(name: str) -> None:
    """Append a name, and fail."""
    mark(name)
    raise ValueError("no " + name)
'''


@dataclass
class Scripts:
    """The chat ``c1`` of a project, as the role that runs scripts."""

    operate: Operations
    boss: Operations = field(init=False)

    def __post_init__(self) -> None:
        self.boss = self.operate.as_role("boss")

    @property
    def root(self) -> Path:
        return self.operate.root

    def run(self, source: str, /, language: str = "python", **args: Any) -> Any:
        """Run a script; return the answer of its call."""
        sent = {"script": source, "language": language, "args": args}
        return self.operate("call_tool", chat_id="c1", tool_id="workspace:run_script", args=sent)

    def approve(self, answer: Any, **more: Any) -> Any:
        """Approve the call for which a script waits, as the boss; return the script."""
        self.boss("approve_call", execution_id=answer["execution_id"], **more)
        return self.show(answer)

    def deny(self, answer: Any, reason: str | None = None) -> Any:
        self.boss("deny_call", execution_id=answer["execution_id"], reason=reason)
        return self.show(answer)

    def show(self, answer: Any) -> Any:
        return self.boss("get_script", script_id=answer["id"])

    @property
    def marks(self) -> list[str]:
        file = self.operate.workspace("c1") / "marks.txt"
        return file.read_text().split() if file.exists() else []

    def refs(self) -> list[str]:
        store = self.operate.store("c1")
        listed = git(store, "for-each-ref", "--format=%(refname)", "refs/covalt/scripts")
        return str(listed).split()


@pytest.fixture(scope="session")
def scripts_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scripts") / "project"
    create_project(root)
    shutil.rmtree(root / "toolsets")
    tools = root / "toolsets/marks/tools"
    tools.mkdir(parents=True)
    (tools.parent / "toolset.yaml").write_text(MANIFEST)
    (tools / "marks.py").write_text(CODE)
    (root / "covalt.yaml").write_text(CONFIG)
    return root


@pytest.fixture
def scripts(scripts_template: Path, tmp_path: Path) -> Scripts:
    root = tmp_path / "project"
    copied(scripts_template, root)
    operate = Operations(root)
    operate("create_chat", chat_id="c1")
    return Scripts(operate)
