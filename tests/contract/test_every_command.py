"""What people wrote stays byte for byte as it is through every command there is.

Two are asked to change it, ``validate --fix`` and ``toolset update``; what makes, takes in or removes a
toolset touches nothing beside that.  A new command fails the first test until it is walked here.
Each command that has ``--json`` is run with it, for the names of its keys.
"""

from __future__ import annotations

import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import click
import pytest

from covalt_git.cli import cli
from covalt_git.connections.definition import Name
from covalt_git.connections.token_store import SignInFile, StoredLogin
from covalt_git.toolsets.new_project import create_project
from tests import command
from tests.contract.json_names import json_keys, json_values
from tests.contract.name_files import check_names

if TYPE_CHECKING:
    from collections.abc import Iterator

WALK = {
    "init": ["init ../other"],
    "explain": ["explain CG201"],
    "mcp install": ["mcp install claude-code --print", "mcp install claude-code --http --print"],
    "schema": ["schema state", "schema toolset --out ../schemas"],
    "toolset new": ["toolset new fresh --template mcp"],
    "validate": [
        "validate",
        "validate --diff",
        "validate --baseline ../baseline.json --write-baseline",
    ],
    "toolset list": ["toolset list"],
    "toolset show": ["toolset show demo"],
    "toolset disable": ["toolset disable demo", "toolset disable data-lab"],
    "toolset enable": ["toolset enable demo"],
    "tool list": ["tool list"],
    "tool search": ["tool search write"],
    "tool show": ["tool show demo:web"],
    "tool override": [
        "tool override demo:web --name Mine --description Ours --confirm",
        'tool override demo:web --renderer code --renderer-config \'{"content": "$$return"}\'',
        "tool override demo:web",
        "tool override demo:web --clear",
    ],
    "tool disable": ["tool disable demo:web"],
    "tool enable": ["tool enable demo:web"],
    "tool schema": ["tool schema demo:add"],
    "tool test": ["tool test demo --keep"],
    "grant add network": ["grant add demo network api.example"],
    "grant add secret": ["grant add demo secret A_KEY api.example b.example"],
    "grant add process": ["grant add demo process started", "grant add demo process given"],
    "grant add server": ["grant add demo server far"],
    "source list": ["source list"],
    "source refresh": [
        "! source refresh demo/given",
        "source diff demo/given",
        "source refresh demo/given --accept",
    ],
    "source diff": ["source diff"],
    "source accept": ["source accept demo/given"],
    "grant list": ["grant list"],
    "auth login": ["! auth login demo/far --no-browser"],
    "auth list": ["auth list"],
    "auth logout": ["auth logout demo/far"],
    "bundle export": ["bundle export demo -o ../demo.zip"],
    "bundle import": ["bundle import ../theirs --dry-run", "bundle import ../theirs"],
    "bundle verify": ["bundle verify ../demo.zip", "bundle verify theirs"],
    "toolset diff": ["toolset diff theirs", "toolset diff demo --granted network"],
    "grant add unsandboxed": ["grant add theirs unsandboxed"],
    "grant revoke unsandboxed": ["grant revoke theirs unsandboxed"],
    "toolset update": [
        "toolset update theirs --from ../newer --dry-run",
        "toolset update theirs --from ../newer",
    ],
    "grant revoke network": ["grant revoke demo network"],
    "grant revoke secret": ["grant revoke demo secret A_KEY b.example"],
    "grant revoke process": ["grant revoke demo process started"],
    "grant revoke server": ["grant revoke demo server far"],
    "grant revoke all": ["grant revoke demo all"],
    "secret list": ["secret list"],
    "secret allow": ["secret allow"],
    "secret check": ["secret check A_KEY"],
    "secret forbid": ["secret forbid"],
    "authority show": ["authority show demo"],
    "authority diff": ["authority diff HEAD --fail-on never", "authority diff HEAD..HEAD"],
    "chat new": ["chat new --id w1", "chat new --id spare"],
    "chat list": ["chat list"],
    "chat message add": ["chat message add w1 hello --json"],
    "call": [
        'call w1 demo:add \'{"a": 1, "b": 2}\'',
        'call w1 app-builder:write_file \'{"path": "a.txt", "content": "x"}\'',
        "! call w1 demo:fail",
        "call w1 --batch ../batch.jsonl",
        '! call w1 app-builder:run_command \'{"command": "true"}\' --json',
    ],
    "approval list": ["approval list"],
    "approval show": ["approval show $execution_id"],
    "approval approve": ["approval approve $execution_id"],
    "chat replay": ["chat replay w1 $id --yes"],
    "approval deny": [
        '! call w1 app-builder:run_command \'{"command": "true"}\' --json',
        "approval deny $execution_id",
    ],
    "chat upload": ["chat upload w1 covalt.yaml"],
    "chat status": ["chat status w1"],
    "chat files": ["chat files w1"],
    "chat log": ["chat log w1"],
    "chat show": ["chat show w1"],
    "chat branch new": ["chat branch new w1 idea"],
    "chat branch list": ["chat branch list w1"],
    "chat checkout": ["chat checkout w1 idea"],
    "chat diff": ["chat diff w1 main idea"],
    "chat restore": ["chat restore w1 main a.txt", "chat checkout w1 main"],
    "chat merge": [
        'call w1 app-builder:write_file \'{"path": "a.txt", "content": "ours"}\'',
        "chat checkout w1 idea",
        'call w1 app-builder:write_file \'{"path": "a.txt", "content": "theirs"}\'',
        "chat checkout w1 main",
        "! chat merge w1 idea",
        "chat merge w1 idea --keep-both",
        "chat status w1",
    ],
    "chat resolve": ["chat resolve w1", "chat resolve w1 a.txt --ours"],
    "chat branch rename": ["chat branch rename w1 idea other"],
    "chat branch delete": ["chat branch delete w1 other", "chat branch list w1 --deleted"],
    "chat message list": ["chat message list w1"],
    "chat message show": ["chat message show w1 $message_id"],
    "chat message edit": ["chat message edit w1 $message_id hi"],
    "chat message switch": ["chat message switch w1 $message_id"],
    "chat message retry": ["chat message retry w1 $message_id"],
    "chat message continue": ["chat message continue w1 $message_id"],
    "chat export": ["chat export w1 -o ../w1.bundle"],
    "chat import": ["chat import ../w1.bundle --id again"],
    "chat fork": ["chat fork w1"],
    "chat gc": ["chat gc --all --now", "chat gc w1"],
    "chat delete": ["chat delete spare --yes"],
    "index rebuild": ["index rebuild", "index rebuild --at HEAD"],
    "index status": ["index status"],
    "doctor": ["doctor"],
    "token new": ["token new --role agent --name writer", "token new --role agent --chat w1"],
    "token list": ["token list"],
    "token revoke": ["token revoke writer"],
    "serve": ["serve --port 0"],
    "dev": ["dev --port 0"],
    "toolset uninstall": ["toolset uninstall theirs --force"],
}
"""Every command, in an order in which each has something to do; ``$name`` is of an answer before.

A line that begins with ``!`` ends with 1, the others with 0.
"""

ASKED = {
    "toolset new": "toolsets/fresh/",
    "bundle import": "toolsets/theirs/",
    "toolset update": "toolsets/theirs/",
    "toolset uninstall": "toolsets/theirs/",
}
"""Below what a command may write, unless it is a ``--dry-run``."""

SERVERS_HERE = Path(__file__).parents[2] / "fixtures/servers"
MANIFEST = b"""\
# written by hand,\tin no order of ours\r
version:   "1"   \r
secrets: [ A_KEY ]
name: 'Demo'
id: demo

tools:
- {id: web,   http: {url: "https://api.example/", headers: {A: "${A_KEY}"}}, output_schema: {}}
-   id: add
    entrypoint: "tools.a:add"   # adds
    examples: [{args: {a: 1, b: 2}, expected: 3}]
- {id: fail, entrypoint: "tools.a:fail"}
tool_overrides: [{tool_id: web, name_override: "The web"}]
mcp_servers:
  - {id: started, command: no-such-program, args: [server.js]}
  - {id: far, url: "https://far.example/mcp"}
  - {id: given, command: "%s", args: ["%s", "%s"]}""" % (
    sys.executable.encode(),
    str(SERVERS_HERE / "changing.py").encode(),
    str(SERVERS_HERE / "tools.json").encode(),
)
TOOL = b"def fail() -> None:\r\n    raise ValueError\r\ndef add(a: int, b: int) -> int:\r\n    return a+b   "
THEIRS = b'id: theirs\nname: Theirs\nversion: "1"\ntools:\n  - {id: add, entrypoint: "a:add"}\n'
CONFIG = b"""version: 1\r
# a note of ours   \n
workspace:   {durability: fast}
default_role: owner
roles: {owner: {admin: true}, agent: {allow: ["demo.*"]}}
secret_command: [/bin/echo, "{name}"]"""
SERVERS = {"serve": 1, "dev": 2}
"""How many lines they print when they are ready."""

PRINTS_TEXT = {"--diff", "--write-baseline"}
"""Options with which a command prints no JSON."""


def commands(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below a group, and its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*words, name))
        else:
            assert found is not None
            yield " ".join((*words, name)), found


def written_by_people(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return what is checked in, but for what the machine may write there."""
    found = {}
    machines = ("data/", ".git/", "toolsets/state/", "toolsets/locks/")
    for path in root.rglob("*"):
        shown = path.relative_to(root).as_posix()
        if path.is_file() and not shown.startswith(machines):
            found[shown] = stat.S_IMODE(path.stat().st_mode), path.read_bytes()
    return found


def started_and_stopped(root: Path, args: list[str], lines: int) -> tuple[int, str, str]:
    program = [sys.executable, "-m", "covalt_git", *args]
    with subprocess.Popen(program, cwd=root, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        told = "".join(server.stdout.readline() for _ in range(lines))
        server.send_signal(signal.SIGINT)
        return server.wait(), told, ""


def sign_in(root: Path) -> None:
    """Store a sign-in to a server of the project, as if a user had made it."""
    url = "https://far.example/mcp"
    kept = StoredLogin(
        project=str(root),
        toolset_id="demo",
        server_id="far",
        url=url,
        issuer="https://far.example",
        origins=(),
        token_endpoint="https://far.example/token",
        resource=url,
        client_id="1",
        access_token="2",
        signed_in_at="2026-11-24T00:00:00Z",
    )
    SignInFile.of(Name(root, "demo", "far", "c1"), url).write(kept)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    create_project(made)
    demo = made / "toolsets/demo/tools"
    demo.mkdir(parents=True)
    (made / "covalt.yaml").write_bytes(CONFIG)
    (demo.parent / "toolset.yaml").write_bytes(MANIFEST)
    (demo / "a.py").write_bytes(TOOL)
    (demo / "a.py").chmod(0o755)
    (demo.parent / "server.js").write_bytes(b"0")
    (tmp_path / "batch.jsonl").write_text('{"tool": "demo:add", "args": {"a": 1, "b": 2}}\n')
    for name, version in (("theirs", b'"1"'), ("newer", b'"2"')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "toolset.yaml").write_bytes(THEIRS.replace(b'"1"', version))
        (tmp_path / name / "a.py").write_bytes(TOOL)
    git = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    subprocess.run([*git, "add", "-A"], cwd=made, check=True)
    subprocess.run([*git, "commit", "-qm", "all"], cwd=made, check=True)
    return made


def test_every_command_there_is_is_walked() -> None:
    assert sorted(WALK) == sorted(name for name, _ in commands(cli))


@pytest.mark.timeout(300)  # so many commands take a busy machine long
def test_every_command_keeps_what_people_wrote_and_the_keys_of_its_json(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    sign_in(root)
    answers: dict[str, str] = {}
    keys: set[str] = set()
    before = written_by_people(root)
    takes_json = {name for name, found in commands(cli) if "--json" in options(found)}
    for name, lines in WALK.items():
        for line in lines:
            words = shlex.split(line.removeprefix("! "))
            args = [Template(word).safe_substitute(answers) for word in words]
            called = next(
                (" ".join(args[:n]) for n in (3, 2, 1) if " ".join(args[:n]) in WALK), name
            )
            if called in takes_json and not PRINTS_TEXT & set(args):
                args += ["--json"] * ("--json" not in args)
            if name in SERVERS:
                code, out, err = started_and_stopped(root, args, SERVERS[name])
            else:
                done = command.run(*args, cwd=root)
                code, out, err = done.returncode, done.stdout, done.stderr
            assert (line, code) == (line, int(line.startswith("! "))), out + err
            for told in json_values(out) if "--json" in args else ():
                keys |= set(json_keys(told, f"{called}:"))
                if "--json" in words:
                    answers |= {key: value for key, value in told.items() if value}

            after = written_by_people(root)
            asked = None if "--dry-run" in args else ASKED.get(name)
            changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
            assert {path for path in changed if not asked or not path.startswith(asked)} == set()
            assert bool(changed) == bool(asked)
            before = after
    check_names("command_json", keys)


def options(found: click.Command) -> set[str]:
    """Return the options of a command."""
    return {option for parameter in found.params for option in parameter.opts}
