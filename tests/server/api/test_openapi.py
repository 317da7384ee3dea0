"""The OpenAPI document: valid, complete, and true of what the operations answer."""

import shutil
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from covalt_git.json_values import json_schema
from covalt_git.operations.registry import Operation
from covalt_server.api.every_operation import OPERATIONS
from covalt_server.api.http import method
from covalt_server.api.openapi import path_of
from tests.api_client import BEARER, HOME, Api
from tests.examples import examples

SETTINGS = settings(
    max_examples=examples(5),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[*HealthCheck],
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def used(shared: Api) -> Api:
    """The API of a project that has one of everything, and that requests may change."""
    api = shared
    api.write("a.txt", "one\n")
    api.upload(("b.bin", bytes(range(256))))
    api.post("create_branch", chat_id="c1", name="idea")
    return api


@pytest.fixture(scope="module")
def schema(used: Api) -> BaseSchema:
    return schemathesis.openapi.from_wsgi(
        "/api/openapi.json", used.app, base_url=HOME, headers=BEARER
    )


@pytest.fixture(scope="module")
def known(used: Api) -> dict[str, list[Any]]:
    """Values that exist in the project, by the name of their field."""
    call = used.call("app-builder:list_files")
    oid = used.files()["a.txt"]["oid"]
    return {
        "chat_id": ["c1"],
        "toolset_id": ["app-builder", "data-lab"],
        "tool_id": ["app-builder:list_files", "app-builder:read_file", "data-lab:summarize"],
        "manifest": ["HEAD", "main", call["post_manifest_id"], call["id"]],
        "from_manifest": ["idea"],
        "before": [call["post_manifest_id"], call["id"]],
        "old": ["", "HEAD"],
        "new": ["", "idea"],
        "args": [{}, {"path": "a.txt"}],
        "path": ["a.txt", "b.bin", "new/file.txt"],
        "base": [oid],
        "branch": ["main", "idea"],
        "name": ["try"],
        "hosts": [["api.example.com"]],
        "key": ["network"],
        "call_id": [call["id"]],
    }


@pytest.fixture(scope="module")
def document(used: Api) -> Any:
    return used.get("openapi.json")


def test_the_document_has_every_route_and_nothing_else(used: Api, document: Any) -> None:
    routes = {
        (rule.rule.replace("<path:", "{").replace("<", "{").replace(">", "}"), method.lower())
        for rule in used.app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.rule.startswith(("/api/", "/v1/")) and rule.rule != "/api/openapi.json"
    }

    assert document["openapi"] == "3.1.0"
    assert document["servers"] == [{"url": HOME}]
    assert {(path, method) for path, it in document["paths"].items() for method in it} == routes
    of_operations = [path for path, _ in routes if path.startswith("/api/")]
    assert len(of_operations) == len(OPERATIONS) == len({one.name for one in OPERATIONS})


def test_every_schema_is_valid_with_its_references(document: Any) -> None:
    components = document["components"]
    references = [{"$ref": f"#/components/schemas/{name}"} for name in components["schemas"]]

    assert json_schema.schema_problems({"anyOf": references, "components": components}) == []


def test_every_operation_has_a_summary_and_its_refusals(document: Any) -> None:
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["summary"].endswith((".", ":")), path
            assert {"400", "401", "403", "421"} <= operation["responses"].keys()
            if path.startswith("/v1/"):  # no operation, but another name of one
                continue
            assert operation["operationId"] in {
                one.name for one in OPERATIONS if path_of(one) == path
            }
            assert "200" in operation["responses"]


def test_the_document_has_the_rules_that_requests_obey(document: Any) -> None:
    schemas = document["components"]["schemas"]

    assert [rule["required"] for rule in schemas["AddMessage"]["anyOf"]] == [["text"], ["ref"]]
    assert [rule["required"] for rule in schemas["RevokeGrant"]["anyOf"]] == [["key"], ["all"]]
    assert schemas["RegisterTool"]["properties"]["entry"]["required"] == ["tool_id", "name"]
    assert schemas["UploadFiles"]["properties"]["files"]["minItems"] == 1
    assert "pattern" in schemas["ToolEntry"]["properties"]["tool_id"]
    for path in ("/v1/tools/{tool_id}", "/v1/mcp/tools/{tool_id}"):
        for method_name in ("get", "put", "delete"):
            assert "404" in document["paths"][path][method_name]["responses"]
    sent = document["paths"]["/v1/tools/{tool_id}"]["put"]["requestBody"]["content"]
    assert sent["application/json"]["schema"]["$ref"].endswith("/NamedToolEntry")
    assert "tool_id" not in schemas["NamedToolEntry"]["required"]
    (named,) = document["paths"]["/v1/mcp/tools"]["delete"]["parameters"]
    assert named["schema"]["minLength"] == 1


@pytest.mark.parametrize(
    ("model", "refused", "accepted"),
    [
        ("ToolEntry", {"version": "1"}, {"version": "1.0.0"}),
        ("ToolEntry", {"tool_id": "-"}, {"tool_id": "a/b"}),
        ("RegisterTool", {"entry": {"tool_id": "a", "name": None}}, {}),
        ("ReplaceRegisteredTool", {"entry": {"name": None}}, {"entry": {"name": "A"}}),
        ("ReplaceRegisteredTool", {"tool_id": "-"}, {"tool_id": "a"}),
        ("CreateChat", {"chat_id": "A"}, {"chat_id": None}),
        ("AddGrant", {"kind": "tool", "name": None}, {"kind": "tool", "name": "a"}),
        ("AddGrant", {"kind": "network"}, {"kind": "network", "hosts": ["a.example"]}),
        ("AddMessage", {"text": "a", "ref": "a b"}, {"text": "a", "ref": "a"}),
        (
            "AddGrant",
            {"kind": "tool", "name": "a", "folders": ["a"]},
            {"kind": "server", "name": "a", "folders": ["a"]},
        ),
        ("McpMeta", {"tool": "a"}, {"tool": "a-b:c.d"}),
        (
            "ProtocolMeta",
            {"http": {"url": "https://a.example"}, "mcp": {"tool": "a:b"}},
            {"http": {"url": "https://a.example"}, "mcp": {"tool": None}},
        ),
        ("CallTool", {"call_id": "1"}, {"call_id": None}),
        ("RestoreWorkspace", {"branch": "b"}, {"branch": "b", "keep_files": True}),
        ("RestoreWorkspace", {"paths": ["a"], "keep_files": True}, {"paths": ["a"]}),
        ("Resolution", {"content_base64": "a"}, {"content_base64": "YQ=="}),
        ("UpdateWorkspaceFile", {"path": ""}, {"path": "a"}),
    ],
)
def test_a_schema_refuses_what_requests_refuse(
    document: Any, model: str, refused: dict[str, Any], accepted: dict[str, Any]
) -> None:
    components = document["components"]
    schema = {"$ref": f"#/components/schemas/{model}", "components": components}

    def problems(values: dict[str, Any]) -> set[str]:
        return {message for _, message in json_schema.value_problems(schema, values)}

    assert problems(refused) - problems(accepted)


def test_a_chat_without_a_commit_has_no_files_to_find(used: Api) -> None:
    used.post("create_chat", chat_id="empty")
    for query in ("get_workspace_files?manifest=a&", "export_chat?", "get_message?"):
        answer = used.client().get(f"/api/{query}chat_id=empty", base_url=HOME, headers=BEARER)
        assert answer.status_code == 404, query


@st.composite
def known_values(draw: st.DrawFn, said: Any, meant: dict[str, list[Any]]) -> None:
    """Replace most of the generated values by some that exist."""
    for name in sorted(said.keys() & meant.keys()) if isinstance(said, dict) else ():
        if draw(st.integers(0, 5)):
            said[name] = draw(st.sampled_from(meant[name]))


def operation_named(name: str) -> Operation[Any, Any]:
    (operation,) = (one for one in OPERATIONS if one.name == name)
    return operation


def operation_of(schema: BaseSchema, name: str) -> APIOperation[Any, Any, Any, Any]:
    one = operation_named(name)
    operation = schema.find_operation_by_label(f"{method(one)} {path_of(one)}")
    assert operation is not None
    return operation


@pytest.mark.parametrize("name", [one.name for one in OPERATIONS])
def test_answers_are_as_documented(
    used: Api, schema: BaseSchema, known: dict[str, list[Any]], name: str
) -> None:
    for toolset in used.get("list_toolsets")[
        "toolsets"
    ]:  # another operation may have switched it off
        if toolset["id"] in known["toolset_id"] and not toolset["enabled"]:
            used.post("enable_toolset", toolset_id=toolset["id"], enabled=True)
    meant = known
    if "execution_id" in operation_named(name).request.model_fields:
        waiting = used.call("app-builder:run_command", command="true")
        meant = known | {"execution_id": [waiting["execution_id"]]}
    if name == "delete_chat":  # the other operations need theirs
        used.post("create_chat", chat_id="spare")
        meant["chat_id"] = ["spare"]
    if name == "uninstall_toolset":
        shutil.copytree(used.root / "toolsets/data-lab", used.root / "toolsets/spare")
        meant["toolset_id"] = ["spare"]
    operation = operation_of(schema, name)

    @SETTINGS
    @given(case=operation.as_strategy(), data=st.data())
    def answers(case: schemathesis.Case[Any], data: st.DataObject) -> None:
        for said in (case.path_parameters, case.query, case.body):
            data.draw(known_values(said, meant))
        # The timeout ends event streams only.
        case.call_and_validate(base_url=HOME, headers=BEARER, checks=CHECKS, timeout=1)

    answers()


@pytest.mark.parametrize("name", [one.name for one in OPERATIONS])
def test_requests_that_the_document_forbids_are_refused(schema: BaseSchema, name: str) -> None:
    operation = operation_of(schema, name)

    @SETTINGS
    @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def refuses(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(
            base_url=HOME, headers=BEARER, checks=[*CHECKS, negative_data_rejection]
        )

    refuses()
