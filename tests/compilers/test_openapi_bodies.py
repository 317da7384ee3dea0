"""What arguments say about a body that is not JSON."""

import json
from typing import Any

import pytest

from covalt_git.compilers.openapi import compile_openapi


def schema_of(content: dict[str, Any]) -> Any:
    body = {"required": True, "content": content}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "Bodies", "version": "1"},
        "servers": [{"url": "https://a.example"}],
        "paths": {"/x": {"post": {"requestBody": body, "responses": {}}}},
    }
    [tool] = compile_openapi(json.dumps(document), namespace="bodies").tools.values()
    return tool.input_schema


def test_a_text_has_what_the_document_says_about_it() -> None:
    image = {"type": "string", "format": "byte", "description": "At most 256 kB.", "maxLength": 9}

    body = schema_of({"image/jpeg": {"schema": image}})["properties"]["body"]

    assert body == {
        "type": "string",
        "format": "byte",
        "description": "At most 256 kB.",
        "maxLength": 9,
    }


@pytest.mark.parametrize("media", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_required_list_of_a_form_has_an_item_since_none_would_leave_it_out(media: str) -> None:
    tags = {"type": "array", "items": {"type": "string"}}
    form = {"type": "object", "required": ["tags"], "properties": {"tags": tags, "more": tags}}

    properties = schema_of({media: {"schema": form}})["properties"]

    assert properties == {"tags": tags | {"minItems": 1}, "more": tags}
    assert schema_of({"application/json": {"schema": form}})["properties"]["tags"] == tags
