"""Exports with placeholders: no credential leaves, and the copy validates and is imported again."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from covalt_git.cli import cli
from tests.api_client import Api, form_file, refused

TOKEN = "ghp_" + "a8Kd02mZq7Lw5RtYb3Nx9VcUe1Sg4HfJoPiT"
OTHER = "ghp_" + "Zq7Lw5RtYb3Nx9VcUe1Sg4HfJoPiTa8Kd02m"
PLAIN = "8f3kD02nVq7RzLm5XwTc1sYb"
OURS = "value-of-a-key-of-this-machine"

PLAIN_TEXT = f"""\
id: far
name: Far   # a comment that stays
version: "1"
mcp_servers:
  - id: web
    url: https://far.example/mcp
    headers:
      Authorization: "Bearer {TOKEN}"
"""
FLOW = f"""\
id: far
name: Far
version: "1"
secrets: [OLD, MCP_SERVERS_WEB_ENV_KEY]
mcp_servers:
  - {{id: web, command: npx, args: [--token, {PLAIN}], env: {{KEY: {TOKEN}, MORE: "{OTHER} {TOKEN}", OLD: "${{OLD}}"}}}}
  - {{id: far, url: "https://far.example/mcp", headers: {{X: Bearer {TOKEN}, Y: {OURS}}}}}
tools:
  - {{id: get, http: {{url: "https://far.example/", headers: {{A: "{OTHER}"}}}}}}
"""
NAMES = [
    ("MCP_SERVERS_WEB_ARGS_1", "mcp_servers.web.args.1"),
    ("MCP_SERVERS_WEB_ENV_KEY_2", "mcp_servers.web.env.KEY"),
    ("MCP_SERVERS_WEB_ENV_MORE", "mcp_servers.web.env.MORE"),
    ("MCP_SERVERS_FAR_HEADERS_X", "mcp_servers.far.headers.X"),
    ("MCP_SERVERS_FAR_HEADERS_Y", "mcp_servers.far.headers.Y"),
    ("TOOLS_GET_HTTP_HEADERS_A", "tools.get.http.headers.A"),
]


def put(root: Path, text: str) -> Path:
    folder = root / "toolsets/far"
    folder.mkdir(exist_ok=True)
    (folder / "toolset.yaml").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _secret_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", OURS)


@pytest.mark.requirement("covalt-3.4.4", "covalt-6.2.export")
@pytest.mark.parametrize("text", [PLAIN_TEXT, FLOW], ids=["edited", "written-anew"])
def test_credentials_become_secrets_that_work_after_an_import(root: Path, text: str) -> None:
    folder = put(root, text)
    api = Api.of(root)

    bundle = api.ask("export_toolset", toolset_id="far", placeholders=True).get_data()

    manifest = zipfile.ZipFile(io.BytesIO(bundle)).read("toolset.yaml").decode()
    assert not any(one in manifest for one in (TOKEN, OTHER, PLAIN, OURS))
    assert (folder / "toolset.yaml").read_text(encoding="utf-8") == text
    if text == PLAIN_TEXT:
        assert "# a comment that stays" in manifest
        assert 'Authorization: "Bearer ${MCP_SERVERS_WEB_HEADERS_AUTHORIZATION}"' in manifest
    api.post("uninstall_toolset", toolset_id="far", force=True)
    sent = api.send_form("import_toolset", {"file": form_file("far.zip", bundle)})
    assert sent.status_code == 200
    problems = api.get("get_toolset", toolset_id="far")["problems"]
    assert [one for one in problems if one["severity"] == "error" or one["code"] == "CG212"] == []


@pytest.mark.requirement("covalt-3.4.4")
def test_each_replaced_credential_is_listed_and_declared(root: Path, tmp_path: Path) -> None:
    put(root, FLOW)
    file = tmp_path / "far.zip"
    args = ["-C", str(root), "bundle", "export", "far", "-o", str(file), "--placeholders"]

    done = CliRunner().invoke(cli, [*args, "--json"], catch_exceptions=False)

    found: Any = json.loads(done.stdout)
    names = [(one["name"], one["path"]) for one in found["placeholders"]]
    assert [one for one in names if "MORE_2" not in one[0]] == NAMES
    manifest = yaml.load(zipfile.ZipFile(file).read("toolset.yaml"), yaml.CSafeLoader)
    declared = ["OLD", "MCP_SERVERS_WEB_ENV_KEY", *(name for name, _ in names)]
    assert manifest["secrets"] == declared
    assert manifest["mcp_servers"][1]["headers"]["X"] == "Bearer ${MCP_SERVERS_FAR_HEADERS_X}"
    assert TOKEN not in done.output


def test_other_credentials_are_refused_with_and_without_the_option(root: Path) -> None:
    folder = put(root, PLAIN_TEXT)
    api = Api.of(root)

    hint = refused(api.ask("export_toolset", toolset_id="far"), 409, "not_exported")["hint"]
    (folder / "notes.md").write_text(f"the token is {TOKEN}\n", encoding="utf-8")
    answer = api.ask("export_toolset", toolset_id="far", placeholders=True)

    assert hint == "covalt-git bundle export far --placeholders"
    (problem,) = refused(answer, 409, "not_exported")["problems"]
    assert (problem["path"], problem["line"]) == ("toolsets/far/notes.md", 1)
