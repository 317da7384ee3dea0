"""Each command's help has an example, which runs as it is printed, in the projects of ``help_examples.yaml``."""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml
from click import Context, Group

from covalt_git.cli import cli
from covalt_git.runtime import sandbox_levels
from covalt_git.toolsets.new_project import create_project
from tests.cli.test_auth import BROWSER
from tests.command import REPOSITORY, Terminal
from tests.connections.signing_in import Guarded, guarded
from tests.examples import named
from tests.transcripts import Transcript
from tests.trusting import use_config
from tests.workspaces.stores import run_git

TABLE: dict[str, Any] = yaml.load(
    Path(__file__).with_name("help_examples.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
FILES = TABLE.pop("files")
SERVERS = (
    "serve --port 8000",
    "dev --port 8000",
    "worker --queue redis://127.0.0.1:6379/0",
    "mcp --chat c1",
    "approval watch",
    "storage serve chats",
)
"""Examples that run until they are stopped; other tests start servers."""


def examples(group: Group) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands, and the examples in their help."""
    context = Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        assert one is not None
        if isinstance(one, Group):
            yield from ((f"{name} {words}", found) for words, found in examples(one))
        assert r"\b" not in (one.help or ""), f"{name}: a mark for click is printed"
        found = re.findall(r"Examples?: covalt-git (.*(?:\n.+)*)", one.help or "")
        if found or not isinstance(one, Group) or one.invoke_without_command:
            yield name, [shlex.join(shlex.split(text)) for text in found]


def test_each_command_has_an_example_which_runs() -> None:
    found = dict(examples(cli))
    steps = re.sub(r"<id-\d+>", "9c11d0e2", "\n".join(TABLE.values()))
    run = {*re.findall(r"(?m)^\$ covalt-git (.*)$", steps), *SERVERS}

    assert [name for name, texts in found.items() if len(texts) != 1] == []
    assert [name for name, texts in found.items() if not run.issuperset(texts)] == []


@pytest.fixture(scope="module")
def tickets() -> Iterator[Guarded]:
    """The MCP server of the examples, which a user signs in to."""
    with guarded() as running:
        yield running


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one commit, whose user has a browser that follows where it is led."""
    root = tmp_path / "project"
    create_project(root)
    (tmp_path / "browser.py").write_text(BROWSER)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {tmp_path / 'browser.py'} %s")
    use_config(monkeypatch, tmp_path / "config")
    return root


def at_terminal(transcript: Transcript, command: str, answers: list[str]) -> None:
    """Run a step at a terminal; each answer is a prompt, and what the user types."""
    words = shlex.split(transcript.with_ids(command))[2:]
    user = Terminal(*words, cwd=transcript.root, env=os.environ)
    for one in filter(None, answers):
        user.answers(*one.rsplit(" ", 1))
    transcript.lines += [command, user.end()]
    if user.exit_code:
        transcript.lines.append(f"[exit {user.exit_code}]")


@pytest.mark.parametrize("name", named(TABLE, "chats", "scripts"))
def test_examples_run(root: Path, tickets: Guarded, name: str) -> None:
    values = {
        "PYTHON": sys.executable,
        "SERVERS": f"{REPOSITORY}/fixtures/servers",
        "ROOT": str(root),
        "TICKETS": tickets.url,
        "PROBED": "[exit 1]" if sandbox_levels.level() == "process" else "",
    }
    for path, text in FILES.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(Template(text).safe_substitute(values), encoding="utf-8")
    run_git(root, "add", ".")
    run_git(root, "commit", "-qm", "Start")
    transcript = Transcript(root)
    for step in re.split(r"\n(?=\$ )", Template(TABLE[name]).safe_substitute(values).strip()):
        command, *after = step.splitlines()
        answers = [line[2:] for line in after if line.startswith(">")]
        if answers:
            at_terminal(transcript, command, answers)
        else:
            transcript.step(command)
        exits = [line for line in transcript.lines[-1:] if line.startswith("[exit")]
        assert exits == [line for line in after if line.startswith("[exit")], transcript.text()
