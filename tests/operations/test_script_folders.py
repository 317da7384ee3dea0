"""Imports that also grant the folders of the scripts of MCP servers, over the API and the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from covalt_git.cli import cli
from covalt_git.runtime import sandbox_levels
from tests.api_client import Api, form_file, refused

pytestmark = pytest.mark.skipif(
    sandbox_levels.level() == "process", reason="imported toolsets need a sandbox"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The configuration of a server whose script ends at once."""
    script = tmp_path / "my tools/weather.py"
    script.parent.mkdir()
    script.touch()
    servers = {"weather": {"command": "python3", "args": [str(script)]}}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


def run(root: Path, *args: str | Path) -> Any:
    return CliRunner().invoke(cli, ["-C", str(root), "bundle", "import", *map(str, args)])


def send(root: Path, file: Path, **fields: Any) -> Any:
    return Api.of(root).send_form(
        "import_toolset", {"file": form_file(file.name, file.read_bytes()), **fields}
    )


def folders_of(root: Path) -> list[str]:
    toolset = Api.of(root).get("get_toolset", toolset_id="mcp")
    return list(toolset["grants"]["process-weather"]["sandbox"].get("folders", ()))


def test_the_command_asks_about_the_grant_with_the_folder_and_adds_exactly_that(
    root: Path, file: Path
) -> None:
    folder = file.parent / "my tools"
    dry = run(root, file, "--dry-run").output
    assert f"which the sandbox shows only with a grant of {folder}" in dry
    output = run(root, file, "--trust", "--script-folders", "--no-terminal", "test").output
    assert f"in the sandbox with the folder '{folder}'" in output
    assert f"weather reads {folder}" in output
    assert folders_of(root) == [str(folder)]


@pytest.mark.rest
def test_trust_without_the_option_grants_no_folder_and_names_the_option(
    root: Path, file: Path
) -> None:
    output = run(root, file, "--trust", "--no-terminal", "test").output
    assert "--script-folders also grants these folders" in output
    assert folders_of(root) == []
    assert run(root, file, "--script-folders").exit_code == 2


def test_an_import_without_grants_ends_with_the_command_that_grants_the_folder(
    root: Path, file: Path
) -> None:
    output = run(root, file).output
    folder = file.parent / "my tools"
    assert f"covalt-git grant add mcp server weather --folder '{folder}'" in output


def test_the_api_grants_the_folders_of_the_named_servers_or_imports_nothing(
    root: Path, file: Path
) -> None:
    preview = send(root, file, dry_run="true").get_json()
    (row,) = preview["script_folders"]
    assert (row["server"], row["folders"]) == ("weather", [str(file.parent / "my tools")])
    digest = preview["digest"]
    refused(send(root, file, trust=digest, script_folders="other"), 400, "invalid_request")
    refused(send(root, file, script_folders="weather"), 400, "invalid_request")
    assert not (root / "toolsets/mcp").exists()

    permissions = [permission["digest"] for permission in row["permissions"]]
    reviewed = {"trust": digest, "permissions": permissions, "script_folders": "weather"}
    assert send(root, file, **reviewed).get_json()["trusted"] is True
    assert folders_of(root) == row["folders"]
