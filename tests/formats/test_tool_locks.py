"""A tools/list result becomes a lock, with the digests that a refresh of the server would have."""

import json
from typing import Any

import pytest
from hypothesis import assume, given

from covalt_git import yaml_text
from covalt_git.formats import conversion, recognition
from covalt_git.formats.documents import FormatError, parse
from covalt_git.models.sources.tool_lock import BadDefinitionError, ToolLock, locked_tool
from tests.formats import laws
from tests.formats.test_round_trips import as_tools

TOOLS = recognition.find_format("mcp-tools")
LOCK = recognition.find_format("tool-lock")


def lock_of(content: bytes) -> tuple[conversion.Conversion, ToolLock]:
    done = laws.converted(content, TOOLS, LOCK)
    (text,) = done.files.values()
    return done, ToolLock.model_validate(yaml_text.load(text, "lock.yaml").data)


@given(as_tools())
def test_a_lock_has_the_definitions_with_the_digests_of_a_refresh(document: Any) -> None:
    try:
        expected = {locked_tool(one).upstream: locked_tool(one) for one in document["tools"]}
    except BadDefinitionError:
        assume(False)
    done, lock = lock_of(laws.as_json(document))
    # A refresh stores the definitions of a server; a conversion copies no credential, and says so.
    assume(not any(note.secret for note in done.notes))

    assert {one.upstream: one for one in lock.tools.values()} == expected
    assert all(one.digest_matches for one in lock.tools.values())
    assert not [one for one in done.lost if one.pointer.startswith("/tools/")]


def test_the_name_of_the_output_is_the_namespace() -> None:
    document = parse(b'{"tools": []}', "listed.json")
    (text,) = conversion.convert(document, TOOLS, LOCK, output="search").files.values()

    assert "namespace: search" in text.decode()


def test_an_invalid_definition_is_an_error() -> None:
    tool = {"name": "a", "inputSchema": {}, "icons": "none"}
    with pytest.raises(FormatError, match="icons"):
        lock_of(json.dumps({"tools": [tool]}).encode())
