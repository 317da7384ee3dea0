"""Every name that others store or read: it changes only together with a file of ``names/``."""

import json
import logging
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from werkzeug.exceptions import default_exceptions

from covalt_git.calls.telemetry import observe_call
from covalt_git.cli.terminal import json_log, output
from covalt_git.connections.token_store import StoredLogin
from covalt_git.credentials.agent_tokens import AgentToken
from covalt_git.errors import CovaltError, Problem
from covalt_git.index.database import connect
from covalt_git.manifests.published_schemas import NAMES, schema_text
from covalt_git.models.base import StrictModel
from covalt_git.models.calls import Approval, FileReference, PendingCall
from covalt_git.models.commit_record import CommitRecord
from covalt_git.models.decisions import DecisionRecord
from covalt_git.models.sources.tool_lock import ToolLock
from covalt_git.models.tool import Tool
from covalt_git.operations.calls.call_batch import BatchLine
from covalt_git.problems.explain import titles
from covalt_git.toolsets.update_lock import _Note
from covalt_git.workspaces import writing
from covalt_git.workspaces.branches import Rename
from covalt_git.workspaces.chat import AboutChat
from covalt_git.workspaces.switching import Journal
from covalt_server.api import errors
from covalt_server.api.every_operation import OPERATIONS
from covalt_server.api.openapi import document
from tests.contract.json_names import json_keys
from tests.contract.name_files import check_names
from tests.contract.schema_names import schema_names
from tests.contract.source_names import (
    environment_variables,
    error_codes,
    git_names,
    keys_of_log_lines,
    source_nodes,
)

STORED: dict[str, type[StrictModel]] = {
    "approval": Approval,
    "batch line": BatchLine,
    "call": PendingCall,
    "decision": DecisionRecord,
    "chat": AboutChat,
    "checkout journal": Journal,
    "commit": CommitRecord,
    "large field": FileReference,
    "lock file": ToolLock,
    "rename": Rename,
    "sign-in": StoredLogin,
    "token": AgentToken,
    "tool definition": Tool,
    "toolset change": _Note,
}
"""Models of stored records and of user files without a published schema."""


@pytest.fixture(scope="module")
def nodes() -> list[Any]:
    return source_nodes()


def test_the_openapi_document_keeps_its_names() -> None:
    check_names("openapi", openapi_names(document(OPERATIONS, "http://localhost")))


def openapi_names(document: dict[str, Any]) -> Iterator[str]:
    """Yield the keys of each schema; and each operation, its parameters, and the schemas of its body and of its answer."""
    for name, schema in document["components"]["schemas"].items():
        yield f"schema {name}"
        yield from schema_names(schema, {}, f"schema {name}")
    for at, operation in (
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ):
        yield at
        for parameter in operation.get("parameters", ()):
            place = f"{at} {parameter['in']}.{parameter['name']}"
            yield from (place, *schema_names(parameter["schema"], {}, place))
        for media, content in operation.get("requestBody", {}).get("content", {}).items():
            yield from schema_names(content["schema"], {}, f"{at} {media} body")
        for status, response in operation["responses"].items():
            yield from (f"{at} {status} {header}" for header in response.get("headers", ()))
            for media, content in response.get("content", {}).items():
                if status == "200":
                    yield from schema_names(content["schema"], {}, f"{at} 200")
                    yield f"{at} 200 {media}"


def test_the_published_schemas_keep_their_names() -> None:
    published = {name: json.loads(schema_text(name)) for name in NAMES}
    check_names(
        "json_schemas",
        (
            line
            for name, schema in published.items()
            for line in schema_names(schema, schema["$defs"], name)
        ),
    )


def test_stored_records_keep_their_keys(nodes: list[Any]) -> None:
    found = [*git_names(nodes)]
    for name, model in STORED.items():
        schema = model.model_json_schema()
        found += schema_names(schema, schema.get("$defs", {}), name)
    check_names("stored", found)


def test_the_index_keeps_its_columns(tmp_path: Path) -> None:
    columns = (
        "SELECT one.name || '.' || info.name FROM pragma_table_list AS one, pragma_table_info(one.name)"
        " AS info WHERE one.type IN ('table', 'virtual') AND one.name NOT LIKE 'sqlite_%'"
    )
    others = "SELECT type || ' ' || name FROM sqlite_schema WHERE type != 'table' AND sql NOT NULL"
    with closing(connect(tmp_path / "index.sqlite")) as database:
        check_names(
            "index", [name for sql in (columns, others) for (name,) in database.execute(sql)]
        )


def test_environment_variables_keep_their_names(nodes: list[Any]) -> None:
    check_names("environment", environment_variables(nodes))


def test_log_lines_keep_their_keys(
    nodes: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = CovaltError("wrong", problems=[Problem("covalt.yaml", 1, 1, "CG101", "wrong")])
    with (
        caplog.at_level("INFO"),
        suppress(CovaltError),
        observe_call("c1", "demo:add", "1") as call,
    ):
        call.sandbox, call.waited_s = "full", 1.0
        monkeypatch.setattr(output, "lines", json_log.say)
        output.error(wrong, as_json=False)
        logging.getLogger("covalt_git").error("a bug", exc_info=wrong)
        raise wrong
    lines = [json.loads(json_log.JsonLines().format(record)) for record in caplog.records]
    assert len(lines) == 3
    found = (key.removeprefix(".") for line in lines for key in json_keys(line, ""))
    check_names("log", {*keys_of_log_lines(nodes), *found})


def test_errors_and_problems_keep_their_codes(nodes: list[Any]) -> None:
    with Flask("names").test_request_context("/"):
        of_http = {errors._http_error(error(), ()).code for error in default_exceptions.values()}
    of_lost_calls = {code for code, _ in writing._ENDINGS.values()}
    check_names("codes", {*error_codes(nodes), *of_http, *of_lost_calls, *titles()})
