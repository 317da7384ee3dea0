import json
import os
import shlex
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from covalt_git.access.grants import Granted
from covalt_git.access.loaded_code import Places, code_words, refusals
from covalt_git.connections.definition import Definition
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError
from covalt_git.http_tools.secret_lookup import Lookup
from covalt_git.models.sources.server_definition import grant_facts, references_of
from covalt_git.models.toolset_state import ProcessGrant, ProgramSandbox
from covalt_git.runtime import mcp_servers
from covalt_git.toolsets.toolset import read_toolset
from tests.examples import first_of
from tests.tables import tables

TABLES = tables(__file__)

MANIFEST = """
id: far
name: Far
version: "1"
secrets: [KEY]
mcp_servers:
  - {id: web, url: "https://far.example/mcp", headers: {X-Key: "${KEY:-}", X-Place: "${env:PLACE}"}}
  - {id: program, command: npx, env: {KEY: "${KEY:-}", MODE: "", LEVEL: "a${KEY:-}"}}
"""


def test_an_optional_variable_or_header_that_is_not_set_is_left_out(root: Path) -> None:
    (root / "toolsets/far").mkdir()
    (root / "toolsets/far/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    toolset = read_toolset(root, "far")
    assert toolset.manifest is not None
    web, program = (
        mcp_servers.definition(
            toolset,
            server,
            root=root,
            workspace=root / "workspace",
            chat_id="c1",
            may=Granted("far"),
            lookup=Lookup(frozenset({"KEY", "PLACE"}), SecretStore({"PLACE": "p"})),
        )
        for server in toolset.manifest.mcp_servers
    )

    assert web.headers == {"X-Place": "p"}
    assert program.env == {"MODE": "", "LEVEL": "a"}
    assert toolset.problems == ()


PROGRAM = "/usr/bin/python3"
FIELDS: dict[str, dict[str, Any]] = {
    # the text of each field, where "@" is the spelling of a path
    "command": {"command": "@"},
    "script": {"command": PROGRAM, "args": ["@", "x"]},
    "module folder": {"command": "uv", "args": ["--directory", "@", "run", "server.py"]},
    "code": {"command": "/bin/sh", "args": ["-c", "exec python3 '@'"]},
    "argument": {"command": PROGRAM, "args": ["/opt/server.py", "@"]},
    "argument of a module": {"command": PROGRAM, "args": ["-m", "json", "@"]},
    "PYTHONPATH": {"command": PROGRAM, "args": ["-m", "json"], "env": {"PYTHONPATH": "@"}},
    "MEMORY_FILE": {"command": PROGRAM, "args": ["-m", "json"], "env": {"MEMORY_FILE": "@"}},
    "cwd": {"command": PROGRAM, "args": ["-m", "json"], "cwd": "@"},
}
PLACES = {
    "project": "mcp",
    "toolset": "toolsets/far/lib",
    "workspace": "data/workspace",
    "data": "data",
    "link": "../link/mcp",
}
SPELLINGS = {
    "absolute": "{root}/{place}/x.py",
    "variable": "${{PWD}}/{place}/x.py",
    "list": "/opt:{root}/{place}/x.py",
    "option": "--x={root}/{place}/x.py",
    "dots": "{root}/toolsets/../{place}/x.py",
}


def expected(field: str, place: str, *, sandboxed: bool) -> str:
    """Return the code of the error, or nothing if the server is started."""
    if place == "toolset":
        return ""  # of the copy
    place = "workspace" if place == "workspace" else "project"
    is_data = field in {"argument", "argument of a module", "MEMORY_FILE"}
    if is_data and sandboxed:
        return ""
    return f"server_in_{place}"


def is_row(field: str, place: str, spelling: str) -> bool:
    """Return whether a spelling is a path in a field, and not the same as that of another row."""
    if field in {"command", "cwd"} and spelling in {"list", "option"}:
        return False
    # Only a text that is nothing but a path is replaced if it has `..`.
    if (field, place, spelling) == ("code", "toolset", "dots"):
        return False
    is_workspace = (spelling == "$workspace", place == "workspace")
    return spelling not in {"$workspace", "dots"} or is_workspace[0] == is_workspace[1]


@pytest.mark.parametrize(
    ("sandboxed", "field", "place", "spelling"),
    first_of(
        (
            row
            for row in product([True, False], FIELDS, PLACES, [*SPELLINGS, "$workspace"])
            if is_row(*row[1:])
        ),
        (0, 1, 2),
        (1, 3),
        (2, 3),
    ),
)
def test_no_code_of_the_project_or_the_workspace_is_loaded(
    root: Path, monkeypatch: pytest.MonkeyPatch, field: str, place: str, spelling: str, *, sandboxed: bool
) -> None:  # fmt: skip
    monkeypatch.setenv("PWD", str(root))
    monkeypatch.chdir(root)
    (root.parent / "link").symlink_to(root)
    for inner in (*PLACES.values(), "data/workspace/sub"):
        (root / inner).mkdir(parents=True, exist_ok=True)
        (root / inner / "x.py").write_text("print(1)")
        (root / inner / "x.py").chmod(0o755)
    text = "$workspace/x.py"
    if spelling != "$workspace":
        text = SPELLINGS[spelling].format(root=root, place=PLACES[place])
    if field == "cwd":
        text = text.removesuffix("/x.py")
    declared = json.loads(json.dumps(FIELDS[field]).replace("@", text))
    code = ""
    try:
        launched = defined(root, declared, sandboxed=sandboxed)
    except CovaltError as error:
        code = error.code
    else:
        texts = [*launched.argv, *launched.env.values(), str(launched.cwd)]
        copy = str(launched.toolset.folder) if launched.toolset else "no copy"
        assert (place == "toolset") == any(f"{copy}/lib" in item for item in texts)

    assert code == expected(field, place, sandboxed=sandboxed)


def defined(root: Path, declared: dict[str, Any], *, sandboxed: bool) -> Definition:
    """Return the definition of a server with such a grant."""
    (root / "toolsets/far").mkdir(exist_ok=True)
    server = json.dumps({"id": "far", **declared})
    text = f"id: far\nname: Far\nversion: '1'\nmcp_servers: [{server}]\n"
    (root / "toolsets/far/toolset.yaml").write_text(text, encoding="utf-8")
    toolset = read_toolset(root, "far")
    assert toolset.manifest is not None
    (server_of,) = toolset.manifest.mcp_servers
    facts = grant_facts(server_of, toolset.files.hashes)
    sandbox = ProgramSandbox(folders=(f"{root}:rw",)) if sandboxed else "none"
    grant = ProcessGrant(
        **facts, granted_at="2026-01-01T00:00:00Z", granted_by="me", sandbox=sandbox
    )
    names = frozenset(reference.name for reference in references_of(server_of))
    return mcp_servers.definition(
        toolset,
        server_of,
        root=root,
        workspace=root / "data/workspace",
        chat_id="c1",
        may=Granted("far", servers=(grant,)),
        lookup=Lookup(names, SecretStore(os.environ)),
    )


@pytest.mark.parametrize(
    ("argv", "last"),
    [
        ("npx -y @modelcontextprotocol/server-filesystem WORKSPACE", 2),
        ("npx --package tool tool WORKSPACE", 3),
        ("npm run start --prefix WORKSPACE", 4),
        ("uv --directory DIR run --with mcp mcp run FILE x", 7),
        ("uvx --from PKG tool WORKSPACE", 3),
        ("env -u A B=c python3.12 -X dev -u FILE x", 7),
        ("python -Wm x FILE WORKSPACE", 2),
        ("python -m mcp run FILE x", 4),
        ("node --require FILE server.js WORKSPACE", 3),
        ("bash -lc CODE x", 2),
        ("timeout 5s node server.js WORKSPACE", 3),
        ("server --directory WORKSPACE", 0),
    ],
)
def test_the_words_before_the_arguments_of_a_script_are_code(argv: str, last: int) -> None:
    words = argv.split()
    code = code_words(words)
    assert last in code
    assert len(words) - 1 == last or len(words) - 1 not in code or words[-1] != "x"


@pytest.mark.parametrize("command", TABLES["commands_that_load_code"])
def test_code_of_the_workspace_is_refused_in_the_sandbox_too(tmp_path: Path, command: str) -> None:
    workspace = tmp_path / "project/data/chats/c1/workspace"
    places = Places(tmp_path / "project", tmp_path / "copy", workspace, tmp_path / "empty")
    argv = shlex.split(command.replace("W", str(workspace)))
    assert [*refusals(argv, {}, places, sandboxed=True)]


def test_without_a_sandbox_on_the_machine_the_workspace_is_data(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "data/workspace").mkdir(parents=True)
    declared = {"command": PROGRAM, "args": ["/opt/server.py", "$workspace"]}
    with pytest.raises(CovaltError, match="tools write there"):
        defined(root, declared, sandboxed=False)

    monkeypatch.setattr("covalt_git.runtime.sandbox_levels.level", lambda: "process")
    assert defined(root, declared, sandboxed=False).argv[-1].endswith("data/workspace")
    declared["args"] = ["$workspace/server.py"]
    with pytest.raises(CovaltError, match="the program loads code from it"):
        defined(root, declared, sandboxed=False)


@pytest.mark.parametrize("entry", ["server.py", "server", "lib"])
def test_a_file_that_only_a_variable_names_is_not_covered_by_the_grant(
    root: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    (root / "toolsets/far").mkdir()
    (root / "toolsets/far/server.py").write_text("print(1)")
    monkeypatch.setenv("ENTRY", f"{root}/toolsets/far/{entry}")
    with pytest.raises(CovaltError) as caught:
        defined(root, {"command": PROGRAM, "args": ["${ENTRY}"]}, sandboxed=False)
    assert caught.value.code == "server_not_covered"

    declared = {"command": PROGRAM, "args": ["-m", "x"], "env": {"PYTHONPATH": "$toolset"}}
    assert defined(root, declared, sandboxed=False).toolset is not None


def test_a_server_starts_in_its_toolset_only(root: Path) -> None:
    for folder in (root.parent, "..", "/srv"):
        with pytest.raises(CovaltError) as caught:
            defined(root, {"command": PROGRAM, "cwd": str(folder)}, sandboxed=True)
        assert caught.value.code == "server_folder"


@pytest.mark.parametrize(
    ("server", "hint"),
    [
        (
            {"command": PROGRAM, "args": ["servr.py"]},
            "the toolset has no file 'servr.py', and paths are relative to the toolset: write $toolset/server.py",
        ),
        (
            {"command": "./server.py"},
            (
                "'./server.py' is not found, because the server starts in another folder: "
                "write command: python3, and args: [$toolset/server.py]"
            ),
        ),
        ({"command": PROGRAM, "args": ["server.py", "report.py"]}, ""),
        ({"command": "uv", "args": ["--directory", "/srv/a", "run", "a.py"]}, ""),
        ({"command": "uv", "args": ["run", "--directory", "$toolset", "server.py"]}, ""),
        ({"command": "npm", "args": ["--prefix", "/srv/p", "run", "start.js"]}, ""),
        (
            {"command": "uv", "args": ["run", "--directory", "./far", "server.py"]},
            "the toolset has no file './far/server.py', and paths are relative to the toolset: write $toolset/server.py",
        ),
    ],
)
def test_a_server_whose_script_is_no_file_of_its_toolset_says_so_if_its_start_fails(
    root: Path, server: dict[str, Any], hint: str
) -> None:
    (root / "toolsets/far").mkdir()
    (root / "toolsets/far/server.py").write_text("print(1)")

    assert defined(root, server, sandboxed=True).hint == hint
