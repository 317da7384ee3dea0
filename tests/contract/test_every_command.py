"""Every command keeps hand-written files byte for byte, and the keys of its ``--json``.

A command that answers as the API (tests/operations/test_contract.py) has the keys of the OpenAPI document.

``validate --fix`` and ``toolset update`` change files when they are asked to; commands that make, import
or remove a toolset touch nothing else.  ``walk.yaml`` has the commands; a new one fails the first
test until it has a line there.
"""

import io
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template

import pytest
import yaml

from covalt_git.cli import cli, main
from covalt_git.connections.definition import Name
from covalt_git.connections.token_store import SignInFile, StoredLogin
from covalt_git.manifests.stored_schemas import SCHEMAS
from covalt_git.runtime.probes import Finding
from covalt_git.serving.server_registry import register
from covalt_git.system.private_files import user_folder
from covalt_git.toolsets.new_project import create_project
from covalt_git.trust import Consents
from tests.command import REPOSITORY, Piped, commands
from tests.contract.json_names import json_keys, json_values
from tests.contract.name_files import check_names
from tests.operation_cases import CASES, OPERATIONS
from tests.trusting import use_config
from tests.workspaces.stores import commit_all

WALK: dict[str, list[str]] = {
    name: [lines] if isinstance(lines, str) else lines
    for name, lines in yaml.load(
        Path(__file__).with_name("walk.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
    ).items()
}
MAY_WRITE = {
    "toolset new": "toolsets/fresh/",
    "bundle import": "toolsets/theirs/",
    "toolset update": "toolsets/theirs/",
    "source add": "toolsets/demo/",
    "source remove": "toolsets/demo/",
    "toolset uninstall": "toolsets/theirs/",
}
"""Where a command writes, unless it is a ``--dry-run``."""

OF_THE_MACHINE = ("data/", ".git/", "toolsets/state/", "toolsets/locks/")
SERVERS = {"serve": 1, "storage serve": 1, "dev": 2}
"""How many lines they print when they are ready."""

AS_THE_API = [
    case["cli"]
    for name, case in CASES.items()
    if "cli" in case and not OPERATIONS[name].local and "refused" not in case
]

PRINTS_TEXT = {"--diff", "--write-baseline"}
"""Options with which a command prints no JSON."""

MANIFEST = f"""\
# written by hand,\tin no order of ours\r
version:   "1"   \r
secrets: [ A_KEY ]
name: 'Demo'
id: demo

tools:
- {{id: web,   http: {{url: "https://api.example/", headers: {{A: "${{A_KEY}}"}}}}, output_schema: {{}}}}
-   id: add
    entrypoint: "tools.a:add"   # adds
    examples: [{{args: {{a: 1, b: 2}}, expected: 3}}]
- {{id: fail, entrypoint: "tools.a:fail"}}
tool_overrides: [{{tool_id: web, name_override: "The web"}}]
mcp_servers:
  - {{id: started, command: no-such-program, args: [server.js]}}
  - {{id: far, url: "https://far.example/mcp"}}
  - id: given
    command: "{sys.executable}"
    args: ["{REPOSITORY}/fixtures/servers/changing.py", "{REPOSITORY}/fixtures/servers/tools.json"]"""
TOOL = "def fail() -> None:\r\n    raise ValueError\r\ndef add(a: int, b: int) -> int:\r\n    return a+b   "
THEIRS = 'id: theirs\nname: Theirs\nversion: "1"\ntools:\n  - {id: add, entrypoint: "a:add"}\n'
ENTRY = """\
{"tool_id": "forecast", "name": "Forecast",
 "protocol_meta": {"http": {"url": "https://api.example/{city}"}}}"""
PETS = """\
{"openapi": "3.0.3", "info": {"title": "Pets", "version": "1"}, "servers": [{"url": "https://pets.example"}],
 "paths": {"/pets": {"get": {"description": "List the pets.", "responses": {}}}}}"""
CONFIG = """version: 1\r
# a comment   \n
workspace:   {durability: fast}
default_role: owner
roles: {owner: {admin: true}, agent: {allow: ["demo.*"]}}
secret_command: [/bin/echo, "{name}"]"""
LOGIN = {
    "toolset_id": "demo",
    "server_id": "far",
    "url": "https://far.example/mcp",
    "issuer": "https://far.example",
    "origins": (),
    "token_endpoint": "https://far.example/token",
    "resource": "https://far.example/mcp",
    "client_id": "1",
    "access_token": "2",
    "signed_in_at": "2026-11-24T00:00:00Z",
}


def hand_written(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return the modes and contents of the files that only users write."""
    contents = {}
    for folder, folders, names in os.walk(root):
        below = "" if folder == str(root) else f"{os.path.relpath(folder, root)}/"
        folders[:] = [name for name in folders if f"{below}{name}/" not in OF_THE_MACHINE]
        for path in (Path(folder, name) for name in names if name != SCHEMAS):
            if path.is_file():
                mode = stat.S_IMODE(path.stat().st_mode)
                contents[f"{below}{path.name}"] = (mode, path.read_bytes())
    return contents


def consents() -> set[Path]:
    """Return the files with what the user has decided about projects."""
    folders = ("trusted", "allowed-commands", "sign-ins")
    return {file for name in folders for file in (user_folder() / name).rglob("*.json")}


def performed(
    root: Path, args: list[str], lines: int, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """Run a command in this process, or a server until it has printed so many lines."""
    if not lines:
        with pytest.raises(SystemExit) as ended:
            main(args)
        assert isinstance(ended.value.code, int)
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err
    server = Piped(*args, cwd=root)
    printed = "".join(server.stdout.readline() for _ in range(lines))
    server.interrupt()
    done = server.end()
    return done.returncode, printed, done.stderr


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with files as only users write them, which is served; its user is signed in to a server."""
    use_config(monkeypatch, tmp_path / "config")
    root = tmp_path / "project"
    create_project(root)
    files = {
        "project/covalt.yaml": CONFIG,
        "project/toolsets/demo/toolset.yaml": MANIFEST,
        "project/toolsets/demo/tools/a.py": TOOL,
        "project/toolsets/demo/server.js": "0",
        "theirs/toolset.yaml": THEIRS,
        "theirs/a.py": TOOL,
        "newer/toolset.yaml": THEIRS.replace('"1"', '"2"'),
        "newer/a.py": TOOL,
        "entry.json": ENTRY,
        "pets.json": PETS,
        "script.py": "tools.demo.add(a=1, b=2)\n",
        "waiting.py": "tools.app_builder.run_command(command='true')\n",
        "batch.jsonl": '{"tool": "demo:add", "args": {"a": 1, "b": 2}}\n',
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text.encode())
    (root / "toolsets/demo/tools/a.py").chmod(0o755)
    commit_all(root)
    login = StoredLogin.model_validate(Consents.of(root).identify() | LOGIN)
    SignInFile.of(Name(root, "demo", "far", "c1"), login.url).write(login)
    with register(root, "http://127.0.0.1:8787"):
        yield root


def test_every_command_is_walked() -> None:
    assert sorted(WALK) == sorted(name for name, _ in commands(cli))


@pytest.mark.timeout(300)  # 150 commands take a busy machine long
def test_every_command_keeps_hand_written_files_and_the_keys_of_its_json(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    # The value that `secret set` reads.
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a-long-value")))
    answers: dict[str, str] = {}
    keys = {f"doctor:.probes[].{field}" for field in Finding._fields}
    before = hand_written(root)
    takes_json = {
        name
        for name, found in commands(cli)
        if any("--json" in parameter.opts for parameter in found.params)
    }
    for name, line in ((name, line) for name, lines in WALK.items() for line in lines):
        words = shlex.split(re.sub(r"^!4? ", "", line))
        args = [Template(word).safe_substitute(answers) for word in words]
        called = next((one for n in (3, 2, 1) if (one := " ".join(args[:n])) in WALK), name)
        if called in takes_json and not {"--json", *PRINTS_TEXT} & {*args}:
            args += ["--json"]
        given = consents()
        code, out, err = performed(root, args, SERVERS.get(name, 0), capsys)
        # See tests/security/test_decisions_need_a_user.py; a new project is its user's.
        may_decide = "--no-terminal" in args or name == "init"
        assert may_decide or consents() <= given, f"{line} gave a consent without a user"
        assert (line, code) == (line, {"! ": 1, "!4": 4}.get(line[:2], 0)), out + err
        is_api = any(f"{one} ".startswith(f"{called} ") for one in AS_THE_API)
        for answer in json_values(out) if "--json" in args else ():
            keys |= set() if is_api else {*json_keys(answer, f"{called}:")}
            if "--json" in words:
                answers |= {key: value for key, value in answer.items() if value}

        after = hand_written(root)
        below = None if "--dry-run" in args else MAY_WRITE.get(name)
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        assert [path for path in changed if not below or not path.startswith(below)] == [], line
        assert bool(changed) == bool(below), line
        before = after
    check_names("command_json", keys)
