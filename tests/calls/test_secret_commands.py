"""Calls whose secrets a command prints: asked late, for what was granted alone, and masked like any other."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covalt_git.calls.outcomes import CallOutcome
from covalt_git.credentials.command import SecretCommand
from covalt_git.toolsets.toolset import read_toolset
from tests.calls.conftest import World
from tests.runtime.http_upstream import Upstream, upstream

CANARY = "sk-canary/+7f"
MANIFEST = """\
id: demo
name: Demo
version: "1"
secrets: [PRINTED_KEY, OTHER_KEY]
tools:
  - {{id: leak, entrypoint: tools.it:leak}}
  - id: fetch
    http: {{url: "{url}/echo/a", headers: {{X-Key: "${{PRINTED_KEY}}"}}, query: {{key: "${{PRINTED_KEY}}"}}}}
  - id: other
    http: {{url: "{url}/echo/a", headers: {{X-Key: "${{OTHER_KEY:-none}}"}}}}
"""
PYTHON = """
from covalt_toolset import get_context


def leak(fail: bool = False) -> dict:
    key = get_context().secrets["PRINTED_KEY"]
    print("printed", key, key.encode().hex())
    (get_context().workspace / "names.txt").write_text(" ".join(get_context().secrets))
    if fail:
        raise ValueError(key)
    return {"key": key}
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Upstream]:
    with upstream() as made:
        yield made


@pytest.fixture
def printed(
    world: World, served: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    """A world whose command prints secrets and counts how often; one of two was granted."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    printer = tmp_path / "printer"
    printer.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/asked\necho {CANARY}\n')
    printer.chmod(0o755)
    world.configure(f"secret_command: [{printer}, '{{name}}']\n")
    world.write("demo/toolset.yaml", MANIFEST.format(url=served.url))
    world.write("demo/tools/it.py", PYTHON)
    facts = {
        "hosts": [served.address],
        "digest": read_toolset(world.root, "demo").digest,
        "granted_at": "2026-11-20T17:24:00Z",
        "granted_by": "local",
    }
    grants = {
        "network": {"kind": "network", **facts},
        "secret-PRINTED_KEY": {"kind": "secret", "name": "PRINTED_KEY", **facts},
    }
    world.write("state/demo.yaml", json.dumps({"grants": grants}))
    return world


def allow(world: World) -> None:
    command = SecretCommand.of(world.root, world.project().config.secret_command)
    assert command is not None
    command.allow()


def asked(tmp_path: Path) -> list[str]:
    file = tmp_path / "asked"
    return file.read_text().split() if file.exists() else []


def spilled(root: Path, *shown: Any) -> list[str]:
    """Return where the value stands: files, git's objects as git shows them, and what was shown."""
    needles = [CANARY.encode(), CANARY.encode().hex().encode(), b"sk-canary%2F%2B7f"]
    texts = {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    store = ["git", "-C", str(root / "data/chats/c1/store.git")]
    argv = [*store, "cat-file", "--batch-all-objects", "--batch"]
    texts["objects"] = subprocess.run(argv, capture_output=True, check=True).stdout
    texts["shown"] = repr(shown).encode()
    return [name for name, text in texts.items() if any(one in text for one in needles)]


def test_nothing_runs_until_a_person_allows_it(printed: World, tmp_path: Path) -> None:
    outcomes = [printed.call("leak"), printed.call("fetch")]

    for outcome in outcomes:
        assert outcome.call.status == "error"
        assert outcome.error is not None
        assert outcome.error.code == "secret_command_not_allowed"
        assert outcome.error.hint.endswith("covalt-git secret allow")
    assert asked(tmp_path) == []
    assert printed.waiting() == []


def test_a_printed_value_reaches_the_tool_and_stands_nowhere_afterwards(
    printed: World, served: Upstream, tmp_path: Path
) -> None:
    allow(printed)

    outcomes: list[CallOutcome] = [
        printed.call("fetch"),
        printed.call("leak"),
        printed.call("leak", fail=True),
    ]
    shown = [printed.cli("--log-format", "json", "call", "c1", "demo:leak", "--json")]
    printed.cli("index", "rebuild")

    assert [one.call.status for one in outcomes] == ["success", "success", "error"]
    assert served.last["headers"]["x-key"] == CANARY
    assert outcomes[1].call.result == {"key": "***"}
    assert outcomes[1].output == "printed *** ***\n"
    assert outcomes[2].call.error == "tool_raised: ValueError: ***"
    assert spilled(printed.root, outcomes, shown, printed.log()) == []
    # Once a call, though the request has it twice; never for a name that was not granted.
    assert asked(tmp_path) == ["PRINTED_KEY"] * 4
    assert printed.files()["names.txt"] == "PRINTED_KEY"


def test_a_name_that_was_not_granted_is_not_asked_for(printed: World, tmp_path: Path) -> None:
    allow(printed)

    outcome = printed.call("other")

    assert outcome.call.result["headers"]["X-Key".lower()] == "none"
    assert asked(tmp_path) == []


def test_nobody_is_asked_for_what_the_file_or_the_environment_has(
    printed: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: Upstream
) -> None:
    allow(printed)
    monkeypatch.setenv("PRINTED_KEY", "of the environment")
    printed.call("fetch")
    assert served.last["headers"]["x-key"] == "of the environment"

    file = tmp_path / "config/covalt-git/secrets.env"
    file.write_text("PRINTED_KEY=of the file\n")
    file.chmod(0o600)
    printed.call("fetch")
    assert served.last["headers"]["x-key"] == "of the file"
    assert asked(tmp_path) == []


@pytest.mark.parametrize("tool", ["leak", "fetch"])
def test_a_command_that_fails_fails_the_call_and_its_words_stay_out(
    printed: World, tmp_path: Path, tool: str
) -> None:
    (tmp_path / "printer").write_text(f"#!/bin/sh\necho {CANARY} | tee /dev/stderr\nexit 7\n")
    allow(printed)

    outcome = printed.call(tool)

    assert outcome.error is not None
    assert outcome.error.code == "secret_command"
    assert outcome.error.message.endswith("asked for 'PRINTED_KEY', ended with exit code 7")
    assert outcome.error.hint == "covalt-git secret check PRINTED_KEY"
    assert spilled(printed.root, outcome, printed.log()) == []
