"""A project in which every operation has something to do, and its faces."""

import json
import re
import shutil
import sys
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from covalt_git.operations import toolset_imports
from covalt_git.operations.context import Context
from covalt_git.operations.credentials import tokens
from covalt_git.project import Project
from tests.api_client import Api, configure, make_project
from tests.copied import copied
from tests.operations_client import Operations
from tests.trusting import use_config
from tests.workspaces.stores import commit_all, git

CONFIG = """\
default_role: admin
roles:
  admin: {admin: true}
  guest: {allow: ["data-lab.*", "workspace.branch"]}
approvals:
  - {pattern: "app-builder.edit_file", require: true}
secret_command: [/bin/echo, "{name}"]
"""
SERVERS = Path(__file__).parents[2] / "fixtures/servers"
PETS = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://pets.example"}],
    "paths": {"/pets": {"get": {"description": "List the pets.", "responses": {}}}},
}
DEMO = f"""\
id: demo
name: Demo
version: "1"
secrets: [A_KEY]
tools:
  - {{id: web, http: {{url: "https://api.example/", headers: {{A: "${{A_KEY}}"}}}}, examples: [{{}}]}}
mcp_servers:
  - {{id: started, command: python, args: [server.py], env: {{KEY: "${{A_KEY}}"}}}}
  - {{id: far, url: "https://far.example/mcp"}}
  - {{id: given, command: {sys.executable}, args: [{SERVERS / "changing.py"}, {SERVERS / "tools.json"}]}}
"""
ENTRY = {
    "tool_id": "forecast",
    "name": "Forecast",
    "protocol_meta": {"http": {"url": "https://api.example/{city}"}},
}
THEIRS = 'id: theirs\nname: Theirs\nversion: "1"\ntools:\n  - {id: add, entrypoint: "a:add"}\n'
_CHANGING = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)|[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b"
)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The project, not to be changed, and the ids in it by their names in ``cases.yaml``."""
    root = make_project(tmp_path_factory.mktemp("operations") / "project")
    configure(root, CONFIG)
    (root / "toolsets/demo").mkdir()
    (root / "toolsets/demo/toolset.yaml").write_text(DEMO, encoding="utf-8")
    _import_theirs(root)
    commit_all(root)
    git(root, "gc", "-q")  # a copy takes half the time
    api = Api.of(root)
    (root / "demo.zip").write_bytes(api.ask("export_toolset", toolset_id="demo").get_data())
    for kind, name, hosts in (("network", None, ["api.example"]), ("process", "given", [])):
        api.post("add_grant", toolset_id="demo", kind=kind, name=name, hosts=hosts)
    api.post("refresh_source", toolset_id="demo", namespace="given")
    (root / "toolsets/locks/left.yaml").write_text(
        "version: 1\nkind: mcp\nnamespace: left\ntoolset_id: gone\n"
    )
    pets = {"name": "pets.json", "files": {"pets.json": json.dumps(PETS)}}
    api.post("add_source", toolset_id="demo", namespace="pets", document=pets)
    api.post("create_chat", chat_id="c1", title="First")
    api.post("register_tool", entry=ENTRY)
    message = api.post("add_message", chat_id="c1", role="user", text="hello")["message_id"]
    call = api.write("a.txt", "one\n")["id"]
    for branch, content in (("idea", "idea\n"), ("gone", "gone\n")):
        api.post("create_branch", chat_id="c1", name=branch)
        api.post("switch_branch", chat_id="c1", branch=branch)
        api.write("a.txt", content)
        api.post("switch_branch", chat_id="c1", branch="main")
    api.post("delete_branch", chat_id="c1", branch="gone", force=True)
    api.write("b.txt", "two\n")
    head = api.get("get_chat", chat_id="c1")["active_manifest_id"]
    _leave_a_conflict(api)
    api.post("create_chat", chat_id="c3", title="Third")
    source = "tools.app_builder.write_file(path='a.txt', content='one\\n')"
    script = call_in(api, "c3", "workspace:run_script", script=source)["id"]
    pending = call_in(api, "c3", "app-builder:edit_file", path="a.txt", old="one", new="two")
    folder = root.parent / "files"
    folder.mkdir()
    (folder / "forecast.json").write_text(json.dumps({**ENTRY, "name": "Newer"}))
    (folder / "entry.json").write_text('{"tool_id": "other", "name": "Other"}')
    (folder / "script.py").write_text("args", encoding="utf-8")
    (folder / "new.csv").write_text("a,b\n")
    (folder / "pets.json").write_text(json.dumps(PETS), encoding="utf-8")
    (folder / ".mcp.json").write_text('{"mcpServers": {"disk": {"command": "npx"}}}')
    (folder / "c1.bundle").write_bytes(api.ask("export_chat", chat_id="c1").get_data())
    ids = {"message": message, "call": call, "head": head, "folder": str(folder)}
    ids |= {"approval": pending["execution_id"], "script": script}
    lab = sha256((root / "toolsets/data-lab/tools/lab.py").read_bytes()).hexdigest()
    config = sha256((root / "covalt.yaml").read_bytes()).hexdigest()
    return root, ids | {"b": api.files()["b.txt"]["oid"], "lab": lab, "config": config}


def call_in(api: Api, chat_id: str, tool_id: str, **args: str) -> Any:
    return api.post("call_tool", chat_id=chat_id, tool_id=tool_id, args=args)


def _import_theirs(root: Path) -> None:
    """Import a toolset of which there is a newer version now, and add another one."""
    folder = root / "theirs"
    folder.mkdir()
    (folder / "a.py").write_text("def add() -> int:\n    return 1\n", encoding="utf-8")
    (folder / "toolset.yaml").write_text(THEIRS, encoding="utf-8")
    with Context(root, partial(Project.open, root)) as context:
        toolset_imports.import_toolset_from(context, source=str(folder))
        tokens.create_token(context, role="guest", name="reader")
    shutil.copytree(folder, root / "other")
    (root / "other/toolset.yaml").write_text(THEIRS.replace("theirs", "other"), encoding="utf-8")
    shutil.make_archive(str(root / "other"), "zip", root / "other")
    (folder / "toolset.yaml").write_text(THEIRS.replace('"1"', '"2"'), encoding="utf-8")


def _leave_a_conflict(api: Api) -> None:
    """Merge two branches of the chat c2, so that both versions of a file stay."""

    def write(content: str) -> None:
        call_in(api, "c2", "app-builder:write_file", path="x.txt", content=content)

    api.post("create_chat", chat_id="c2", title="Second")
    write("base\n")
    api.post("create_branch", chat_id="c2", name="other")
    write("ours\n")
    api.post("switch_branch", chat_id="c2", branch="other")
    write("theirs\n")
    api.post("switch_branch", chat_id="c2", branch="main")
    api.post("merge_branch", chat_id="c2", branch="other", conflicts="both")


@pytest.fixture
def ids(template: tuple[Path, dict[str, str]]) -> dict[str, str]:
    return template[1]


@pytest.fixture(autouse=True)
def _user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a user who has stored nothing."""
    use_config(monkeypatch, tmp_path / "config")
    monkeypatch.setenv("A_KEY", "value-of-a-key")


@pytest.fixture
def root(template: tuple[Path, dict[str, str]], tmp_path: Path) -> Path:
    """A copy of the project."""
    return copied(template[0], tmp_path / "project")


@pytest.fixture
def new(operate: Operations) -> Operations:
    """Operations on a project with a chat ``new`` in which nothing has happened."""
    operate("create_chat", chat_id="new", title="Plans")
    return operate


def add_message(operate: Operations, text: str | None, **how: Any) -> str:
    """Add a message to the chat ``new`` and return its id."""
    return str(operate("add_message", chat_id="new", text=text, **how)["message_id"])


def comparable(answer: str, root: Path) -> Any:
    """Return a JSON answer in which ids, times and commits are numbered as they appear."""
    seen: dict[str, str] = {}
    text = answer.replace(str(root), "ROOT")
    return json.loads(
        _CHANGING.sub(lambda found: seen.setdefault(found[0], f"<{len(seen)}>"), text)
    )
