"""Keys of toolset manifests: configurations of renderers, references, and data of other applications."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from covalt_git.access.grants import Granted
from covalt_git.connections.definition import Definition
from covalt_git.credentials.values import SecretStore
from covalt_git.http_tools.secret_lookup import Lookup
from covalt_git.models.renderers import config_model
from covalt_git.runtime import mcp_servers
from covalt_git.toolsets.toolset import read_toolset
from tests.api_client import Api, form_file

SERVERS = """\
id: far
name: Far
version: "1.5"
secrets: [PLACE, KEY]
mcp_servers:
  - {id: web, url: "https://far.example/${env:PLACE}", headers: {X-Key: "Bearer ${secret:KEY}"}}
  - {id: program, command: npx, args: ["${env:PLACE}"], env: {API_KEY: "${KEY}"}}
  - {id: events, url: "https://far.example/events", transport: sse}
tools:
  - id: order
    http: {url: "https://far.example/order"}
    examples: [{prompt: "Order it", weight: 2}, {args: {}, expected: a}]
    extensions: {vendor: {colour: red}}
extensions: {vendor: {icons: [1, null, {deep: true}]}}
"""


RENDERERS: dict[str, list[dict[str, Any]]] = {
    "code": [
        {"file": "$args.path", "language": "auto", "editable": True},
        {"content": "$return.code"},
    ],
    "document": [{"file": "$args.path", "editable": True}, {"content": "$return.text"}],
    "html": [{"artifact": "./artifacts/viz.html", "data": "$return"}],
    "frame": [{"url": "http://localhost:$return.port"}, {"port": "$return.port"}],
}


@pytest.mark.requirement(
    "covalt-1.4.code", "covalt-1.4.document", "covalt-1.4.html", "covalt-1.4.frame"
)
@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_renderer_has_these_keys(renderer: str) -> None:
    model = config_model(renderer)

    for config in RENDERERS[renderer]:
        assert model.model_validate(config).model_dump(exclude_unset=True) == config
        with pytest.raises(ValidationError):
            model.model_validate({**config, "colour": "red"})


@pytest.fixture
def far(root: Path) -> Path:
    (root / "toolsets/far").mkdir()
    (root / "toolsets/far/toolset.yaml").write_text(SERVERS, encoding="utf-8")
    return root


@pytest.mark.requirement(
    "cjson-toolsets.headers",
    "cjson-toolsets.headers.references",
    "cjson-toolsets.server",
    "cjson-toolsets.server.references",
    "covalt-1.5.args",
    "covalt-1.5.env",
    "covalt-1.5.headers",
    "covalt-1.5.server_type",
    "covalt-1.5.url",
    "covalt-6.2.syntax",
    "covalt-6.2.runtime",
)
def test_references_of_a_server_are_resolved_when_it_starts(far: Path) -> None:
    toolset = read_toolset(far, "far")
    assert toolset.manifest is not None

    def defined(values: dict[str, str], position: int) -> Definition:
        assert toolset.manifest is not None
        return mcp_servers.definition(
            toolset,
            toolset.manifest.mcp_servers[position],
            root=far,
            workspace=far / "workspace",
            chat_id="c1",
            may=Granted("far"),
            lookup=Lookup(frozenset({"PLACE", "KEY"}), SecretStore(values)),
        )

    web = defined({"PLACE": "mcp", "KEY": "k1"}, 0)
    assert (web.url, web.headers) == ("https://far.example/mcp", {"X-Key": "Bearer k1"})
    program = defined({"PLACE": "later", "KEY": "k2"}, 1)
    assert (program.argv, program.env) == (("npx", "later"), {"API_KEY": "k2"})
    transports = [web.transport, program.transport, defined({}, 2).transport]
    assert transports == ["streamable-http", "stdio", "sse"]


@pytest.mark.requirement(
    "cjson-toolsets.extensions",
    "cjson-toolsets.version",
    "cjson-tools.examples",
    "cjson-tools.extensions",
    "covalt-0.bundles",
    "covalt-6.3.2",
    "covalt-7.1.import_toolset",
    "covalt-7.1.export_toolset",
)
def test_a_toolset_is_exported_uninstalled_with_its_rows_and_imported_unchanged(
    far: Path, api: Api
) -> None:
    before = (far / "toolsets/far/toolset.yaml").read_bytes()
    bundle = api.ask("export_toolset", toolset_id="far").get_data()
    assert "far" in [row["id"] for row in api.get("list_toolsets")["toolsets"]]
    api.post("uninstall_toolset", toolset_id="far", force=True)
    assert not (far / "toolsets/far").exists()
    assert "far" not in [row["id"] for row in api.get("list_toolsets")["toolsets"]]
    groups = api.get("list_tools")["groups"]
    assert not {"far", "web", "program"} & {group["id"] for group in groups}

    api.send_form("import_toolset", {"file": form_file("far.zip", bundle)})

    assert (far / "toolsets/far/toolset.yaml").read_bytes() == before
    manifest = api.get("get_toolset", toolset_id="far")["manifest"]
    assert manifest["extensions"] == {"vendor": {"icons": [1, None, {"deep": True}]}}
    assert manifest["version"] == "1.5"
    tool = api.get("get_tool", tool_id="far:order")
    assert tool["extensions"] == manifest["tools"][0]["extensions"] == {"vendor": {"colour": "red"}}
    assert tool["free_examples"] == [{"prompt": "Order it", "weight": 2}]
    assert [one["expected"] for one in tool["examples"]] == ["a"]
