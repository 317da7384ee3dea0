"""Mistakes in the files of a project, each with a code, a place and a message that says how to fix it."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from covalt_git.errors import Problem
from covalt_git.problems import codes
from covalt_git.problems.explain import titles
from covalt_git.toolsets.project_files import read_project
from covalt_git.toolsets.toolset import read_toolset
from tests.counted_work import work_of
from tests.examples import named
from tests.tables import tables
from tests.toolsets.projects import CASES, HEAD, MANIFEST, put_case, put_hello

TABLES = tables(__file__)

each_case = pytest.mark.parametrize(
    "case", [pytest.param(path, id=path.name) for path in sorted(CASES.iterdir()) if path.is_dir()]
)


def problems(root: Path) -> tuple[Problem, ...]:
    return read_project(root).problems


def found(root: Path, more: str) -> list[tuple[int, int, str]]:
    """Return places and codes of what is wrong with ``hello`` after adding to its manifest."""
    put_hello(root, MANIFEST + more)
    return [(one.line, one.col, one.code) for one in problems(root)]


# Golden cases


@pytest.mark.requirement(
    "cjson-toolsets.headers.credentials",
    "cjson-toolsets.server.credentials",
    "cjson-toolsets.id",
    "cjson-tools.name.required",
    "covalt-1.4.unique",
    "covalt-3.2.renderer",
)
@each_case
def test_each_case_is_reported_as_expected_with_places_and_in_house_style(
    case: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    put_case(case, tmp_path)

    found = problems(tmp_path)

    shown = "".join(f"{problem}\n" for problem in found)
    expected = case / "expected.txt"
    if pytestconfig.getoption("update_golden"):
        expected.write_text(shown, encoding="utf-8")
    assert shown == expected.read_text(encoding="utf-8")
    for problem in found:
        if problem.line:
            text = (tmp_path / problem.path).read_text(encoding="utf-8", errors="replace")
            lines = [*text.splitlines(), ""]
            assert 1 <= problem.col <= len(lines[problem.line - 1]) + 1
        for words in filter(None, (problem.message, problem.hint)):
            assert not words[0].isupper()
            assert not words.endswith(".") or words.endswith("...")
            assert "\n" not in words


def test_every_code_that_can_be_raised_has_a_case() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in CASES.glob("*/expected.txt"))

    # Tracked files and links are in tests/security/: test_trust.py and test_links_of_a_clone.py.
    # Rules and their cases are in tests/authority/test_policy.py, which checks a whole project.
    elsewhere = {"CG404", "CG405", "CG408", "CG409", "CG410", "CG411"}
    assert set(re.findall(r"CG\d\d\d", text)) == set(titles()) - elsewhere


# What is no mistake


FRAME = (
    "renderer: frame, renderer_config: {url: 'http://localhost:$return.port', port: $return.port}"
)


@pytest.mark.parametrize(
    "more", [*TABLES["allowed"], f"tool_overrides:\n- {{tool_id: greet, {FRAME}}}\n"]
)
def test_these_are_allowed(tmp_path: Path, more: str) -> None:
    assert found(tmp_path, more) == []


def test_the_variables_of_a_graphql_query_are_arguments(tmp_path: Path) -> None:
    query = "query ($a: ID!, $b: Int, $c: [In!]! = [], $d: Boolean!) { x(a: $a) { $select } }"
    body = f"{{graphql: {{query: '{query}', select: {{default: y}}}}}}"
    http = f"{{method: POST, url: 'https://a.example/', body: {body}, parameters: {{e: {{in: body, name: d}}}}}}"
    put_hello(tmp_path, f"{HEAD}\ntools:\n  - {{id: ask, http: {http}}}\n")

    assert read_toolset(tmp_path, "hello").tools[0].input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "integer"]},
            "b": {"type": ["integer", "null"]},
            "c": {},
            "select": {"type": ["string", "null"]},
            "e": {},
        },
        "required": ["a"],
        "additionalProperties": False,
    }


def test_the_schema_of_a_request_without_one_has_the_arguments_that_it_names(
    tmp_path: Path,
) -> None:
    asks = 'tools:\n  - {id: ask, http: {url: "https://a.example/{id}", query: {q: $args.q}}}\n'
    put_hello(tmp_path, f"{HEAD}\n{asks}")

    assert read_toolset(tmp_path, "hello").tools[0].input_schema == {
        "type": "object",
        "properties": {"id": {"type": "string"}, "q": {}},
        "required": ["id"],
        "additionalProperties": False,
    }


# Entrypoints


def test_a_package_is_read_before_a_file_as_python_does(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    (toolset / "tools" / "hello").mkdir()
    (toolset / "tools" / "hello" / "__init__.py").write_text("def other(): ...\n")

    assert [one.code for one in problems(tmp_path)] == [codes.NO_FUNCTION]
    assert "tools/hello/__init__.py has no function 'greet'" in problems(tmp_path)[0].message


# Arguments


def test_schema_and_function_that_disagree_warn_only_and_the_schema_wins(tmp_path: Path) -> None:
    put_hello(tmp_path, f"{MANIFEST}    input_schema: {{properties: {{nam: {{}}}}}}\n")

    reading = read_project(tmp_path)

    assert [one.severity for one in reading.problems] == ["warning", "warning"]
    assert reading.toolsets[0].sound
    assert read_toolset(tmp_path, "hello").tools[0].input_schema == {"properties": {"nam": {}}}


def test_a_broken_schema_is_reported_once_and_not_for_its_examples(tmp_path: Path) -> None:
    more = "    input_schema: {type: objekt}\n    examples: [{args: {name: 1}}]\n"

    assert found(tmp_path, more) == [(11, 26, codes.BAD_SCHEMA)]


def test_examples_are_checked_against_the_function(tmp_path: Path) -> None:
    assert found(tmp_path, "    examples: [{args: {name: 5}}]\n") == [(11, 30, codes.BAD_EXAMPLE)]


# One problem for one mistake


def test_the_mistakes_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    put_hello(tmp_path, MANIFEST.replace("entrypoint", "entrypont"))
    (tmp_path / "covalt.yaml").write_text("version: 2\n")
    (tmp_path / "toolsets" / "state").mkdir()
    (tmp_path / "toolsets" / "state" / "hello.yaml").write_text("enabled: yes\n")

    assert [one.path for one in problems(tmp_path)] == [
        "covalt.yaml",
        "toolsets/hello/toolset.yaml",
        "toolsets/state/hello.yaml",
    ]


# Many names


def lines(count: int, line: str) -> str:
    """Return a line for each number, which replaces its #."""
    return "".join(line.replace("#", str(number)) for number in range(count))


def names(count: int, name: str) -> str:
    return lines(count, f"{name}#, ")


HTTP_TOOL = "tools:\n- id: t\n  name: T\n  description: d\n  http:\n    url: https://a.com/\n"
MANY: dict[str, Callable[[int], str]] = {
    "secrets": lambda count: (
        f"secrets: [{names(count, 'S')}]\n{HTTP_TOOL}    headers:\n"
        + lines(count, "      X#: '${Z#}'\n")
        + "  input_schema: {type: object}\n"
    ),
    "arguments": lambda count: (
        f"{HTTP_TOOL}    query:\n"
        + lines(count, "      p#: $args.z#\n")
        + "  input_schema:\n    type: object\n    properties:\n"
        + lines(count, "      y#: {}\n")
    ),
    "overrides": lambda count: (
        "tools:\n"
        + lines(count, "- {id: t#, name: T, http: {url: 'https://a.com/'}, description: d}\n")
        + "tool_overrides:\n"
        + lines(count, "- {tool_id: u#, renderer: code}\n")
    ),
    "examples": lambda count: (
        f"{HTTP_TOOL}  input_schema:\n    type: object\n    additionalProperties: false\n"
        "    properties:\n"
        + lines(count, "      y#: {}\n")
        + f"    required: [{names(count, 'r')}]\n"
        f"  examples:\n  - args: {{{lines(count, 'q#: 1, ')}}}\n"
    ),
}


@pytest.mark.parametrize(
    "count", [100, *(pytest.param(count, marks=pytest.mark.rest) for count in (200, 500))]
)
@pytest.mark.parametrize("name", named(MANY, "arguments", "examples"))
def test_twice_as_many_unknown_names_take_twice_the_work(
    name: str, count: int, tmp_path: Path
) -> None:
    def project(count: int) -> Path:
        root = tmp_path / str(count)
        # What was read is remembered by the text of a file, and rows have texts in common.
        put_hello(root, f"# {tmp_path.name}\n{HEAD}\n{MANY[name](count)}")
        return root

    read_project(project(10))  # what is cached for all files
    small, large = (work_of(partial(read_project, project(size))) for size in (count, 2 * count))

    assert large < 2.2 * small
