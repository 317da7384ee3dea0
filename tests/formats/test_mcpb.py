"""Bundles are imported with their files; settings have their defaults, and only sensitive ones are secrets."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from covalt_git.bundles.archive_reader import unpack
from covalt_git.formats import recognition
from covalt_git.formats.table import TOOLSET
from covalt_git.installs.pending_imports import Bundle
from covalt_git.operations.formats.conversions import converted_upload
from tests.formats import laws
from tests.operations_client import Operations

MANIFEST: dict[str, Any] = {
    "manifest_version": "0.3",
    "name": "harbor-mcp",
    "version": "1.2.0",
    "description": "Read berths.",
    "author": {"name": "Ann"},
    "server": {
        "type": "binary",
        "entry_point": "server/run",
        "mcp_config": {
            "command": "${__dirname}/server/run",
            "args": [
                "--verbose=${user_config.verbose}",
                "--config=${user_config.config_file}",
                "${user_config.folders}",
                "${user_config.place}",
                "${HOME}${/}notes",
            ],
            "env": {
                "API_KEY": "${user_config.api_key}",
                "SIGNING_KEY": "${user_config.signing_key}",
                "LIMIT": "${user_config.limit}",
                "PYTHONPATH": "${__dirname}/server/lib",
            },
        },
    },
    "user_config": {
        "verbose": {"type": "boolean", "title": "Verbose", "default": False},
        "config_file": {"type": "file", "title": "File"},
        "folders": {
            "type": "directory",
            "title": "Folders",
            "multiple": True,
            "required": True,
            "default": ["${HOME}/Desktop", "${DOCUMENTS}"],
        },
        "place": {"type": "string", "title": "Place", "required": True},
        "api_key": {"type": "string", "title": "Key", "sensitive": True, "required": True},
        "signing_key": {"type": "string", "title": "Key", "sensitive": True},
        "limit": {"type": "number", "title": "Limit", "default": 10, "min": 1},
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "harbor"
    (folder / "server/__pycache__").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    (folder / "server/run").write_text("#!/bin/sh\n")
    (folder / "server/run").chmod(0o755)
    (folder / "server/help.txt").write_text("help")
    (folder / "server/__pycache__/a.cpython-311.pyc").write_bytes(b"cache")
    return folder


def packed(folder: Path, name: str, after: bytes = b"") -> Path:
    path = folder.parent / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for file in sorted(one for one in folder.rglob("*") if one.is_file()):
            bundle.write(file, file.relative_to(folder))
    path.write_bytes(path.read_bytes() + after)
    return path


def test_a_list_without_values_is_no_argument() -> None:
    config = {"command": "x", "args": ["--all", "--d", "${user_config.dirs}", "--last"]}
    manifest = {
        **MANIFEST,
        "server": {"type": "binary", "entry_point": "x", "mcp_config": config},
        "user_config": {"dirs": {"type": "directory", "title": "Dirs", "multiple": True}},
    }
    done = laws.converted(laws.as_json(manifest), recognition.find_format("mcpb"), TOOLSET)
    (server,) = yaml.safe_load(done.files["toolset.yaml"])["mcp_servers"]

    assert server["args"] == ["--all", "--last"]


SIGNATURE = b"MCPB_SIG_V1\4\0\0\0abcdMCPB_SIG_END"


@pytest.mark.parametrize("form", ["folder", "harbor.mcpb", "harbor.dxt", "signed"])
def test_a_bundle_becomes_a_toolset_with_its_files(
    operate: Operations, folder: Path, tmp_path: Path, form: str
) -> None:
    source = folder
    if form != "folder":
        name = "harbor.mcpb" if form == "signed" else form
        source = packed(folder, name, SIGNATURE if form == "signed" else b"")
    made = tmp_path / "made"
    done = operate("convert_file", path=source, target_format="toolset", output=made)
    manifest = yaml.safe_load((made / "toolset.yaml").read_text())
    (server,) = manifest["mcp_servers"]

    assert done["lost"] == []
    files = sorted(str(one.relative_to(made)) for one in made.rglob("*") if one.is_file())
    assert files == ["server/help.txt", "server/run", "toolset.yaml"]
    assert (made / "server/run").stat().st_mode & 0o111
    assert not (made / "server/help.txt").stat().st_mode & 0o111
    assert server["command"] == "$toolset/server/run"
    places = ["${env:HOME}/Desktop", "${env:HOME}/Documents"]
    assert server["args"] == [
        "--verbose=false",
        *places,
        "${env:HARBOR_PLACE}",
        "${env:HOME}/notes",
    ]
    assert server["env"] == {
        "API_KEY": "${API_KEY}",
        "SIGNING_KEY": "${SIGNING_KEY:-}",
        "LIMIT": "10",
        "PYTHONPATH": "$toolset/server/lib",
    }
    assert manifest["secrets"] == ["API_KEY", "SIGNING_KEY"]
    assert [one["pointer"] for one in done["notes"]] == ["/server/mcp_config/args/1"]


def test_a_bundle_is_imported(operate: Operations, folder: Path) -> None:
    found = operate("import_toolset_from", source=str(packed(folder, "harbor.mcpb")))

    assert found["toolset_id"] == "harbor-mcp"
    assert (operate.root / "toolsets/harbor-mcp/server/run").stat().st_mode & 0o111


def test_a_bundle_with_another_hash_is_not_imported(operate: Operations, folder: Path) -> None:
    file = packed(folder, "harbor.mcpb")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    error = operate.error("import_toolset_from", source=str(file), sha256="0" * 64)
    of_folder = operate.error("import_toolset_from", source=str(folder), sha256=digest)

    assert error.message.startswith(f"the SHA-256 of 'harbor.mcpb' is {digest}, not 000")
    assert "is a folder" in of_folder.message
    assert not (operate.root / "toolsets/harbor-mcp").exists()
    done = operate("import_toolset_from", source=str(file), sha256=digest.upper())
    assert done["toolset_id"] == "harbor-mcp"


def test_an_uploaded_or_downloaded_bundle_is_converted(folder: Path) -> None:
    content = packed(folder, "harbor.mcpb").read_bytes()
    found = converted_upload(Bundle(content, "harbor.mcpb", "url", "https://a.example"), None)

    assert {one.path: one.executable for one in unpack(found.content, "t")} == {
        "server/help.txt": False,
        "server/run": True,
        "toolset.yaml": False,
    }


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("node", ["node", "$toolset/a.js"]),
        ("python", ["python3", "$toolset/a.js"]),
        ("binary", ["$toolset/a.js"]),
    ],
)
def test_a_manifest_without_a_command_has_that_of_its_type(kind: str, words: list[str]) -> None:
    value = {**MANIFEST, "server": {"type": kind, "entry_point": "a.js"}}
    mcpb = recognition.find_format("mcpb")
    done = laws.converted(laws.as_json(value), mcpb, TOOLSET, "manifest.json")
    (server,) = yaml.safe_load(done.files["toolset.yaml"])["mcp_servers"]

    assert [server["command"], *server.get("args", [])] == words


def test_a_bundle_for_uv_gets_the_packages_of_its_project(
    operate: Operations, folder: Path, tmp_path: Path
) -> None:
    server = {"type": "uv", "entry_point": "src/server.py"}
    (folder / "manifest.json").write_text(json.dumps({**MANIFEST, "server": server}))
    project = '[project]\nname = "a"\nrequires-python = ">=3.11"\ndependencies = ["mcp>=1.2"]\n'
    (folder / "pyproject.toml").write_text(project)
    made = tmp_path / "made"
    operate("convert_file", path=folder, target_format="toolset", output=made)

    (found,) = yaml.safe_load((made / "toolset.yaml").read_text())["mcp_servers"]
    words = ["run", "--no-project", "--python", ">=3.11", "--with", "mcp>=1.2"]
    assert (found["command"], found["args"]) == ("uv", [*words, "$toolset/src/server.py"])


@pytest.mark.parametrize(
    ("server", "missing"),
    [
        ({"type": "node", "entry_point": "server/a.js"}, ["server/a.js"]),
        ({"type": "uv", "entry_point": "src/a.py"}, ["src/a.py", "pyproject.toml"]),
        (
            {"mcp_config": {"command": "${__dirname}/a", "args": ["${__dirname}/lib"]}},
            ["a', 'lib"],
        ),
        ({"mcp_config": {"command": "node", "args": ["--here=${__dirname}"]}}, []),
    ],
)
def test_files_that_a_manifest_alone_does_not_have_are_noted(
    server: dict[str, Any], missing: list[str]
) -> None:
    content = laws.as_json({**MANIFEST, "server": server})
    done = laws.converted(content, recognition.find_format("mcpb"), TOOLSET, "manifest.json")
    notes = [note.message for note in done.notes if note.pointer == "/server"]

    assert [message.partition(":")[0] for message in notes] == [
        f"the input does not have '{name}'" for name in missing
    ]


@pytest.mark.parametrize("key", ["platform_overrides", "platforms"])
def test_what_starts_on_another_platform_is_noted_and_comes_back(key: str) -> None:
    overrides = {"win32": {"command": "${__dirname}/a.exe", "args": ["-w"]}, "linux": {}}
    config = {"command": "${__dirname}/a", "args": [], key: overrides}
    manifest = {**MANIFEST, "server": {"type": "binary", "mcp_config": config}}
    source = recognition.find_format("mcpb")
    done = laws.converted(laws.as_json(manifest), source, TOOLSET, "manifest.json")
    (note,) = [note for note in done.notes if note.pointer.endswith("/win32")]
    again = laws.converted(done.files["toolset.yaml"], TOOLSET, source, "toolset.yaml")
    (written,) = again.files.values()

    assert note.message.startswith("no toolset has another command and args on win32")
    assert [note.pointer for note in done.notes if key in note.pointer] == [
        f"/server/mcp_config/{key}/win32"
    ]
    assert json.loads(written)["server"] == manifest["server"]


def test_the_note_of_a_default_of_a_sensitive_setting_names_the_secret_that_the_server_gets() -> (
    None
):
    config = {"command": "x", "args": [], "env": {"T": "${user_config.tok}"}}
    setting = {"type": "string", "sensitive": True, "default": "Zq8vN3kT7wLp2RxB5mYcZr4hJ6sD1g"}
    manifest = {
        **MANIFEST,
        "server": {"type": "binary", "mcp_config": config},
        "user_config": {"tok": setting},
    }
    source = recognition.find_format("mcpb")
    (note,) = laws.converted(laws.as_json(manifest), source, TOOLSET, "manifest.json").notes

    assert note.secret == "TOK"


def test_a_bundle_that_is_no_archive_is_named_so(operate: Operations, tmp_path: Path) -> None:
    for name in ("x.mcpb", "x.dxt", "x.zip"):
        (tmp_path / name).write_text("hello")
        error = operate.error("convert_file", path=tmp_path / name, target_format="toolset")
        assert "is not a ZIP archive" in error.message
