"""OpenAPI documents become plain HTTP tools."""

from pathlib import Path

import yaml
from click.testing import CliRunner

from covalt_git.cli import cli
from tests.sources.pets_api import write_document


def test_each_operation_becomes_an_http_tool(tmp_path: Path) -> None:
    document = write_document(tmp_path / "shelter.json", "https://pets.example")
    output = tmp_path / "shelter"

    args = ["convert", str(document), "--from", "openapi", "--to", "toolset", "-o", str(output)]
    converted = CliRunner().invoke(cli, args, catch_exceptions=False)

    assert converted.exit_code == 0, converted.output
    manifest = yaml.load((output / "toolset.yaml").read_text("utf-8"), yaml.CSafeLoader)
    tools = {tool["id"]: tool for tool in manifest["tools"]}
    assert list(tools) == ["pets.create", "pets.delete", "pets.get", "pets.list", "pets.update"]
    assert tools["pets.create"]["http"]["method"] == "POST"
    assert tools["pets.get"]["annotations"] == {"read_only": True}
    assert manifest["secrets"] == ["SHELTER_APIKEY"]
    assert "sources" not in manifest
