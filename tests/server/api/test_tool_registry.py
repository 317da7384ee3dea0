"""The tool registry at ``/v1/tools``: the routes and answers of Starfly's registry, and errors of two fields."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.api_client import BEARER, HOME, Api, configure
from tests.operations_client import Operations

EXAMPLE = {
    "tool_id": "example",
    "name": "example",
    "resource_uri": "example",
    "required_capabilities": ["example"],
    "max_blast_radius": "example",
    "requires_execution": True,
    "allowed_operations": ["example"],
    "allowed_targets": ["example"],
}
"""The body of the example in the registry's documentation."""


def ask(api: Api, method: str, path: str, body: Any = None, **options: Any) -> TestResponse:
    options = {"headers": BEARER} | options
    return api.client().open(path, method=method, base_url=HOME, json=body, **options)


def refused(answer: TestResponse, status: int, code: str) -> str:
    """Check the format of an error, and return its description."""
    assert answer.status_code == status, answer.get_data(as_text=True)
    error = answer.get_json()
    assert error.keys() == {"error", "error_description"}
    assert error["error"] == code
    return str(error["error_description"])


@pytest.mark.requirement("registry-create")
@pytest.mark.requirement("registry-create.registered")
@pytest.mark.requirement("registry-create.description")
@pytest.mark.parametrize("path", ["/v1/tools", "/v1/mcp/tools"])
def test_the_documented_example_is_registered(api: Api, path: str) -> None:
    answer = ask(api, "POST", path, EXAMPLE | {"description": "An example.", "x": {"y": 1}})

    assert answer.status_code == 201
    entry = answer.get_json()
    assert entry.items() >= EXAMPLE.items()
    assert entry["protocols"] == ["mcp"]
    assert entry["x"] == {"y": 1}
    assert ask(api, "GET", f"{path}/example").get_json() == entry
    assert ask(api, "GET", path).get_json() == {"tools": [entry], "count": 1}
    assert ask(api, "GET", f"{path}?protocol=http").get_json() == {"tools": [], "count": 0}
    rows = [one for group in api.get("list_tools")["groups"] for one in group["tools"]]
    assert ("registered:example", "An example.") in [(r["tool_id"], r["description"]) for r in rows]


@pytest.mark.requirement("registry-create.400")
@pytest.mark.requirement("registry-create.body")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"tool_id": "x"}', "missing key 'name'"),
        (b'{"tool_id": "../x", "name": "X"}', "not a tool id"),
        (b'{"tool_id": "x", "name": "X", "name": "Y"}', "name"),
    ],
)
def test_an_invalid_request_has_a_code_and_a_description(api: Api, body: bytes, why: str) -> None:
    answer = ask(api, "POST", "/v1/tools", data=body, content_type="application/json")
    assert why in refused(answer, 400, "invalid_request")


def test_an_id_can_have_slashes_and_does_not_change(api: Api) -> None:
    path = "/v1/tools/com.example:a//b"
    ask(api, "POST", "/v1/tools", {"tool_id": "com.example:a//b", "name": "A"})

    assert ask(api, "PUT", path, {"name": "B"}).get_json()["name"] == "B"
    why = refused(ask(api, "PUT", path, {"tool_id": "c", "name": "B"}), 400, "invalid_request")
    assert why.endswith("entry.tool_id: must be 'com.example:a//b' (got 'c')")
    assert ask(api, "DELETE", path).get_json()["tool_id"] == "com.example:a//b"
    for method, body in (("GET", None), ("DELETE", None), ("PUT", {"name": "B"})):
        refused(ask(api, method, path, body), 404, "tool_not_found")
    refused(ask(api, "DELETE", "/v1/mcp/tools"), 400, "invalid_request")


@pytest.mark.requirement("registry-create.503")
def test_a_registry_without_a_valid_configuration_is_reported(api: Api) -> None:
    (api.root / "covalt.yaml").write_text("roles: [")
    for method, path in (("GET", "/v1/tools"), ("POST", "/v1/tools"), ("GET", "/v1/tools/x")):
        body = EXAMPLE if method == "POST" else None
        refused(ask(api, method, path, body), 503, "registry_not_configured")


@pytest.mark.requirement("registry-create.503")
def test_a_registry_that_cannot_be_written_is_reported(api: Api) -> None:
    (api.root / "toolsets/state").mkdir(exist_ok=True)
    # A file in the place of the folder: permissions would not stop the tests' user root.
    (api.root / "toolsets/state/registered").write_text("")
    refused(ask(api, "POST", "/v1/tools", EXAMPLE), 503, "registry_not_configured")
    assert ask(api, "GET", "/v1/tools").get_json() == {"tools": [], "count": 0}


def test_one_of_several_equal_requests_registers_the_tool(api: Api) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = threads.map(lambda _: ask(api, "POST", "/v1/tools", EXAMPLE), range(8))
        first, *others = sorted(answers, key=lambda one: one.status_code)
    assert first.status_code == 201
    for one in others:
        refused(one, 409, "tool_exists")


def test_who_did_what_with_a_tool_is_for_admins_also_after_it_was_removed(root: Path) -> None:
    configure(
        root,
        """
        default_role: owner
        roles:
          owner: {admin: true}
          agent: {allow: ["app-builder.*"]}
        """,
    )
    Operations(root)("create_chat", chat_id="c1")
    api, agent = Api.of(root), Api.of(root, "agent")
    for tool_id in ("com.example/w", "com.example/v"):
        assert ask(api, "POST", "/v1/tools", {"tool_id": tool_id, "name": "W"}).status_code == 201
        tool = api.get("get_registered_tool", tool_id=tool_id)["tool"]
        agent.tell("call_tool", chat_id="c1", tool_id=tool)
    path = "/v1/tools/com.example/w/audit"
    answer = ask(api, "GET", path)
    (event,) = map(json.loads, answer.get_data().splitlines())
    assert answer.mimetype == "text/plain"
    assert (event["kind"], event["decision"], event["role"]) == ("decision", "hidden", "agent")

    assert ask(api, "GET", "/v1/mcp/tools/com.example/w/audit").get_data() == answer.get_data()
    assert ask(api, "GET", f"{path}?since=2999-01-01T00:00:00Z").get_data() == b""
    refused(ask(api, "GET", f"{path}?since=soon"), 400, "invalid_request")
    for unknown in (path, "/v1/tools/nothing/audit"):
        refused(ask(agent, "GET", unknown), 403, "forbidden")
    assert ask(api, "DELETE", "/v1/tools/com.example/w").status_code == 200
    assert ask(api, "GET", path).get_data() == answer.get_data()
    ask(api, "POST", "/v1/tools", {"tool_id": "com.example/w/audit", "name": "Of this id"})
    assert ask(api, "GET", path).get_json()["name"] == "Of this id"
    assert ask(api, "PUT", path, {"name": "Changed"}).get_json()["name"] == "Changed"
    assert ask(api, "DELETE", path).get_json()["tool_id"] == "com.example/w/audit"
