"""Secrets of calls: given to the tool that was granted them, and stored and shown nowhere."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from covalt_git.access.grants import GrantNeededError
from covalt_git.calls.running import CallEvent, Follower
from covalt_git.credentials.command import SecretCommand
from covalt_git.models.outcomes import Log
from covalt_git.toolsets.toolset import read_toolset
from tests import command
from tests.calls.conftest import World, code
from tests.http_tools.upstream import Upstream
from tests.trusting import use_config

CANARY = "sk-canary/+7f"
MANIFEST = """\
id: demo
name: Demo
version: "1"
secrets: [A_KEY, OTHER_KEY]
tools:
  - {{id: leak, entrypoint: tools.it:leak}}
  - id: fetch
    http: {{url: "{url}/echo/a", headers: {{X-Key: "${{A_KEY}}"}}, query: {{key: "${{A_KEY}}"}}}}
  - {{id: forbidden, http: {{url: "{url}/leak", headers: {{X-Key: "${{A_KEY}}"}}}}}}
  - {{id: blob, http: {{url: "{url}/blob", headers: {{X-Key: "${{A_KEY}}"}}}}}}
  - {{id: other, http: {{url: "{url}/echo/a", headers: {{X-Key: "${{OTHER_KEY:-none}}"}}}}}}
"""
PYTHON = """
from covalt_toolset import get_context


def leak(fail: bool = False) -> dict:
    context = get_context()
    key = context.secrets["A_KEY"]
    context.log(f"key {key}")
    context.progress(1, 2, f"with {key}")
    print("printed", key, key.encode().hex())
    (context.workspace / "names.txt").write_text(" ".join(context.secrets))
    if fail:
        raise ValueError(key)
    return {"key": key, key: 1}
"""


@pytest.fixture
def web(world: World, served: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with a command that prints secrets, and a toolset that was granted one of its two."""
    use_config(monkeypatch, tmp_path / "config")
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
        "secret-A_KEY": {"kind": "secret", "name": "A_KEY", **facts},
    }
    world.write("state/demo.yaml", json.dumps({"grants": grants}))
    served.seen.clear()
    return world


def allow(world: World) -> None:
    command = SecretCommand.of(world.root, world.project().config.secret_command)
    assert command is not None
    command.allow()


def asked(tmp_path: Path) -> list[str]:
    """Return the names for which the command was run."""
    file = tmp_path / "asked"
    return file.read_text().split() if file.exists() else []


def spilled(root: Path, *shown: Any) -> list[str]:
    """Return where the value is found: in files, in objects as git shows them, and in what was shown."""
    encoded = [CANARY.encode(), CANARY.encode().hex().encode(), b"sk-canary%2F%2B7f"]
    texts = {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    store = ["git", "-C", str(root / "data/chats/c1/store.git")]
    argv = [*store, "cat-file", "--batch-all-objects", "--batch"]
    texts["objects"] = subprocess.run(argv, capture_output=True, check=True).stdout
    texts["shown"] = repr(shown).encode()
    return [name for name, text in texts.items() if any(one in text for one in encoded)]


def test_a_granted_secret_reaches_the_tool_and_is_stored_and_shown_nowhere(
    web: World, served: Upstream, tmp_path: Path
) -> None:
    allow(web)
    events: list[CallEvent] = []

    outcomes = {tool: web.call(tool) for tool in ("fetch", "forbidden", "blob")}
    sent = {one["headers"]["x-key"] for one in served.seen}
    leaked = web.call("leak", follower=Follower(events.append))
    failed = web.call("leak", fail=True)
    logged = command.run("--log-format", "json", "call", "c1", "demo:leak", "--json", cwd=web.root)
    web.cli("index", "rebuild")

    assert sent == {CANARY}
    assert outcomes["fetch"].call.result["headers"]["x-key"] == "***"
    assert web.log()[0].record.call.output.startswith(f"GET {served.url}/echo/a?key=***: 200, ")  # type: ignore[union-attr]
    assert code(outcomes["forbidden"]) == "http_403"
    assert outcomes["blob"].call.status == "success"
    assert leaked.call.result == {"key": "***", "***": 1}
    assert leaked.output == "info: key ***\nprinted *** ***\n"
    assert Log("info", "key ***") in events
    assert failed.call.error == "tool_raised: ValueError: ***"
    assert web.git("show", "main:names.txt") == "A_KEY"
    assert spilled(web.root, outcomes, leaked, failed, events, logged, web.log()) == []
    # Once for each call, though a request has it twice.
    assert asked(tmp_path) == ["A_KEY"] * 6


def test_a_granted_secret_of_the_file_reaches_the_tool(web: World, tmp_path: Path) -> None:
    file = tmp_path / "config/covalt-git/secrets.env"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"A_KEY='{CANARY}'\n")
    file.chmod(0o600)

    assert web.call("leak").call.result == {"key": "***", "***": 1}


def test_a_secret_granted_for_other_files_is_not_given(
    web: World, served: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", CANARY)
    web.write("demo/tools/it.py", PYTHON + "# changed\n")

    outcome = web.call("leak")

    assert outcome.error is not None
    assert "no secret 'A_KEY'" in outcome.error.message
    with pytest.raises(GrantNeededError):
        web.call("fetch")
    assert served.seen == []


def test_the_command_is_not_run_for_a_secret_that_was_not_granted(
    web: World, tmp_path: Path
) -> None:
    allow(web)

    assert web.call("other").call.result["headers"]["x-key"] == "none"
    assert asked(tmp_path) == []


@pytest.mark.parametrize("tool", ["leak", "fetch"])
def test_a_command_that_fails_fails_the_call_and_its_output_is_not_shown(
    web: World, tmp_path: Path, tool: str
) -> None:
    (tmp_path / "printer").write_text(f"#!/bin/sh\necho {CANARY} | tee /dev/stderr\nexit 7\n")
    allow(web)

    outcome = web.call(tool)

    assert code(outcome) == "secret_command"
    assert outcome.error is not None
    assert "exit code 7" in outcome.error.message
    assert outcome.error.hint == "covalt-git secret check A_KEY"
    assert spilled(web.root, outcome, web.log()) == []
