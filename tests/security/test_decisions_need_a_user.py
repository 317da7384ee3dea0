"""No command gives a consent or adds a signer without a terminal, unless it states a reason, which is recorded."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pytest

from covalt_git.cli import cli, context
from covalt_git.operations.registry import every_operation
from covalt_git.runtime import sandbox_levels
from covalt_git.system.private_files import user_folder
from tests.command import REPOSITORY, commands
from tests.examples import rest
from tests.operations_client import Operations
from tests.ssh_keys import Key, make_key
from tests.trusting import use_config

Cli = Callable[..., tuple[int, str]]

MANIFEST = f"""\
manifest_version: "1"
id: gear
name: Gear
version: "1.0.0"
description: d
secrets: [KEY]
tools:
  - {{id: get, http: {{url: "https://a.example/x"}}}}
  - {{id: pay, requires_confirmation: true, http: {{url: "https://a.example/y", method: POST}}}}
mcp_servers:
  - {{id: disk, command: "{sys.executable}", args: ["{REPOSITORY}/fixtures/servers/changing.py", "FILE"]}}
"""
INCOMING = """\
manifest_version: "1"
id: incoming
name: In
version: "1.0.0"
description: d
tools:
  - {id: get, http: {url: "https://a.example/x"}}
"""
ENTRY = {
    "tool_id": "al",
    "name": "Al",
    "description": "d",
    "protocols": ["http"],
    "protocol_meta": {"http": {"url": "https://a.example/1", "method": "GET"}},
}
PETS = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://pets.example"}],
    "paths": {"/pets": {"get": {"description": "List the pets.", "responses": {}}}},
}
CONFIG = """\
version: 1
default_role: owner
roles: {owner: {admin: true}}
secret_command: [/bin/echo, "{name}"]
approvals: [{pattern: "gear.pay", require: false}]
"""
REASON = "the release job needs it"

DECISIONS = (
    ("grant add gear --again", "renew_grants"),
    ("grant add gear network b.example", "add_grant"),
    ("grant add gear secret KEY", "add_grant"),
    ("grant add gear process disk", "add_grant"),
    ("grant add gear --requested", "add_requested_grants"),
    ("registry add entry.json", ""),
    ("grant add registered tool al", "add_grant"),
    ("secret allow", "allow_secret_command"),
    ("trust", "trust_project"),
    ("source refresh gear --accept", "refresh_sources"),
    ("(another tool)", ""),
    ("source refresh gear", ""),
    ("source accept gear", "accept_tools"),
    ("source add gear pets.json --yes", "add_source"),
    ("tool override gear:get --confirm", ""),
    ("tool override gear:get --no-confirm", "override_tool"),
    ("tool override gear:get --confirm", ""),
    ("tool override gear:get --clear confirm", "override_tool"),
    ("token new --role owner --name boss", "create_token"),
    ("bundle import ../incoming --trust --yes", "import_toolset_from"),
    ("bundle export incoming -o ../signed.zip --sign ../ann", ""),
    ("toolset uninstall incoming --force", ""),
    ("bundle import ../incoming --trust --json", "import_toolset_from"),
    ("toolset uninstall incoming --force", ""),
    ("bundle import ../signed.zip --trust-signer ann", "import_toolset_from"),
    ("(another version)", ""),
    ("toolset update incoming --from ../incoming --accept-signer", "update_toolset_from"),
    ("trust --below ..", "trust_projects_below"),
)
"""Commands that give a consent or add a signer, in an order in which each has something to do, with their operations."""

OVER_HTTP = {"import_toolset", "update_toolset"}
"""Deciding operations that no command uses, or not with another signer."""

AT_TERMINAL = {"observe_source": "source observe gear --granted --call read {}"}
"""Decisions that have no reason, as nothing records them: their commands need a terminal."""

OF_CALLS = {"approval approve", "approval deny", "call", "chat replay"}
"""Commands whose reason is recorded with a call."""

OF_REQUESTS = {"source doctor"}
"""Commands whose reason permits one request to a URL, and nothing else."""


@pytest.fixture
def ann(tmp_path: Path) -> Key:
    return make_key(tmp_path, "ann")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with a grant that has ended; its user trusts nothing."""
    monkeypatch.setattr(sandbox_levels, "level", lambda: "full")
    root = tmp_path / "clone"
    (root / "toolsets/gear").mkdir(parents=True)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming/toolset.yaml").write_text(INCOMING)
    list_tools(root, "read")
    (root / "toolsets/gear/toolset.yaml").write_text(
        MANIFEST.replace("FILE", str(tmp_path / "tools.json"))
    )
    (root / "covalt.yaml").write_text(CONFIG)
    (root / "entry.json").write_text(json.dumps(ENTRY))
    (root / "pets.json").write_text(json.dumps(PETS))
    use_config(monkeypatch, tmp_path / "author", trusts=False)
    Operations(root)("add_grant", toolset_id="gear", kind="network", hosts=["c.example"])
    (root / "toolsets/gear/README.md").write_text("changed")
    rmtree(root / "data")
    use_config(monkeypatch, tmp_path / "user", trusts=False)
    monkeypatch.chdir(root)
    return root


def list_tools(root: Path, *names: str) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    (root.parent / "tools.json").write_text(json.dumps(tools))


def decided(root: Path) -> dict[Path, str]:
    """Return the files with consents, signers, grants, accepted tools and tokens."""
    folders = (user_folder(), root / "toolsets", root / "data/tokens")
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    return {file: file.read_text() for file in (*files, root / "covalt.yaml")}


@pytest.mark.usefixtures("ann")
def test_each_decision_needs_a_terminal_or_a_reason_that_is_recorded(
    root: Path, cli_in: Cli
) -> None:
    assert cli_in(root, "toolset", "list")[0] == 0  # data/ becomes the user's
    for line, operation in DECISIONS:
        words = line.split()
        if line == "(another tool)":
            list_tools(root, "read", "write")
            continue
        if line == "(another version)":
            (root.parent / "incoming/README.md").write_text("2")
            continue
        if not operation:
            cli_in(root, *words)
            continue
        before = decided(root)

        code, printed = cli_in(root, *words)
        assert code != 0, line
        assert "by a user at a terminal" in printed, line
        assert decided(root) == before, line

        code, printed = cli_in(root, *words, "--no-terminal", REASON)
        assert code == 0, f"{line}: {printed}"
        after = decided(root)
        changed = [text for file, text in after.items() if before.get(file) != text]
        assert any(REASON in text for text in changed), line
        consents = {
            file
            for file in after.keys() - before.keys()
            if file.is_relative_to(user_folder()) and file.suffix == ".json"
        }
        assert all(REASON in after[file] for file in consents), line


@pytest.mark.parametrize(
    ("line", "nearest"),
    [
        ("source accept gear raed", "read"),
        rest("source accept gaer", "gear"),
        ("source refresh gaer --accept", "gear"),
        rest("grant add gaer network b.example", "gear"),
        rest("grant add gear secret KYE", "KEY"),
        ("grant add gear server dsik", "disk"),
        rest("grant add gaer --requested", "gear"),
    ],
)
def test_a_misspelt_name_is_reported_before_the_missing_terminal(
    root: Path, cli_in: Cli, line: str, nearest: str
) -> None:
    for words in (
        "toolset list",
        "grant add gear process disk --no-terminal test",
        "trust --no-terminal test",
        "source refresh gear",
    ):
        cli_in(root, *words.split())

    code, printed = cli_in(root, *line.split())

    assert code == 1
    assert f"did you mean '{nearest}'" in printed
    assert "terminal" not in printed


def test_an_approval_that_the_project_requires_does_not_end_with_a_removed_toolset(
    root: Path, cli_in: Cli
) -> None:
    cli_in(root, "toolset", "list")
    cli_in(root, "bundle", "import", "../incoming")
    cli_in(root, "tool", "override", "incoming:get", "--confirm")

    code, printed = cli_in(root, "toolset", "uninstall", "incoming", "--force")

    assert code == 1
    assert "requires approval of incoming:get" in printed
    assert "tool override incoming:get --clear confirm" in printed
    assert (root / "toolsets/state/incoming.yaml").exists()
    cli_in(root, "tool", "override", "incoming:get", "--clear", "confirm", "--no-terminal", REASON)
    assert cli_in(root, "toolset", "uninstall", "incoming", "--force")[0] == 0


def test_an_approval_that_the_project_requires_does_not_end_with_a_registered_tool(
    root: Path, cli_in: Cli
) -> None:
    cli_in(root, "registry", "add", "entry.json")
    cli_in(root, "tool", "override", "registered:al", "--confirm")

    code, printed = cli_in(root, "registry", "remove", "al")

    assert code == 1
    assert "tool override registered:al --clear confirm" in printed
    cli_in(root, "tool", "override", "registered:al", "--clear", "confirm", "--no-terminal", REASON)
    assert cli_in(root, "registry", "remove", "al")[0] == 0


def test_calls_with_the_grant_of_a_server_that_no_record_has_need_a_terminal(
    root: Path, cli_in: Cli
) -> None:
    cli_in(root, "grant", "add", "gear", "process", "disk", "--no-terminal", REASON)
    for line in AT_TERMINAL.values():
        code, printed = cli_in(root, *line.split())
        assert code != 0
        assert "by a user at a terminal" in printed


def test_yes_answers_the_question_of_a_user_at_a_terminal(
    root: Path, cli_in: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "can_ask", lambda: True)

    code, printed = cli_in(root, "bundle", "import", "../incoming", "--trust", "--yes")

    assert code == 0, printed
    assert "it gets: network a.example" in printed


def test_every_deciding_operation_and_command_is_tried() -> None:
    deciding = {name for name, one in every_operation().items() if one.decides is not None}
    assert {operation for _, operation in DECISIONS if operation} | OVER_HTTP | {
        *AT_TERMINAL
    } == deciding

    with_reason = {
        name
        for name, command in commands(cli)
        if any("--no-terminal" in parameter.opts for parameter in command.params)
    }
    tried = {
        name
        for name in with_reason
        if any(f"{line} ".startswith(f"{name} ") for line, operation in DECISIONS if operation)
    }
    assert with_reason == tried | OF_CALLS | OF_REQUESTS
