"""Pages on which API documents become tools, without JavaScript."""

import json
import re
from pathlib import Path

import pytest

from tests.api_client import form_file
from tests.server.visitor import Visitor
from tests.sources.pets_api import document

URL = "https://pets.example.com"
ADD = "/toolsets/data-lab/sources/new"


def test_a_document_without_a_server_gets_the_url_of_its_api_on_the_page(
    visitor: Visitor, root: Path
) -> None:
    content = json.dumps(document(URL, servers=[{"url": "/v1"}])).encode()

    page = visitor.send(
        visitor.open(ADD).forms[1],
        "Add",
        file=form_file("pets.json", content),
        address=f"{URL}/v1",
    )

    assert "Added 5 tools" in page.text
    assert "does not state the host" not in page.text
    assert f"base_url: {URL}/v1" in (root / "toolsets/data-lab/toolset.yaml").read_text()
    assert f"GET {URL}/v1/pets" in visitor.open("/tools/pets:pets.list").text
    # Nothing was accepted before: what the new tools share has not changed.
    shared = page.source.partition("Definitions that these tools share")[2].partition("</summary>")[
        0
    ]
    assert re.findall(r">([^<>]*\w)<", shared) == ["1 new"]


def test_a_schema_of_graphql_gets_the_url_of_its_api_on_the_page(
    visitor: Visitor, root: Path
) -> None:
    pytest.importorskip("graphql")
    form = visitor.open(ADD).forms[1]
    pasted = "type Query { film(id: ID!): String }"

    visitor.send(form, "Add", document=pasted, namespace="films", address=f"{URL}/graphql")

    assert f"endpoint: {URL}/graphql" in (root / "toolsets/data-lab/toolset.yaml").read_text()
