"""What a role does not see answers as what does not exist, at each route, field, MCP method, command and Python method.

The tables are those of the product: URLs of the app, fields of requests, handlers of the MCP server, commands, and methods of
the Python API.  ``hidden_objects.yaml`` says for each name in them which object it can name; one without an entry fails.
"""

import inspect
import json
import re
import shlex
import shutil
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from mcp import Client, MCPError
from mcp_types import PromptReference, ResourceTemplateReference
from werkzeug.test import TestResponse

from covalt_git import Chat, Project, open_project
from covalt_git.cli import cli
from covalt_git.errors import CovaltError
from covalt_git.gateway.mcp_server import RequestHandlers
from covalt_git.gateway.service import Gateway
from covalt_server.api import http
from tests import skill_requests, tasks_client
from tests.api_client import BEARER, HOME, Api
from tests.issuers import tokens
from tests.mcp_client import TOOLSETS, talk
from tests.operation_cases import CASES, OPERATIONS
from tests.operations.test_contract import form_value, send, with_ids

TABLES: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("hidden_objects.yaml").read_text(encoding="utf-8")
)
HIDDEN: dict[str, list[tuple[Any, Any]]] = TABLES["hidden"]
NAMES = re.compile(r"app[-_]builder|App Builder|write_file|\bdemo\b|forecast", re.IGNORECASE)
"""Names by which an answer reveals a hidden object to a guest."""
_RANDOM = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)|\d{4}-\d\d-\d\d \d\d:\d\d UTC|[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{40}\b"
    r'|content="[\w-]{20,}"|nonce="[^"]+"|took_ms": *\d+'
)


@pytest.fixture(scope="module")
def shared(template: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project that nothing changes: each request is about something that the guest does not see."""
    folder = tmp_path_factory.mktemp("hidden") / "project"
    shutil.copytree(template[0], folder, symlinks=True)
    for toolset in ("guide", "handbook"):
        shutil.copytree(TOOLSETS / toolset, folder / "toolsets" / toolset)
    return folder


@cache
def guest(root: Path) -> Api:
    return Api.of(root, "guest")


@pytest.fixture(scope="module")
def ids(template: tuple[Path, dict[str, str]]) -> dict[str, str]:
    """The ids of the project, and for each an unknown id, with another digit in its middle."""
    ids = template[1]
    return ids | {
        f"no_{name}": f"{text[:9]}{'0' if text[9] != '0' else '1'}{text[10:]}"
        for name, text in ids.items()
    }


def without_ids(text: str, hidden: Any, unknown: Any) -> str:
    """Return an answer with the hidden object in place of the unknown one, and without times and ids."""
    pairs = zip(
        *(one if isinstance(one, list) else [one] for one in (unknown, hidden)), strict=True
    )
    for old, new in pairs:
        text = text.replace(old, new).replace(old.replace(":", "."), new.replace(":", "."))
    return _RANDOM.sub("<random>", text)


def same_answer(answers: list[TestResponse], hidden: Any, unknown: Any) -> bool:
    texts = [answer.get_data(as_text=True) for answer in answers]
    # A hint to the answer about the unknown one may name the hidden one.
    is_named = isinstance(hidden, str) and re.search(rf"\b{re.escape(hidden)}\b", texts[1])
    return (
        answers[0].status_code == answers[1].status_code
        and without_ids(texts[0], hidden, unknown) == without_ids(texts[1], hidden, unknown)
        and not is_named
    )


def fields() -> Iterator[tuple[str, str]]:
    for name, operation in OPERATIONS.items():
        for field in operation.request.model_fields:
            if field in HIDDEN and name not in TABLES["of_the_machine"]:
                yield name, field


def test_each_field_of_a_request_has_an_entry() -> None:
    every = {field for one in OPERATIONS.values() for field in one.request.model_fields}
    assert sorted(every - HIDDEN.keys()) == sorted(TABLES["other_fields"])
    assert sorted(HIDDEN.keys() - every) == []


@pytest.mark.parametrize(("name", "field"), list(fields()))
def test_an_operation_answers_about_a_hidden_object_as_about_an_unknown_one(
    shared: Path, ids: dict[str, str], name: str, field: str
) -> None:
    request = with_ids(CASES[name].get("request", {}), {**ids, "root": str(shared)})
    for hidden, unknown in with_ids(HIDDEN[field], ids):
        answers = [
            send(guest(shared), name, request | {field: value}, role="guest")
            for value in (hidden, unknown)
        ]
        assert same_answer(answers, hidden, unknown), [
            answer.get_data(as_text=True) for answer in answers
        ]


@pytest.fixture(scope="module")
def others(template: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Api:
    """The project for the holder of an access token, to whom its chats do not belong."""
    folder = tmp_path_factory.mktemp("others") / "project"
    shutil.copytree(template[0], folder, symlinks=True)
    tokens.list_issuer(folder)
    return Api.of(folder)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, one in OPERATIONS.items()
        # The id of a chat is the name of its folder, so a taken id is no secret.
        if not one.local
        and "chat_id" in one.request.model_fields
        and name not in {"create_chat", "import_chat"}
    ],
)
def test_a_chat_of_another_principal_answers_as_an_unknown_one(
    others: Api, ids: dict[str, str], name: str
) -> None:
    request = with_ids(CASES[name].get("request", {}), {**ids, "root": str(others.root)})
    answers = []
    for chat_id in ("c1", "cx"):
        values = request | {"chat_id": chat_id}
        options: dict[str, Any] = {"json": values}
        if OPERATIONS[name].upload_limit is not None:
            options = {"data": {key: form_value(value) for key, value in values.items()}}
        elif http.method(OPERATIONS[name]) == "GET":
            options = {"query_string": {key: str(value) for key, value in values.items()}}
        headers = {"Authorization": f"Bearer {tokens.token()}"}
        path, verb = f"/api/{name}", http.method(OPERATIONS[name])
        answers.append(
            others.client().open(path, method=verb, base_url=HOME, headers=headers, **options)
        )
    assert answers[0].status_code >= 400
    assert same_answer(answers, "c1", "cx"), [answer.get_data(as_text=True) for answer in answers]


def routes(root: Path) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield the method, the path and the variables of each route except those of operations, which are tried as such."""
    for rule in guest(root).app.url_map.iter_rules():
        if not rule.rule.startswith(("/api/", "/static/")) and rule.endpoint != "openapi":
            path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                yield method, path, frozenset(rule.arguments)


def open_route(api: Api, method: str, path: str, **form: str) -> TestResponse:
    headers = {**BEARER, "Accept": "text/html", "Origin": HOME}
    return api.client().open(path, method=method, base_url=HOME, headers=headers, data=form or None)


def test_each_route_answers_about_a_hidden_object_as_about_an_unknown_one(
    shared: Path, ids: dict[str, str]
) -> None:
    hidden_of, variables = with_ids([HIDDEN, TABLES["variables"]], ids)
    leaking = []
    for method, path, names in routes(shared):
        objects = [name for name in sorted(names) if name in hidden_of]
        values = {name: variables[name] for name in names if name not in hidden_of}
        values |= {name: hidden_of[name][0][0] for name in objects}
        for name in objects:
            for hidden, unknown in hidden_of[name]:
                answers = [
                    open_route(guest(shared), method, path.format(**values | {name: value}))
                    for value in (hidden, unknown)
                ]
                if not same_answer(answers, hidden, unknown):
                    leaking.append((method, path, name, hidden))
    assert leaking == []


def in_each_chat(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return values for the chat with ended calls, and for that with a pending one."""
    return (
        [values | {"chat_id": chat} for chat in ("c1", "c3")] if "chat_id" in values else [values]
    )


def test_no_route_without_an_object_names_a_hidden_one(shared: Path, ids: dict[str, str]) -> None:
    """The forms of such routes are those of operations, which are tried with each field."""
    naming = [
        path
        for variables in in_each_chat(with_ids(TABLES["variables"], ids))
        for method, path, names in routes(shared)
        if method == "GET" and not names & HIDDEN.keys()
        if NAMES.search(
            open_route(guest(shared), "GET", path.format(**variables)).get_data(as_text=True)
        )
    ]
    assert naming == []


@pytest.mark.parametrize(
    "name", [name for name, one in OPERATIONS.items() if not one.changes and not one.local]
)
def test_no_operation_that_reads_names_a_hidden_object(
    shared: Path, ids: dict[str, str], name: str
) -> None:
    request = with_ids(CASES[name].get("request", {}), {**ids, "root": str(shared)})
    without = {field: value for field, value in request.items() if field not in HIDDEN}
    for request in in_each_chat(without):
        answer = send(guest(shared), name, request, role="guest").get_data(as_text=True)
        assert {*NAMES.findall(answer)} <= {*NAMES.findall(json.dumps(request))}, answer


def test_a_command_answers_about_a_hidden_object_as_about_an_unknown_one(
    shared: Path, ids: dict[str, str]
) -> None:
    pairs = [
        (hidden, unknown)
        for pairs in with_ids(HIDDEN, ids).values()
        for hidden, unknown in pairs
        if isinstance(hidden, str)
    ]
    tried, naming = set(), []
    for case in with_ids(CASES, {**ids, "root": str(shared)}).values():
        for line in [*filter(None, [case.get("cli")]), *case.get("also", [])]:
            words = shlex.split(line)
            for hidden, unknown in pairs:
                if hidden not in words:
                    continue
                tried.add(hidden)
                texts = [
                    command(shared, [value if word == hidden else word for word in words])
                    for value in (hidden, unknown)
                ]
                if without_ids(texts[0], hidden, unknown) != without_ids(texts[1], hidden, unknown):
                    naming.append((line, texts))
    assert naming == []
    assert {"app-builder:write_file", "demo", "forecast"} <= tried


def command(root: Path, words: list[str]) -> str:
    run = CliRunner().invoke(cli, ["-C", str(root), "--role", "guest", *words])
    return f"{run.exit_code} {run.output}"


def test_a_method_of_python_answers_about_a_hidden_object_as_about_an_unknown_one(
    shared: Path, ids: dict[str, str]
) -> None:
    every = {
        f"{of.__name__}.{name}"
        for of in (Project, Chat)
        for name, _ in inspect.getmembers(of)
        if not name.startswith("_")
    }
    assert sorted(every - TABLES["python"].keys()) == sorted(TABLES["other_python"])
    with open_project(shared, role="guest") as project:
        places = {"project": project, "chat": project.chat("c1")}
        for expression, hidden in with_ids(list(TABLES["python"].values()), ids):
            unknown = f"{hidden}x"
            answers = []
            for value in (hidden, unknown):
                with pytest.raises(CovaltError) as raised:
                    eval(expression.replace("{id}", repr(value)), places)
                answers.append(without_ids(json.dumps(raised.value.as_json()), hidden, unknown))
            assert answers[0] == answers[1], expression


async def listed(request: Awaitable[Any]) -> str:
    return (await request).model_dump_json()  # type: ignore[no-any-return]


async def answer_of(request: Awaitable[Any]) -> str:
    return json.dumps(await request)


METHODS: dict[str, Callable[[Client, str], Awaitable[str]] | None] = {
    "tools/list": lambda client, _: listed(client.list_tools()),
    "tools/call": lambda client, name: listed(client.call_tool(name, {})),
    "prompts/list": lambda client, _: listed(client.list_prompts()),
    "prompts/get": lambda client, name: listed(client.get_prompt(name, {"topic": "a"})),
    "resources/list": lambda client, _: listed(client.list_resources()),
    "resources/templates/list": lambda client, _: listed(client.list_resource_templates()),
    "resources/read": lambda client, name: listed(client.read_resource(name)),
    "completion/complete": lambda client, name: listed(
        client.complete(
            ResourceTemplateReference(uri=name) if "://" in name else PromptReference(name=name),
            {"name": "name", "value": ""},
        )
    ),
    "tasks/get": lambda client, name: answer_of(tasks_client.get(client, name)),
    "tasks/update": lambda client, name: answer_of(tasks_client.update(client, name, key={})),
    "tasks/cancel": lambda client, name: answer_of(tasks_client.cancel(client, name)),
    "skills/list": lambda client, _: answer_of(skill_requests.list_skills(client)),
    "skills/get": lambda client, name: answer_of(skill_requests.get_skill(client, name)),
    "resources/directory/read": lambda client, name: answer_of(
        skill_requests.read_directory(client, name)
    ),
    "resources/subscribe": None,
    "resources/unsubscribe": None,
    "subscriptions/listen": None,
    "logging/setLevel": None,
    "ping": None,
    "server/discover": None,
}
"""Requests of each method with the name of an object; None: the method names none, or only says what has changed."""
OBJECTS = [
    ("app-builder.write_file", "app-builder.write_filx"),
    ("app-builder:write_file", "app-builder:write_filx"),
    ("guide.explain", "guide.explaix"),
    ("c1.{call}", "c1.{no_call}"),
    ("skill://handbook/review-code/SKILL.md", "skill://handbook/review-codx/SKILL.md"),
    ("skill://handbook/review-code", "skill://handbook/review-codx"),
    ("guide://all", "guide://alx"),
    ("guide://chapters/one", "guide://chapterx/one"),
    ("guide://chapters/{name}", "guide://chapterx/{name}"),
    (
        "covalt-git://chats/c1/manifests/{head}/result",
        "covalt-git://chats/c1/manifests/{no_head}/result",
    ),
    (
        "covalt-git://chats/c1/manifests/{head}/links/1",
        "covalt-git://chats/c1/manifests/{no_head}/links/1",
    ),
]


def test_a_method_of_mcp_answers_about_a_hidden_object_as_about_an_unknown_one(
    shared: Path, ids: dict[str, str]
) -> None:
    objects = with_ids(OBJECTS, ids)
    server = RequestHandlers(Gateway(shared, "guest")).server()
    assert sorted(server._request_handlers.keys() - METHODS.keys()) == []

    async def say(client: Client) -> list[tuple[str, str]]:
        naming = []
        for method, request in METHODS.items():
            if request is None:
                continue
            for hidden, unknown in objects:
                answers = []
                for name in (hidden, unknown):
                    try:
                        answers.append(await request(client, name))
                    except MCPError as error:
                        answers.append(f"{error.error}")
                if "list" in method:
                    if NAMES.search(answers[0]) or re.search("guide|handbook", answers[0]):
                        naming.append((method, answers[0]))
                elif without_ids(answers[0], hidden, unknown) != without_ids(
                    answers[1], hidden, unknown
                ):
                    naming.append((method, hidden))
        return naming

    assert talk(shared, say, role="guest", chat="c1", extensions=tasks_client.EXTENSIONS) == []
