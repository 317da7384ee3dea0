"""Each operation keeps its contract, and each face that has it performs it.

``cases/<module>.yaml`` says how each operation of a module is reached:

- ``request``: fields with which it succeeds on the project of ``conftest.py``; ``{call}``, ``{message}``
  and so on are replaced by ids of that project, ``{root}`` for its folder; uploads are objects of texts by file names
- ``cli``: the command that does the same, without ``--json``
- ``also``: other commands that perform it
- ``refused``: instead of a success, the error that this project gives
- ``page``: the page that performs it, as METHOD PATH; the query of a POST is its form
- ``tool``: the built-in tool that performs it, and its arguments
- ``python``: an expression of the Python API that performs it, with ``project`` and the ``chat`` c1
- ``unknown``: fields that name nothing, so that the answer is 404
- ``missing``: a field without which the request is invalid
- ``hidden``: fields that name what the role ``guest`` may not see; the answer is the same 404
"""

import io
import json
import shlex
import shutil
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner
from flask import Flask
from pydantic import BaseModel
from werkzeug.test import Client, TestResponse
from werkzeug.wrappers import Response

from covalt_git import Chat, open_project
from covalt_git.calls.background import BackgroundCalls
from covalt_git.calls.engine import CallRequest
from covalt_git.cli import cli, main
from covalt_git.errors import CovaltError
from covalt_git.operations.calls.calls import make_call
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Operation
from covalt_git.project import Project
from covalt_server.api.http import method
from tests.api_client import BEARER, HOME, Api, form_file, refused
from tests.command import commands
from tests.copied import copied
from tests.operation_cases import CASES, OPERATIONS
from tests.operations.conftest import comparable


class BrokenError(CovaltError):
    """What an operation raises that a test has replaced."""

    code = "broken"
    http_status = 418


def with_ids(value: Any, ids: dict[str, str]) -> Any:
    """Return a value of a case with the ids of its project."""
    text = json.dumps(value)
    for name, text_id in ids.items():
        text = text.replace(f"{{{name}}}", text_id)
    return json.loads(text)


def send(api: Api, name: str, request: dict[str, Any], role: str | None = None) -> TestResponse:
    """Perform an operation over the API, or a local operation in this process."""
    operation = OPERATIONS[name]
    if operation.local:
        return perform(api.root, operation, request, role)
    if method(operation) == "GET":
        return api.ask(name, **request)
    if operation.upload_limit is not None:
        return api.send_form(name, {key: form_value(value) for key, value in request.items()})
    return api.tell(name, **request)


def form_value(value: Any) -> object:
    """Return a field of a form; a dict has texts of files by their names, a list has paths of files."""
    if isinstance(value, dict):
        return [form_file(file, content.encode()) for file, content in value.items()]
    if isinstance(value, list):
        return [form_file(Path(path).name, Path(path).read_bytes()) for path in value]
    return value


def perform(
    root: Path, operation: Operation[Any, Any], request: dict[str, Any], role: str | None
) -> TestResponse:
    status = 200
    try:
        with Context(root, partial(Project.open, root, role=role)) as context:
            content = operation(context, **request).model_dump_json(by_alias=True)
    except CovaltError as error:
        status, content = error.http_status, json.dumps(error.as_json())
    answer = Response(content, status, mimetype="application/json")
    return Client(answer).get()


def of_cases(*wanted: str) -> pytest.MarkDecorator:
    """Run a test for each operation whose case has one of these keys."""
    names = [name for name, case in CASES.items() if any(case.get(key) for key in wanted)]
    return pytest.mark.parametrize("name", names)


@pytest.fixture(scope="module")
def unchanged(
    template: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A copy of the project for what only reads."""
    return copied(template[0], tmp_path_factory.mktemp("unchanged") / "project")


@pytest.fixture
def folder(
    name: str, template: tuple[Path, dict[str, str]], unchanged: Path, tmp_path: Path
) -> Path:
    """The project: a copy of this test's own for an operation that may change something."""
    only_reads = not (OPERATIONS[name].changes or OPERATIONS[name].local)
    return unchanged if only_reads else copied(template[0], tmp_path / "project")


@pytest.fixture
def case(name: str, ids: dict[str, str], folder: Path) -> dict[str, Any]:
    return case_in(folder, name, ids)


def case_in(root: Path, name: str, ids: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = with_ids(CASES[name], {**ids, "root": str(root)})
    return {"request": {}, **found}


@pytest.fixture(scope="module")
def shared(template: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project for the tests in which every request fails."""
    folder = tmp_path_factory.mktemp("shared") / "project"
    return Path(shutil.copytree(template[0], folder, symlinks=True))


@cache
def api_of(root: Path, role: str | None = None) -> Api:
    return Api.of(root, role)


@pytest.fixture(scope="module")
def app(shared: Path) -> Flask:
    """An app whose project changes from test to test; its two hundred routes take 40 ms to make."""
    return Api.of(shared).app


@pytest.fixture
def api(folder: Path, app: Flask) -> Api:
    """The HTTP API of the project of a test."""
    app.config.update(COVALT_ROOT=folder, COVALT_STREAMS=BackgroundCalls())
    return Api(folder, app)


@pytest.fixture
def failing(name: str, ids: dict[str, str], shared: Path) -> dict[str, Any]:
    return case_in(shared, name, ids)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.get("cli")])
def test_the_result_is_as_its_model_says(api: Api, name: str, case: dict[str, Any]) -> None:
    answer = send(api, name, case["request"])
    if "refused" in case:
        assert answer.get_json()["error"] == case["refused"], answer.get_data(as_text=True)
        return

    assert_is_its_model(answer, name)


def assert_is_its_model(answer: TestResponse, name: str) -> None:
    assert answer.status_code == 200, answer.get_data(as_text=True)
    if issubclass(model := OPERATIONS[name].result, BaseModel):
        model.model_validate_json(answer.get_data())


@of_cases("cli")
def test_the_command_answers_as_the_api(
    folder: Path, unchanged: Path, api: Api, tmp_path: Path, name: str, case: dict[str, Any]
) -> None:
    """The JSON of both is the same and as the model says; what changes a project has a copy for each."""
    twin = folder if folder == unchanged else copied(folder, tmp_path / "twin")
    answer = send(api, name, case["request"])
    args = shlex.split(case["cli"].replace(str(folder), str(twin)))
    args = ["-C", str(twin), *args, "--json"]
    done = CliRunner().invoke(cli, args, catch_exceptions=False)

    assert_is_its_model(answer, name)
    assert done.exit_code == 0, done.output
    assert comparable(done.stdout, twin) == comparable(answer.get_data(as_text=True), folder)


@of_cases("unknown")
def test_what_does_not_exist_is_unknown(shared: Path, name: str, failing: dict[str, Any]) -> None:
    answer = send(api_of(shared), name, {**failing["request"], **failing["unknown"]})

    assert answer.status_code == 404, answer.get_data(as_text=True)
    assert answer.get_json()["error"].startswith("unknown_")


@of_cases("missing")
def test_a_request_without_a_field_is_refused(
    shared: Path, name: str, failing: dict[str, Any]
) -> None:
    request = {key: value for key, value in failing["request"].items() if key != failing["missing"]}
    told = refused(send(api_of(shared), name, request), 400, "invalid_request")

    assert failing["missing"] in [problem["path"] for problem in told["problems"]]


@of_cases("hidden")
def test_what_a_role_may_not_see_is_unknown(
    shared: Path, name: str, failing: dict[str, Any]
) -> None:
    guest = api_of(shared, role="guest")
    answer = send(guest, name, {**failing["request"], **failing["hidden"]}, role="guest")

    assert answer.status_code == 404, answer.get_data(as_text=True)


@pytest.fixture(scope="module")
def ruled(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with a rule in place of what the role ``guest`` may call."""
    twin = copied(shared, tmp_path_factory.mktemp("ruled") / "project")
    config = (twin / "covalt.yaml").read_text()
    rules = (
        'rules:\n  - {pattern: "data-lab.*", roles: [guest], effect: ask}\n'
        '  - {pattern: "workspace.branch", roles: [guest], effect: allow}\n'
        '  - {pattern: "**", roles: [guest], effect: deny}\n'
    )
    visible = config.replace('allow: ["data-lab.*", "workspace.branch"]', 'allow: ["**"]')
    before = visible[: visible.index("approvals:\n")]
    after = visible[visible.index("secret_command:") :]
    (twin / "covalt.yaml").write_text(before + rules + after)
    return twin


@of_cases("hidden")
def test_what_a_rule_hides_answers_as_what_a_role_may_not_see(
    shared: Path, ruled: Path, name: str, failing: dict[str, Any]
) -> None:
    request = {**failing["request"], **failing["hidden"]}
    by_role, by_rule = (
        send(api_of(root, "guest"), name, request, role="guest") for root in (shared, ruled)
    )

    assert by_rule.status_code == by_role.status_code == 404
    assert comparable(by_rule.get_data(as_text=True), ruled) == comparable(
        by_role.get_data(as_text=True), shared
    )


@pytest.mark.parametrize("name", [name for name in CASES if OPERATIONS[name].admin])
def test_what_only_an_administrator_may_do_is_refused(
    shared: Path, name: str, failing: dict[str, Any]
) -> None:
    answer = send(api_of(shared, role="guest"), name, failing["request"], role="guest")
    refused(answer, 403, "forbidden")


@pytest.mark.parametrize("name", [name for name in CASES if OPERATIONS[name].local])
def test_what_is_local_is_not_offered_over_http(shared: Path, name: str) -> None:
    api = api_of(shared)

    assert api.ask(name).status_code == api.tell(name).status_code == 404


def test_the_text_of_a_new_token_is_not_in_its_repr(root: Path) -> None:
    with Context(root, partial(Project.open, root)) as context:
        made = OPERATIONS["create_token"](context, role="guest")

    assert made.token.startswith("cvg_")
    assert made.token not in f"{made!r} {made}"


@pytest.mark.parametrize("name", CASES)
def test_each_face_performs_the_operation(
    shared: Path,
    name: str,
    failing: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """If the operation is replaced by a failing one, each face that has it fails."""
    api = api_of(shared)
    break_operation(OPERATIONS[name], monkeypatch)

    refused(send(api, name, failing["request"]), 418, "broken")
    # What a command reads that takes no argument for it: the value of a secret.
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a-long-value")))
    for line in [failing[key] for key in ("cli",) if key in failing] + failing.get("also", []):
        with pytest.raises(SystemExit) as ended:
            main(["-C", str(shared), *shlex.split(line), "--json"])
        assert ended.value.code == 1, line
        assert json.loads(capsys.readouterr().err)["error"] == "broken"
    if "page" in failing:
        assert open_page(api, failing["page"]).status_code == 418
    if "tool" in failing:
        call = CallRequest(f"workspace:{failing['tool']['id']}", failing["tool"]["args"])
        with Context(shared, partial(Project.open, shared)) as context, pytest.raises(BrokenError):
            make_call(context, context.chat("c1"), call)
    if "python" in failing:
        with open_project(shared) as project, pytest.raises(BrokenError):
            eval(failing["python"], {"project": project, "chat": Chat(project._session, "c1")})


def break_operation(operation: Operation[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise BrokenError("the operation is broken")

    broken.__name__ = operation.name
    # An operation is frozen, so that nothing but a test replaces its function.
    monkeypatch.setattr(Operation, "__setattr__", object.__setattr__)
    monkeypatch.setattr(Operation, "__delattr__", object.__delattr__)
    monkeypatch.setattr(operation, "run", broken)


def open_page(api: Api, page: str) -> TestResponse:
    """Open a page as a browser does, or send its form."""
    verb, _, url = page.partition(" ")
    parts = urlsplit(url)
    values = {key: value[0] for key, value in parse_qs(parts.query).items()}
    headers = {**BEARER, "Accept": "text/html", "Origin": HOME}
    client = api.client()
    if verb == "GET":
        return client.get(url, base_url=HOME, headers=headers)
    return client.post(parts.path, base_url=HOME, data=values, headers=headers)


OTHERS = [
    "serve",
    "storage serve",
    "dev",
    "init",
    "doctor",
    "mcp",
    "worker",
    "index",
    "schema",
    "explain",
    "approval watch",
]
"""Commands that are no operation: they run a process, perform several in turn, or are about the program itself."""


def test_every_operation_has_a_case() -> None:
    assert sorted(CASES) == sorted(OPERATIONS)


def test_every_command_performs_an_operation_or_is_one_of_the_others() -> None:
    lines = [
        line.split()
        for case in CASES.values()
        for line in [*filter(None, [case.get("cli")]), *case.get("also", [])]
    ]
    every = [
        name.split()
        for name, _ in commands(cli)
        if name.split()[0] not in OTHERS and name not in OTHERS
    ]

    # Arguments may be between the words of a command: `grant add TOOLSET network`.
    assert [one for one in every if not any(words_in(one, line) for line in lines)] == []


def words_in(words: list[str], line: list[str]) -> bool:
    """Return whether a line contains some words, in their order."""
    rest = iter(line)
    return all(word in rest for word in words)
