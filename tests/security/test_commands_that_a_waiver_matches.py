"""A waiver of a shell's argument by a pattern waives no second command."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.access import confirmation
from covalt_git.access.shell_arguments import METACHARACTERS, is_shell_argument
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.models.tool_properties import UNREAD_SCHEMA
from covalt_git.toolsets.project_files import read_project
from covalt_git.toolsets.toolset import read_toolset
from tests.examples import examples
from tests.toolsets.projects import put


def asks(pattern: Any, args: dict[str, Any], *, path: str = "cmd", schema: Any = None) -> bool:
    tool = Tool(
        tool_id="fs:sh",
        toolset_id="fs",
        name="Sh",
        description="",
        kind="python",
        input_schema=schema or {"type": "object"},
        confirmation=("toolset",),
    )
    rule = {"pattern": "fs.sh", "when": {"args": {path: pattern}}, "require": False}
    return bool(
        confirmation(ProjectConfig.model_validate({"version": 1, "approvals": [rule]}), tool, args)
    )


@pytest.mark.parametrize(
    "text",
    [
        "git status; touch pwned",
        "git status && touch pwned",
        "git status | sh",
        "git status & touch pwned",
        "git status > /etc/x",
        "git log $(touch pwned)",
        "git log `touch pwned`",
        "git status\ntouch pwned",
        "git status\rtouch pwned",
        "git log <(touch pwned)",
    ],
)
def test_a_command_after_the_waived_one_needs_approval(text: str) -> None:
    assert not asks("git *", {"cmd": "git status"})
    assert asks("git *", {"cmd": text})


@given(st.text(max_size=20), st.sampled_from(sorted(METACHARACTERS)), st.text(max_size=20))
def test_no_pattern_waives_a_character_that_it_has_not(
    before: str, character: str, after: str
) -> None:
    assert asks("git *", {"cmd": f"git {before}{character}{after}"})
    assert asks("*", {"cmd": f"{before}{character}{after}"})


@pytest.mark.parametrize("more", ["& touch x", "&& touch x", "; touch x", "| sh", "$(touch x)"])
def test_a_character_of_the_pattern_is_waived_only_where_the_pattern_has_it(more: str) -> None:
    pattern = "npm test && npm *"

    assert not asks(pattern, {"cmd": "npm test && npm run build"})
    assert asks(pattern, {"cmd": f"npm test && npm x {more}"})


def test_a_pattern_with_the_character_and_a_whole_command_match_as_written() -> None:
    assert not asks("git log * | head", {"cmd": "git log -3 | head"})
    assert asks("git log * | head", {"cmd": "git log; x | head"})
    assert not asks("cd x; make", {"cmd": "cd x; make"})


@pytest.mark.parametrize(
    "path", ["command", "CMD", "Script", "shell", "code", "options.cmd", "code.0"]
)
def test_arguments_of_a_shell_are_known_by_name(path: str) -> None:
    value: Any = "git a; b"
    for name in reversed(path.split(".")):
        value = [value] if name.isdigit() else {name: value}

    assert asks("git *", value, path=path)


def test_arguments_of_a_shell_are_known_by_their_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"steps": {"type": "array", "items": {"$ref": "#/$defs/Line"}}},
        "$defs": {
            "Line": {"type": "object", "properties": {"run": {"type": "string", "x-shell": True}}}
        },
    }

    assert asks("git *", {"steps": [{"run": "git a; b"}]}, path="steps.0.run", schema=schema)
    assert not asks("git *", {"steps": [{"run": "git a; b"}]}, path="steps.0.run")


def test_other_arguments_match_as_before() -> None:
    assert not asks("notes/*", {"path": "notes/a;b.md"}, path="path")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("fs.run", ["CG218"]), ("*", ["CG218"]), ("fs.other", []), ("web.*", [])],
)
def test_validate_warns_of_arguments_whose_schema_says_that_a_shell_reads_them(
    tmp_path: Path, pattern: str, expected: list[str]
) -> None:
    tools = """\
  - id: run
    name: Run
    description: Runs a line.
    requires_confirmation: true
    input_schema: {type: object, properties: {line: {type: string, x-shell: true}}}
    http: {method: POST, url: "https://example.com/run", body: {json: {line: "$args.line"}}}
  - id: other
    name: Other
    description: Takes a line.
    requires_confirmation: true
    input_schema: {type: object, properties: {line: {type: string}}}
    http: {method: POST, url: "https://example.com/other", body: {json: {line: "$args.line"}}}
"""
    put(
        tmp_path,
        "fs/toolset.yaml",
        f"manifest_version: '1'\nid: fs\nname: Fs\nversion: '1'\ntools:\n{tools}",
    )
    rule = f'{{pattern: "{pattern}", when: {{args: {{line: "git *"}}}}, require: false}}'
    (tmp_path / "covalt.yaml").write_text(f"version: 1\napprovals:\n  - {rule}\n")

    assert [problem.code for problem in read_project(tmp_path).problems] == expected


X_SHELL = {"type": "string", "x-shell": True}


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"A": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/A", **X_SHELL}}},
        {"properties": {"x": {"anyOf": [X_SHELL, {"type": "null"}]}}},
        {"$defs": {"A": X_SHELL}, "properties": {"x": {"allOf": [{"$ref": "#/$defs/A"}]}}},
        {"properties": {"x": {"type": "string"}}, "allOf": [{"properties": {"x": X_SHELL}}]},
        {"additionalProperties": X_SHELL},
        {"patternProperties": {"^x": X_SHELL}},
        {"properties": {"x": {"$dynamicRef": "#a"}}, "$defs": {"A": {"$dynamicAnchor": "a"}}},
        {"properties": {"x": {"$id": "a", "$ref": "#/x"}}, "x": {}},
    ],
    ids=str,
)
def test_a_schema_that_says_shell_anywhere_or_cannot_be_followed_waives_no_second_command(
    schema: dict[str, Any],
) -> None:
    schema = {"type": "object", **schema}

    assert asks("git *", {"x": "git a; b"}, path="x", schema=schema)
    assert not asks("git *", {"x": "git a"}, path="x", schema=schema)


STEPS: dict[str, Callable[[Any], tuple[str, Any]]] = {
    "properties": lambda inner: ("name", {"properties": {"name": inner}}),
    "patternProperties": lambda inner: ("name", {"patternProperties": {"n": inner}}),
    "additionalProperties": lambda inner: ("name", {"additionalProperties": inner}),
    "unevaluatedProperties": lambda inner: ("name", {"unevaluatedProperties": inner}),
    "items": lambda inner: ("1", {"items": inner}),
    "prefixItems": lambda inner: ("1", {"prefixItems": [True, inner]}),
    "items of draft 7": lambda inner: ("1", {"items": [{}, inner]}),
    "unevaluatedItems": lambda inner: ("1", {"unevaluatedItems": inner}),
}
"""Keywords for parts of a value: the name of the part, and a schema of the value."""

BESIDE: dict[str, Callable[[Any], Any]] = {
    "allOf": lambda inner: {"allOf": [{}, inner]},
    "anyOf": lambda inner: {"anyOf": [inner, {"type": "null"}]},
    "oneOf": lambda inner: {"oneOf": [False, inner]},
    "if": lambda inner: {"if": inner},
    "then": lambda inner: {"if": True, "then": inner},
    "else": lambda inner: {"if": True, "else": inner},
    "dependentSchemas": lambda inner: {"dependentSchemas": {"other": inner}},
}
"""Keywords for the same value."""


@settings(max_examples=examples(300))
@given(
    st.lists(st.sampled_from([*STEPS, *BESIDE, "$ref", "$anchor"]), min_size=1, max_size=8),
    st.booleans(),
)
def test_the_schema_of_a_shells_argument_is_found_behind_all_keywords(
    keywords: list[str],
    says_shell: bool,  # noqa: FBT001 - hypothesis gives it by its position
) -> None:
    schema: Any = {"type": "string"} | ({"x-shell": True} if says_shell else {})
    path: list[str] = []
    definitions: dict[str, Any] = {}
    for number, keyword in enumerate(keywords):
        if keyword in STEPS:
            name, schema = STEPS[keyword](schema)
            path.insert(0, name)
        elif keyword in BESIDE:
            schema = BESIDE[keyword](schema)
        else:  # a reference, beside which other keywords count too
            key = f"{keyword}~/{number}"
            definitions[key] = {**schema, "$anchor": f"a{number}"}
            reference = f"#a{number}" if keyword == "$anchor" else f"#/$defs/{keyword}~0~1{number}"
            schema = {"$ref": reference, "description": "more"}

    found = is_shell_argument({**schema, "$defs": definitions}, ".".join(path) or "none")

    assert found is says_shell


@pytest.mark.parametrize(
    "parameter",
    [
        "line: Annotated[str, Field(json_schema_extra={'x-shell': True})]",
        "line: str = Field(json_schema_extra={'x-shell': True})",
        "line: Annotated[str, Field(json_schema_extra=EXTRA)]",
        "line: Annotated[str, Field(json_schema_extra={'x-shell': True})] | unknown",
        "line: Annotated[Annotated[str, Field(json_schema_extra={'x-shell': 1})], Field(title='x')]",
        "line: Annotated[str, Field(**EXTRA)]",
        "line: Shell",
        "line: 'Shell'",
        "line: Shell | None = None",
        "line: list[Shell] | Shell",
        "line: kinds.Shell",
    ],
)
@pytest.mark.parametrize("declared", ["", "    input_schema: {type: object}\n"])
def test_a_function_says_that_a_shell_reads_an_argument(
    tmp_path: Path, parameter: str, declared: str
) -> None:
    manifest = "id: fs\nname: Fs\nversion: '1'\ntools:\n  - id: run\n    entrypoint: tools:run\n"
    put(tmp_path, "fs/toolset.yaml", manifest + "    requires_confirmation: true\n" + declared)
    code = (
        "from typing import Annotated\nfrom pydantic import Field\nfrom covalt_toolset import tool\n"
        "import kinds\nfrom kinds import Shell\n"
        f"EXTRA = dict()\n@tool\ndef run({parameter}) -> dict[str, str]:\n    return {{}}\n"
    )
    put(tmp_path, "fs/tools.py", code)
    shell = "Shell = Annotated[str, Field(json_schema_extra={'x-shell': True})]\n"
    put(
        tmp_path,
        "fs/kinds.py",
        f"from typing import Annotated\nfrom pydantic import Field\n{shell}",
    )
    (tool,) = read_toolset(tmp_path, "fs").tools
    rule = {"pattern": "fs.run", "when": {"args": {"line": "git *"}}, "require": False}
    config = ProjectConfig.model_validate({"version": 1, "approvals": [rule]})

    assert confirmation(config, tool, {"line": "git a; b"})
    assert not confirmation(config, tool, {"line": "git a"})


def test_a_value_of_an_object_whose_type_is_not_read_counts_as_a_shells() -> None:
    lines = {"type": "object", "additionalProperties": {UNREAD_SCHEMA: True}}
    schema = {"type": "object", "properties": {"lines": lines}}

    for text, needs in (("echo 1; echo pwned", True), ("echo 1", False)):
        args = {"lines": {"first": text}}
        assert asks("echo *", args, path="lines.first", schema=schema) is needs


@pytest.mark.parametrize("path", ["x.line", "x.text"])
def test_a_field_of_a_shell_is_one_under_each_of_its_names(tmp_path: Path, path: str) -> None:
    put(
        tmp_path,
        "fs/toolset.yaml",
        "id: fs\nname: Fs\nversion: '1'\ntools:\n  - id: run\n    entrypoint: tools:run\n"
        "    requires_confirmation: true\n",
    )
    put(
        tmp_path,
        "fs/tools.py",
        "from covalt_toolset import tool\nfrom pydantic import BaseModel, Field\n"
        "class Step(BaseModel, populate_by_name=True):\n"
        "    line: str = Field('', alias='text', json_schema_extra={'x-shell': True})\n"
        "@tool\ndef run(x: Step) -> dict[str, str]:\n    return {}\n",
    )
    (tool,) = read_toolset(tmp_path, "fs").tools
    rule = {"pattern": "fs.run", "when": {"args": {path: "git *"}}, "require": False}
    config = ProjectConfig.model_validate({"version": 1, "approvals": [rule]})
    name = path.partition(".")[2]

    assert confirmation(config, tool, {"x": {name: "git a; b"}})
    assert not confirmation(config, tool, {"x": {name: "git a"}})
