import json
from typing import Any

import pytest

from covalt_git.formats import recognition
from covalt_git.formats.documents import FormatError, parse
from covalt_git.formats.table import TOOLSET
from tests.formats import laws

CJSON = recognition.find_format("cjson")


def toolsets_of(name: str) -> list[Any]:
    content = (laws.FIXTURES / "cjson" / f"{name}.json").read_bytes()
    return laws.reading(content, CJSON).imported.toolsets


def test_a_server_of_kind_mcp_becomes_an_mcp_server() -> None:
    files, search = toolsets_of("servers")

    assert files["mcp_servers"] == [
        {
            "id": "files",
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv/files"],
            "env": {"LOG_LEVEL": "info", "FILES_TOKEN": "${env:FILES_TOKEN}"},
            "requires_confirmation": False,
        }
    ]
    assert files["defaults"] == {"enabled": True, "requires_confirmation": False}
    assert [one["tool_id"] for one in files["tool_overrides"]][:2] == [
        "files:read_file",
        "files:write_file",
    ]
    assert files["tool_overrides"][1]["requires_confirmation"] is True
    assert files["tool_overrides"][2]["enabled"] is False
    assert search["id"] == "search-api"
    assert search["mcp_servers"][0]["transport"] == "streamable-http"


@pytest.mark.requirement("cjson-tools.argsSchema", "cjson-tools.summary")
def test_a_tool_of_kind_uri_becomes_a_request() -> None:
    content = (laws.FIXTURES / "cjson" / "requests.json").read_bytes()
    imported = laws.reading(content, CJSON).imported
    (weather,) = imported.toolsets
    forecast, broken = weather["tools"]

    assert forecast["http"] == {
        "method": "POST",
        "url": "https://api.example.com/v1/forecast",
        "headers": {"X-Key": "${secret:WEATHER_KEY}", "X-Price": "1$$"},
    }
    assert forecast["description"] == "Return the forecast for a city."
    assert forecast["input_schema"]["properties"] == {"city": {"type": "string"}}
    assert "input_schema" not in broken
    assert broken["enabled"] is False
    place = ("toolsets", 0, "tools", 1, "argsSchema")
    assert [note.loc for note in imported.notes] == [place]


def test_texts_become_booleans_and_are_reported() -> None:
    content = (laws.FIXTURES / "cjson" / "texts_as_booleans.json").read_bytes()
    done = laws.converted(content, CJSON, CJSON)
    (toolset,) = json.loads(next(iter(done.files.values())))["toolsets"]

    assert toolset["toolsetDefaults"] == {"enabled": True, "requiresApproval": False}
    assert toolset["tools"][0]["enabled"] is False
    assert len(done.notes) == 3


def test_the_request_of_an_http_tool_comes_back_through_extensions() -> None:
    manifest = """
id: shop
name: Shop
version: "1"
tools:
  - {id: a, http: {url: "https://a.example/{id}"}, input_schema: {type: object, properties: {id: {type: string}}, required: [id]}}
"""
    (text,) = laws.converted(manifest.encode(), TOOLSET, CJSON, "toolset.yaml").files.values()
    (back,) = laws.reading(text, CJSON).imported.toolsets

    assert back["tools"][0]["http"] == {"url": "https://a.example/{id}"}


@pytest.mark.requirement("cjson-schema")
def test_a_document_without_its_schema_is_refused() -> None:
    with pytest.raises(FormatError) as caught:
        laws.reading(b'{"toolsets": []}', CJSON)

    (problem,) = caught.value.problems
    assert "'schema'" in problem.message


@pytest.mark.requirement("cjson-document", "cjson-mediaType", "cjson-schema")
def test_a_written_document_has_its_schema_and_media_type_and_is_recognized() -> None:
    manifest = (
        b'id: shop\nname: Shop\nversion: "1"\ntools: [{id: a, http: {url: "https://a.example/"}}]\n'
    )
    done = laws.converted(manifest, TOOLSET, CJSON, "toolset.yaml")
    (text,) = done.files.values()
    written = json.loads(text)

    assert written["schema"].startswith("https://schema.cjson.dev/0/toolsets/")
    assert written["mediaType"] == "application/vnd.cjson-toolsets+json"
    only_media_type = {"schema": "mine", "mediaType": written["mediaType"]}
    for document in (written, only_media_type):
        found = recognition.recognize(parse(laws.as_json(document), "input.json"))
        assert found is CJSON
