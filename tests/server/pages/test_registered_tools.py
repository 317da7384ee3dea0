"""The page of the tool registry: a user registers, grants and removes a tool."""

import json
from pathlib import Path

from tests.api_client import configure
from tests.operations_client import Operations
from tests.server.visitor import Visitor

ENTRY = {
    "tool_id": "com.example/write",
    "name": "Write <b>",
    "protocols": ["http"],
    "protocol_meta": {"mcp": {"tool": "app-builder:write_file"}},
}


def test_a_tool_is_registered_granted_and_removed(visitor: Visitor, operate: Operations) -> None:
    page = visitor.open("/registry")
    assert "No registered tools" in page.text
    page = visitor.send(page.form("/registry"), entry=json.dumps(ENTRY))
    assert "Registered com.example/write as registered:com-example-write-" in page.text
    assert "Write <b>" in page.text
    assert "it is not granted" in page.text
    page = visitor.send(page.form("/registry/grant"))
    assert "Granted registered:com-example-write-" in page.text
    assert "it is not granted" not in page.text
    (grant,) = operate("list_grants", toolset_id="registered")["grants"]
    assert grant["grant"]["alias_of"] == "app-builder:write_file"
    page = visitor.send(page.form("/registry/remove"))
    assert "Removed com.example/write" in page.text


def test_an_invalid_entry_is_shown_again_with_its_error(visitor: Visitor) -> None:
    page = visitor.open("/registry")
    for entry, error in (
        ("{", "expected a key in double quotes"),
        ('{"tool_id": "x"}', "Missing key 'name'"),
    ):
        page = visitor.send(page.form("/registry"), entry=entry)
        assert page.status == 400
        assert error in page.text
        assert page.form("/registry").fields["entry"][0].strip() == entry


def test_a_grant_is_for_the_entry_that_was_shown(visitor: Visitor, operate: Operations) -> None:
    operate("register_tool", entry=ENTRY)
    page = visitor.open("/registry")
    operate("replace_registered_tool", tool_id=ENTRY["tool_id"], entry={**ENTRY, "name": "Other"})
    page = visitor.send(page.form("/registry/grant"))
    assert page.status == 409
    assert operate("list_grants", toolset_id="registered")["grants"] == []


def test_a_role_without_the_right_sees_no_forms(root: Path, operate: Operations) -> None:
    operate("register_tool", entry=ENTRY)
    configure(root, 'roles: {guest: {allow: ["registered.*"]}}\n')
    page = Visitor.of(root, "guest").open("/registry")
    assert "Write <b>" in page.text
    assert [one for one in page.forms if one.action.startswith("/registry")] == []
