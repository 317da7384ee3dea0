"""Every name that others store or read: it changes only together with a file of ``names/``.

``UPDATE_NAMES=1 pytest tests/contract`` writes the files again.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask
from werkzeug.exceptions import default_exceptions

from covalt_git.calls.batch import BatchLine
from covalt_git.connections.kept_sign_ins import KeptSignIn
from covalt_git.files.agent_tokens import AgentToken
from covalt_git.index.database import connect
from covalt_git.installs.changing import _Note
from covalt_git.models import problems
from covalt_git.models.base import StrictModel
from covalt_git.models.calls import Approval, FileReference, PendingCall
from covalt_git.models.commit_record import CommitRecord
from covalt_git.models.json_schemas import NAMES, schema_text
from covalt_git.models.tool import Tool
from covalt_git.models.tool_lock import ToolLock
from covalt_git.workspaces import recovery
from covalt_git.workspaces.chats import AboutChat
from covalt_git.workspaces.materialize import Journal
from covalt_git.workspaces.renaming import Rename
from covalt_server import refusals
from covalt_server.app import OPERATIONS
from covalt_server.openapi import document
from tests.contract.schema_names import schema_names
from tests.contract.source_names import (
    REPOSITORY,
    environment_variables,
    error_codes,
    git_names,
    source_nodes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FOLDER = Path(__file__).with_name("names")
UPDATE = "UPDATE_NAMES"
STORED: dict[str, type[StrictModel]] = {
    "approval": Approval,
    "batch line": BatchLine,
    "call": PendingCall,
    "chat": AboutChat,
    "checkout journal": Journal,
    "commit": CommitRecord,
    "large field": FileReference,
    "lock file": ToolLock,
    "rename": Rename,
    "sign-in": KeptSignIn,
    "token": AgentToken,
    "tool definition": Tool,
    "toolset change": _Note,
}
"""Models of what is stored, or read from files of users, and has no published schema."""


@pytest.fixture(scope="module")
def nodes() -> list[Any]:
    return source_nodes()


def check(name: str, found: Iterable[str]) -> None:
    """Compare names with those in a file of ``names/``, or write the file."""
    file = FOLDER / f"{name}.txt"
    now = sorted(set(found))
    assert now
    if os.environ.get(UPDATE):
        file.write_text("".join(f"{line}\n" for line in now), encoding="utf-8")
        return
    before = file.read_text(encoding="utf-8").splitlines()
    differences = [
        *(f"- {line}" for line in before if line not in set(now)),
        *(f"+ {line}" for line in now if line not in set(before)),
    ]
    if differences or before != now:
        lines = "\n".join(differences) or "its lines are not sorted"
        pytest.fail(
            f"names in {file.relative_to(REPOSITORY)} have changed:\n{lines}\n"
            f"hint: if that is intended: {UPDATE}=1 pytest tests/contract",
            pytrace=False,
        )


def test_the_openapi_document_keeps_its_names() -> None:
    check("openapi", openapi_names(document(OPERATIONS, "http://localhost")))


def openapi_names(document: dict[str, Any]) -> Iterator[str]:
    """Yield each operation, its parameters, and the keys of its body and of its answer."""
    schemas = document["components"]["schemas"]
    yield from (f"schema {name}" for name in schemas)
    for at, operation in (
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ):
        yield at
        for parameter in operation.get("parameters", ()):
            place = f"{at} {parameter['in']}.{parameter['name']}"
            yield from (place, *schema_names(parameter["schema"], schemas, place))
        for media, content in operation.get("requestBody", {}).get("content", {}).items():
            yield from schema_names(content["schema"], schemas, f"{at} {media} body")
        for status, response in operation["responses"].items():
            yield from (f"{at} {status} {header}" for header in response.get("headers", ()))
            for media, content in response.get("content", {}).items():
                if status == "200":
                    yield from schema_names(content["schema"], schemas, f"{at} 200")
                    yield f"{at} 200 {media}"


def test_the_published_schemas_keep_their_names() -> None:
    published = {name: json.loads(schema_text(name)) for name in NAMES}
    check(
        "json_schemas",
        (
            line
            for name, schema in published.items()
            for line in schema_names(schema, schema["$defs"], name)
        ),
    )


def test_what_is_stored_keeps_its_keys(nodes: list[Any]) -> None:
    found = [*git_names(nodes)]
    for name, model in STORED.items():
        schema = model.model_json_schema()
        found += schema_names(schema, schema.get("$defs", {}), name)
    check("stored", found)


def test_the_index_keeps_its_columns(tmp_path: Path) -> None:
    columns = (
        "SELECT one.name || '.' || info.name FROM pragma_table_list AS one, pragma_table_info(one.name)"
        " AS info WHERE one.type IN ('table', 'virtual') AND one.name NOT LIKE 'sqlite_%'"
    )
    others = "SELECT type || ' ' || name FROM sqlite_schema WHERE type != 'table' AND sql NOT NULL"
    with closing(connect(tmp_path / "index.sqlite")) as database:
        check("index", [name for sql in (columns, others) for (name,) in database.execute(sql)])


def test_environment_variables_keep_their_names(nodes: list[Any]) -> None:
    check("environment", environment_variables(nodes))


def test_errors_and_problems_keep_their_codes(nodes: list[Any]) -> None:
    with Flask("names").test_request_context("/"):
        of_http = {refusals._http_error(error(), ()).code for error in default_exceptions.values()}
    of_lost_calls = {code for code, _ in recovery._ENDINGS.values()}
    check("codes", {*error_codes(nodes), *of_http, *of_lost_calls, *problems.TITLES})
