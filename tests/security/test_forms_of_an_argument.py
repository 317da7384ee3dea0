"""A rule that requires approval is not passed by another form of an argument, nor by its default."""

import json
import sys
import types
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_jsonable_python

from covalt_git.access import confirmation, decide_call
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.models.tool_properties import UNREAD_SCHEMA
from covalt_git.toolsets.toolset import read_toolset
from covalt_toolset import InvalidToolArguments, invoke
from tests.examples import examples
from tests.toolsets.projects import put

TOOLS = '''
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import UUID
from datetime import date
from covalt_toolset import tool
from pydantic import AfterValidator, Field, FilePath, StringConstraints

NAME = "prod.env"
Stripped = Annotated[str, StringConstraints(strip_whitespace=True)]
Made = Annotated[str, AfterValidator(str.lower)]


@dataclass
class Options:
    path: str = "prod.env"
    force: bool = False


class Target(NamedTuple):
    path: str
    force: bool = False


class Env(str, Enum):
    PROD = "prod"

    @classmethod
    def _missing_(cls, value):
        return cls(value.lower())


@tool
def unread(prices: dict[str, Decimal], target: Target, other: Target | None, env: Env) -> str:
    """Unread."""
    return ""


class Place(NamedTuple):
    host: str
    env: str = "prod"


@tool
def in_order(
    flag: Annotated[bool | str, Field(union_mode="left_to_right")], place: Place, path: FilePath
) -> str:
    """In order."""
    return ""


def with_log(function):
    return function


@tool
@with_log
def logged(city: str) -> str:
    """Log."""
    return ""


@tool
def anything(options: dict) -> str:
    """Anything."""
    return ""


@tool
def keys(by_id: dict[UUID, str], by_number: dict[int, str], stripped: Stripped, made: Made) -> str:
    """Keys."""
    return ""


@tool
def read(path: str | list[str] = "notes.md") -> str:
    """Read."""
    return ""


@tool
def read_one(path: str = NAME) -> str:
    """Read."""
    return ""


@tool
def read_path(path: Path = Path("prod") / "x.env") -> str:
    """Read."""
    return ""


@tool
def with_options(options: Options | None = None, path: str = "notes.md") -> str:
    """Read."""
    return ""


@tool
def force(force: bool = True) -> str:
    """Force."""
    return ""


@tool
def parse(id: UUID, day: date, amount: Decimal, count: int, text: str, options: Options) -> str:
    """Parse."""
    return ""
'''
UUID_TEXT = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000"
MANIFEST = """\
id: fs
name: Fs
version: "1"
tools:
  - {id: unread, entrypoint: "tools:unread"}
  - {id: in_order, entrypoint: "tools:in_order"}
  - id: logged_by_id
    entrypoint: "tools:logged"
    input_schema: {type: object, properties: {id: {type: string, format: uuid}}}
  - {id: logged, entrypoint: "tools:logged"}
  - id: logged_as_declared
    entrypoint: "tools:logged"
    input_schema: {type: object, properties: {city: {type: string}}, additionalProperties: false}
  - {id: anything, entrypoint: "tools:anything"}
  - {id: keys, entrypoint: "tools:keys"}
  - {id: read, entrypoint: "tools:read"}
  - {id: read_one, entrypoint: "tools:read_one"}
  - {id: read_path, entrypoint: "tools:read_path"}
  - {id: with_options, entrypoint: "tools:with_options"}
  - {id: force, entrypoint: "tools:force"}
  - {id: parse, entrypoint: "tools:parse"}
  - id: force_as_declared
    entrypoint: "tools:force"
    input_schema: {type: object, properties: {force: {type: boolean, default: false}}}
"""


def config(args: dict[str, Any], *, require: bool = True) -> ProjectConfig:
    rule = {"pattern": "**", "when": {"args": args}, "require": require}
    return ProjectConfig.model_validate({"version": 1, "approvals": [rule]})


def make_tool(schema: dict[str, Any], **changes: Any) -> Tool:
    return Tool(tool_id="a:x", toolset_id="a", name="x", input_schema=schema, **changes)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tool]:
    root = tmp_path_factory.mktemp("forms")
    put(root, "fs/toolset.yaml", MANIFEST)
    put(root, "fs/tools.py", TOOLS)
    return {tool.id.name: tool for tool in read_toolset(root, "fs").tools}


@pytest.mark.parametrize(
    ("tool", "args", "requires"),
    [
        ("read", {"path": "prod.env"}, True),
        ("read", {"path": ["prod.env"]}, True),
        ("read", {"path": ["a", "b/../prod.env/"]}, True),
        ("read", {"path": ["a", "b"]}, False),
        ("read", {}, False),
        ("read_one", {}, True),
        ("read_one", {"path": "notes.md"}, False),
        ("read_path", {}, True),
        ("read_path", {"path": "notes.md"}, False),
        ("with_options", {}, False),
        ("force", {}, False),
    ],
)
def test_a_pattern_matches_texts_in_lists_and_defaults(
    tools: dict[str, Tool], tool: str, args: dict[str, Any], *, requires: bool
) -> None:
    assert bool(confirmation(config({"path": "*.env"}), tools[tool], args)) is requires


@pytest.mark.parametrize(
    ("tool", "args", "requires"),
    [
        ("force", {"force": True}, True),
        ("force", {"force": False}, False),
        ("force", {}, True),
        # The default in the manifest is a description: the function has its own.
        ("force_as_declared", {}, True),
        ("force_as_declared", {"force": False}, False),
    ],
)
def test_a_missing_argument_has_the_default_of_the_function(
    tools: dict[str, Tool], tool: str, args: dict[str, Any], *, requires: bool
) -> None:
    assert bool(confirmation(config({"force": True}), tools[tool], args)) is requires


@pytest.mark.parametrize("args", [{"options": {}}, {"options": {"path": "a.env"}}])
@pytest.mark.parametrize("path", ["options", "options.path"])
def test_defaults_inside_of_an_argument_count(
    tools: dict[str, Tool], args: dict[str, Any], path: str
) -> None:
    rules = config({path: "*.env"})

    assert confirmation(rules, tools["with_options"], args)
    assert not confirmation(rules, tools["with_options"], {"options": {"path": "a"}})
    assert not confirmation(rules, tools["with_options"], {"options": None})


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"path": {"default": "prod.env"}}},
        {"properties": {"path": {"anyOf": [{"default": "a"}, {"default": ["prod.env"]}]}}},
        {"properties": {"path": {"$ref": "#/$defs/Path"}}, "$defs": {"Path": {"default": ".env"}}},
        {"allOf": [{"properties": {"path": {"default": {"to": ".env"}}}}]},
        {"properties": {"path": {"$dynamicRef": "#a"}}},
        {"$ref": "#/$defs/Node"},
    ],
    ids=str,
)
def test_a_default_is_found_wherever_the_schema_has_it(schema: dict[str, Any]) -> None:
    node = {
        "properties": {"path": {"default": {}, "$ref": "#/$defs/Node"}, "z": {"default": ".env"}}
    }
    schema = {"$defs": {"Node": node}, **schema}

    assert confirmation(config({"path": "*.env"}), make_tool(schema), {})


def test_a_path_of_a_rule_leads_into_each_item_of_a_list() -> None:
    args = {"files": [{"name": "a"}, {"name": ".env"}], "deep": [[{"name": ".env"}]]}

    assert confirmation(config({"files.name": "*.env"}), make_tool({}), args)
    assert confirmation(config({"deep.name": "*.env"}), make_tool({}), args)
    assert confirmation(config({"files": "*.env"}), make_tool({}), {"files": {".env": "text"}})
    assert not confirmation(config({"files.text": "*.env"}), make_tool({}), args)


def test_a_missing_or_other_value_never_waives_approval(tools: dict[str, Tool]) -> None:
    def asks(tool: Tool, args: dict[str, Any], **when: Any) -> bool:
        requiring = tool.model_copy(update={"confirmation": ("toolset",)})
        return bool(confirmation(config(when, require=False), requiring, args))

    assert asks(tools["read_one"], {}, path="*.env")
    assert asks(tools["force"], {}, force=True)
    assert not asks(tools["force"], {"force": True}, force=True)
    assert asks(tools["read"], {"path": ["notes.md"]}, path="*.md")
    assert not asks(tools["read"], {"path": "notes.md"}, path="*.md")


def test_the_default_of_the_tool_that_an_alias_calls_counts() -> None:
    alias = make_tool({"type": "object"}, kind="alias", alias_of="b:y")
    target = make_tool({"properties": {"path": {"default": ".env"}}})
    rule = {"pattern": "a.x", "when": {"args": {"path": "*.env"}}, "require": True}
    rules = ProjectConfig.model_validate({"version": 1, "approvals": [rule]})

    assert decide_call(
        rules.rules, (alias, target.model_copy(update={"tool_id": "b:y"})), {}
    ).reasons


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from([".env", "a/.env", "a", "b/c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner),
    max_leaves=8,
)


@settings(max_examples=examples(200))
@given(VALUES, st.sampled_from([".env", True, 3, None]))
def test_a_rule_that_requires_approval_matches_a_value_however_deep_it_is(
    value: Any, wanted: Any
) -> None:
    def contains(part: Any) -> bool:
        if isinstance(part, list | dict):
            return any(map(contains, part.values() if isinstance(part, dict) else part))
        return json.dumps(part) == json.dumps(wanted)

    given_value = confirmation(config({"a": wanted}), make_tool({}, kind="http"), {"a": value})
    schema = {"properties": {"a": {"default": value}}}
    by_default = confirmation(config({"a": wanted}), make_tool(schema, kind="http"), {})

    assert bool(given_value) is bool(by_default) is contains(value)


@pytest.mark.parametrize(
    ("wanted", "args", "requires"),
    [
        ({"id": UUID_TEXT}, {"id": UUID_TEXT.upper()}, True),
        ({"id": UUID_TEXT.upper()}, {"id": UUID_TEXT.replace("-", "")}, True),
        ({"id": UUID_TEXT}, {"id": UUID_TEXT[:-1] + "1"}, False),
        ({"day": "2026-01-01"}, {"day": "1767225600"}, True),
        ({"day": "2026-01-01"}, {"day": "2026-01-02"}, False),
        ({"amount": 1000}, {"amount": "1e3"}, True),
        ({"count": 1000}, {"count": " 1_000 "}, True),
        ({"count": 1000}, {"count": 999}, False),
        ({"text": "x"}, {"text": "X"}, False),
        ({"options.path": "*.env"}, {"options": '{"path": "prod.env"}'}, True),
        ({"options.path": "*.env"}, {"options": {"path": "notes.md"}}, False),
    ],
)
def test_another_spelling_that_python_parses_requires_approval_too(
    tools: dict[str, Tool], wanted: dict[str, Any], args: dict[str, Any], *, requires: bool
) -> None:
    assert bool(confirmation(config(wanted), tools["parse"], args)) is requires


@pytest.mark.parametrize(
    ("wanted", "args"),
    [
        ({"prices.total": 1000}, {"prices": {"total": "1e3"}}),
        ({"prices": 1000}, {"prices": {"total": "1e3"}}),
        ({"target.path": "*.env"}, {"target": ["prod.env", True]}),
        ({"target.path": "*.env"}, {"target": {"path": " prod.env "}}),
        ({"target.force": True}, {"target": {"force": "yes"}}),
        ({"target.path": "*.env"}, {"target": 1}),
        ({"target.path": "*.env"}, {"target": None}),
        ({"other.path": "*.env"}, {"other": ["prod.env", True]}),
        ({"other.path": "*.env"}, {"other": {"Path": "prod.env"}}),
        ({"env": "prod"}, {"env": "PROD"}),
    ],
)
def test_a_value_of_a_type_that_is_not_read_counts_as_any_value(
    tools: dict[str, Tool], wanted: dict[str, Any], args: dict[str, Any]
) -> None:
    assert confirmation(config(wanted), tools["unread"], args)


@pytest.mark.parametrize(
    ("wanted", "args"),
    [
        ({"by_id": UUID_TEXT}, {"by_id": {UUID_TEXT.upper(): "x"}}),
        ({f"by_id.{UUID_TEXT}": "x"}, {"by_id": {UUID_TEXT.replace("-", ""): "x"}}),
        ({"by_number": "1000"}, {"by_number": {"01000": "x"}}),
        ({"by_number.1000": "x"}, {"by_number": {" 1_000": "x"}}),
        ({"stripped": "*.env"}, {"stripped": "prod.env "}),
        ({"made": "prod.env"}, {"made": "PROD.env"}),
    ],
)
def test_what_pydantic_makes_of_keys_and_texts_requires_approval_too(
    tools: dict[str, Tool], wanted: dict[str, Any], args: dict[str, Any]
) -> None:
    assert confirmation(config(wanted), tools["keys"], args)


def test_a_value_of_a_type_that_is_read_is_compared(tools: dict[str, Tool]) -> None:
    assert not confirmation(config({"env": "dev"}), tools["unread"], {"env": "prod"})
    assert not confirmation(config({"prices.total": 1}), tools["unread"], {"prices": {"x": 1}})


@pytest.mark.parametrize("kind", ["python", "http"])
@pytest.mark.parametrize("unread", [True, False])
def test_only_the_values_of_python_types_that_are_not_read_are_open(
    kind: str, *, unread: bool
) -> None:
    prices = {"type": "object", "additionalProperties": {UNREAD_SCHEMA: True} if unread else True}
    tool = make_tool({"properties": {"prices": prices}}, kind=kind)
    args = {"prices": {"total": "1_000"}}
    asks = bool(confirmation(config({"prices.total": 1000}), tool, args))

    assert asks is (kind == "python" and unread)


def test_an_object_of_any_values_is_compared_as_it_is(tools: dict[str, Tool]) -> None:
    rules = config({"options.mode": "wipe"})

    assert confirmation(rules, tools["anything"], {"options": {"mode": "wipe"}})
    assert not confirmation(rules, tools["anything"], {"options": {"mode": "safe"}})
    assert not confirmation(rules, tools["anything"], {"options": {}})


@pytest.mark.parametrize(
    ("tool", "wanted", "args", "requires"),
    [
        ("in_order", {"flag": True}, {"flag": "yes"}, True),
        ("in_order", {"place": "prod"}, {"place": ["h"]}, True),
        ("in_order", {"place.1": "prod"}, {"place": ["h"]}, True),
        ("in_order", {"place.1": "prod"}, {"place": ["h", "dev"]}, False),
        ("in_order", {"path": "*.env"}, {"path": "a.txt"}, False),
        ("in_order", {"path": "*.env"}, {"path": "a.env"}, True),
        ("logged_by_id", {"id": UUID_TEXT}, {"id": UUID_TEXT.upper()}, True),
        # The declared schema does not say what a function that is not read makes of a text.
        ("logged_by_id", {"id": UUID_TEXT}, {"id": UUID_TEXT[:-1] + "1"}, True),
    ],
)
def test_types_that_convert_or_have_defaults_are_compared_as_the_function_gets_them(
    tools: dict[str, Tool],
    tool: str,
    wanted: dict[str, Any],
    args: dict[str, Any],
    *,
    requires: bool,
) -> None:
    assert bool(confirmation(config(wanted), tools[tool], args)) is requires


@pytest.mark.parametrize("declared", [True, False])
def test_of_a_function_that_is_not_read_every_argument_and_default_counts_as_any_value(
    tools: dict[str, Tool], *, declared: bool
) -> None:
    tool = tools["logged_as_declared" if declared else "logged"]
    rules = config({"path": "*.env"})

    # It may have a parameter `path` with a default.
    assert confirmation(rules, tool, {"city": "Rome"})
    assert confirmation(rules, tool, {"path": "prod.env"})
    assert confirmation(rules, tool, {"path": "notes.txt"})
    assert confirmation(config({"city.name": "Rome"}), tool, {"city": '{"name": "Rome"}'})


@pytest.mark.parametrize("declared", [True, False])
def test_of_a_function_that_is_not_read_only_a_value_as_written_is_waived(
    tools: dict[str, Tool], *, declared: bool
) -> None:
    tool = tools["logged_as_declared" if declared else "logged"]
    tool = tool.model_copy(update={"confirmation": ("toolset",)})
    waiver = config({"city": "R*"}, require=False)
    of_part = config({"city.name": "Rome"}, require=False)

    assert not confirmation(waiver, tool, {"city": "Rome"})
    assert confirmation(waiver, tool, {"city": "Rome; rm -rf ."})
    assert confirmation(waiver, tool, {})
    assert not confirmation(of_part, tool, {"city": {"name": "Rome"}})
    assert confirmation(of_part, tool, {"city": {"name": "Rome", "Name": "Paris"}})


NUMBERS = {"type": "string", "pattern": "^[0-9_]+$"}
UUIDS = {"type": "string", "format": "uuid"}
DATES = {"type": "string", "format": "date"}
PATHS = {"type": "string", "format": "path"}


def with_keys(of_names: Any, **changes: Any) -> Tool:
    taken = {"type": "object", "propertyNames": of_names}
    taken["additionalProperties"] = {"type": "string"}
    return make_tool({"properties": {"d": taken}}, **({"kind": "python"} | changes))


@pytest.mark.parametrize(
    ("of_names", "wanted", "args", "requires"),
    [
        (NUMBERS, {"d": 1000}, {"01000": "x"}, True),
        (NUMBERS, {"d.1000": "x"}, {"01000": "x"}, True),
        (NUMBERS, {"d.1000": "y"}, {"01000": "x"}, False),
        (NUMBERS, {"d": {"1000": "x"}}, {"01000": "x"}, True),
        ({"enum": ["true", "yes"]}, {"d.true": "x"}, {"yes": "x"}, True),
        ({"anyOf": [UUIDS, DATES]}, {"d.true": "x"}, {"yes": "x"}, True),
        ({"type": "integer"}, {"d.1": "x"}, {"01": "x"}, True),
        ({}, {"d.1": "x"}, {"01": "x"}, True),
        (True, {"d.1": "x"}, {"01": "x"}, True),
        (UUIDS, {"d": UUID_TEXT}, {UUID_TEXT.upper(): "x"}, True),
        (UUIDS, {f"d.{UUID_TEXT}": "x"}, {UUID_TEXT.replace("-", ""): "x"}, True),
        (UUIDS, {"d": {UUID_TEXT: "x"}}, {UUID_TEXT.upper(): "x"}, True),
        (UUIDS, {f"d.{UUID_TEXT}": "x"}, {UUID_TEXT[:-1] + "1": "x"}, False),
        (UUIDS, {f"d.{UUID_TEXT}": "x"}, {f"{{{UUID_TEXT}}}": "x"}, True),
        (DATES, {"d.2026-01-01": "x"}, {"1767225600": "x"}, True),
        (DATES, {"d.2026-01-01": "x"}, {"2026-01-02": "x"}, False),
        (PATHS, {"d.prod/x": "x"}, {"./prod//x": "x"}, True),
        (PATHS, {"d.prod/x": "x"}, {"prod/y": "x"}, False),
        ({"type": "string"}, {"d.a": "x"}, {"A": "x"}, False),
    ],
)
def test_a_key_that_python_parses_has_other_spellings_too(
    of_names: Any, wanted: dict[str, Any], args: dict[str, Any], *, requires: bool
) -> None:
    assert bool(confirmation(config(wanted), with_keys(of_names), {"d": args})) is requires
    assert not confirmation(config(wanted), with_keys(of_names, kind="http"), {"d": args})


def test_a_uuid_in_an_object_is_compared_in_each_spelling() -> None:
    taken = {"type": "object", "properties": {"id": UUIDS}}
    tool = make_tool({"properties": {"d": taken}}, kind="python")

    assert confirmation(config({"d": {"id": UUID_TEXT}}), tool, {"d": {"id": UUID_TEXT.upper()}})


@pytest.mark.parametrize(("of_names", "asks"), [(NUMBERS, True), ({"type": "string"}, False)])
def test_a_waiver_for_a_key_does_not_count_if_another_key_may_be_the_same(
    of_names: Any, *, asks: bool
) -> None:
    tool = with_keys(of_names, confirmation=("toolset",))
    waiver = config({"d.7": "ok"}, require=False)

    assert not confirmation(waiver, tool, {"d": {"7": "ok"}})
    assert bool(confirmation(waiver, tool, {"d": {"7": "ok", "07": "rm"}})) is asks


@pytest.mark.rest
def test_a_large_argument_is_compared_fast() -> None:
    value: Any = {"x": 1}
    for _ in range(150):
        value = {"a": [value, *range(100)]}

    assert not confirmation(config({"a": {"none": 1}}), make_tool({}), {"a": value})
    assert not confirmation(config({"a": "*.env"}), make_tool({}), {"a": value})


FIELDS = """
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar
from typing_extensions import TypedDict
from covalt_toolset import tool
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel

T = TypeVar("T")


class Named(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    amount: int = Field(default=1, alias="sum")


class Inherited(Named):
    note: str = ""


class ByArgument(BaseModel, validate_by_name=True):
    model_config = ConfigDict(validate_by_name=False)
    amount: int = Field(default=1, alias="sum")


class Strict(BaseModel):
    model_config = ConfigDict(populate_by_name=True, extra="forbid")
    amount: int = Field(default=1, alias="sum")


class Loose(BaseModel):
    note: str = ""


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    to_env: str = "test"


class Choice(BaseModel):
    env: str = Field(default="test", validation_alias=AliasChoices("env", "environment"))


class Path(BaseModel):
    env: str = Field(default="test", validation_alias=AliasChoices("env", AliasPath("deep", 0)))


class Crossed(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    a: int = Field(1, alias="b")
    b: str = Field("", alias="a")


class Prior(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    to_env: str = Field(default="test", alias="env", alias_priority=1)


class PriorTwice(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    to_env: Annotated[str, Field(alias="env")] = Field(default="test", alias_priority=1)


class Generated(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    to_env: str = "test"


class NotGenerated(Generated):
    model_config = ConfigDict(alias_generator=None)


class Keys(TypedDict, total=False):
    to_env: str
    amount: Annotated[int, Field(alias="sum")]


@dataclass
class Data:
    to_env: str = "test"


@dataclass
class Chosen:
    env: Annotated[str, Field(validation_alias=AliasChoices("env", "environment"))] = "test"


class Plain(BaseModel):
    chosen: Chosen = Chosen()


class Around(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    keys: Keys = {}
    data: Data = Data()


class Box(BaseModel, Generic[T]):
    model_config = ConfigDict(alias_generator=to_camel)
    inside: T


class Many(RootModel[list[Named]]):
    pass


class Described(BaseModel):
    force: bool = Field(default_factory=lambda: True, json_schema_extra={"default": False})
    on: Annotated[bool, Field(json_schema_extra={"type": ["string", "boolean"]})] = False


class Read(BaseModel):
    kind: Literal["read"]
    force: bool


class Quiet(BaseModel):
    kind: Literal["quiet"]
    force: bool = False


class Write(BaseModel):
    kind: Literal["write"]
    force: bool = Field(default_factory=lambda: True)


class Remove(BaseModel):
    kind: Literal["remove"]


class Text(BaseModel):
    kind: Literal["text"] = "text"
    amount: str = ""


class Number(BaseModel):
    kind: Literal["number"] = "number"
    amount: int = 0


def counted(function):
    def inner(force: bool = True, count: int = 5):
        return function(force, count)

    inner.calls = 0
    return inner


@tool
@counted
def computed(force, count):
    \"""Computed.\"""
    return [force, count]
"""
TYPES = {
    "named": "Named",
    "inherited": "Inherited",
    "by_argument": "ByArgument",
    "several": "Strict | Loose",
    "items": "list[Named]",
    "values": "dict[str, Named]",
    "many": "Many",
    "camel": "Camel",
    "choice": "Choice",
    "path": "Path",
    "crossed": "Crossed",
    "prior": "Prior",
    "prior_twice": "PriorTwice",
    "not_generated": "NotGenerated",
    "around": "Around",
    "box": "Box[Keys]",
    "plain": "Plain",
    "loose": "Loose",
    "described": "Described",
    "two": "Read | Write",
    "three": "Quiet | Write",
    "tagged": "Annotated[Quiet | Write | Remove, Field(discriminator='kind')]",
    "both": "Text | Number",
    "group": "set[str]",
}


@pytest.fixture(scope="module")
def field_tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Tool, Any]]:
    """Return tools that return their argument, each with its function."""
    source = FIELDS + "".join(
        f'\n\n@tool\ndef {name}(x: {kind}):\n    """Return it."""\n    return x\n'
        for name, kind in TYPES.items()
    )
    names = [*TYPES, "computed"]
    entries = "".join(f"  - {{id: {one}, entrypoint: 'tools:{one}'}}\n" for one in names)
    root = tmp_path_factory.mktemp("fields")
    put(root, "f/toolset.yaml", f"id: f\nname: F\nversion: '1'\ntools:\n{entries}")
    put(root, "f/tools.py", source)
    module = types.ModuleType("tools_with_fields")
    sys.modules[module.__name__] = module  # where pydantic looks for the names of the module
    exec(compile(source, "tools.py", "exec", dont_inherit=True), vars(module))
    found = {one.id.name: one for one in read_toolset(root, "f").tools}
    return {name: (found[name], vars(module)[name]) for name in names}


def gets(function: Any, args: dict[str, Any], wanted: Any) -> bool:
    """Return whether a function that returns what it gets, gets a value."""
    return contains(to_jsonable_python(invoke(function, args), by_alias=False), wanted)


def contains(part: Any, wanted: Any) -> bool:
    """Return whether a JSON value has another one in it; an object may have more keys."""
    if isinstance(part, dict) and isinstance(wanted, dict):
        return all(part.get(name) == value for name, value in wanted.items())
    if isinstance(part, dict | list):
        inner = part.values() if isinstance(part, dict) else part
        return any(contains(one, wanted) for one in inner)
    return type(part) is type(wanted) and bool(part == wanted)


def check_what_it_gets(
    definition: Tool, function: Any, path: str, argument: Any, value: Any
) -> None:
    """Check that a function gets a value at a path, and that a rule about the value requires approval."""
    assert gets(function, {"x": argument}, value), "the function gets it"
    assert confirmation(config({path: value}), definition, {"x": argument})


@pytest.mark.parametrize(
    ("tool", "path", "argument", "value"),
    [
        ("named", "x.sum", {"amount": 7}, 7),
        ("named", "x.amount", {"sum": 7}, 7),
        ("named", "x", {"amount": 7}, 7),
        ("inherited", "x.sum", {"amount": 7}, 7),
        ("by_argument", "x.sum", {"amount": 7}, 7),
        ("several", "x.sum", {"amount": 7}, 7),
        ("items", "x.sum", [{"amount": 7}], 7),
        ("items", "x.0.sum", [{"amount": 7}], 7),
        ("values", "x.a.sum", {"a": {"amount": 7}}, 7),
        ("many", "x.sum", [{"amount": 7}], 7),
        ("camel", "x.toEnv", {"to_env": "prod"}, "prod"),
        ("choice", "x.env", {"environment": "prod"}, "prod"),
        ("choice", "x.environment", {"env": "prod"}, "prod"),
        ("path", "x.env", {"deep": ["prod"]}, "prod"),
        ("crossed", "x.b", {"a": "1_000"}, 1000),
        ("prior", "x.toEnv", {"toEnv": "prod"}, "prod"),
        ("prior", "x.toEnv", {}, "test"),
        ("prior_twice", "x.toEnv", {}, "test"),
        ("not_generated", "x.toEnv", {}, "test"),
        ("around", "x.keys.toEnv", {"keys": {"to_env": "prod"}}, "prod"),
        ("around", "x.keys.sum", {"keys": {"amount": 7}}, 7),
        ("around", "x.data.toEnv", {"data": {}}, "test"),
        ("around", "x.data.toEnv", {"data": {"to_env": "prod"}}, "prod"),
        ("box", "x.inside.to_env", {"inside": {"toEnv": "prod"}}, "prod"),
        ("plain", "x.chosen.env", {"chosen": {"environment": "prod"}}, "prod"),
    ],
)
def test_the_value_of_a_field_under_any_of_its_names_requires_approval(
    field_tools: dict[str, tuple[Tool, Any]], tool: str, path: str, argument: Any, value: Any
) -> None:
    check_what_it_gets(*field_tools[tool], path, argument, value)


@pytest.mark.parametrize(
    ("tool", "path", "argument", "value"),
    [
        ("two", "x.force", {"kind": "write"}, True),
        ("three", "x.force", {"kind": "write"}, True),
        ("three", "x", {"kind": "write"}, True),
        ("tagged", "x.force", {"kind": "write"}, True),
        # Descriptions by the author of the tool.
        ("described", "x.force", {}, True),
        ("described", "x.on", {"on": "yes"}, True),
    ],
)
def test_the_default_of_a_field_is_not_what_something_else_states(
    field_tools: dict[str, tuple[Tool, Any]], tool: str, path: str, argument: Any, value: Any
) -> None:
    check_what_it_gets(*field_tools[tool], path, argument, value)


@pytest.mark.parametrize(
    ("tool", "path", "argument", "value"),
    [
        ("named", "x.sum", {"amount": 6}, 7),
        ("named", "x.sum", {}, 7),
        ("named", "x.sum", {"amount": 6}, 1),
        ("camel", "x.toEnv", {"toEnv": "dev"}, "prod"),
        ("two", "x.force", {"kind": "read", "force": False}, True),
        ("three", "x.force", {"kind": "quiet"}, True),
        ("tagged", "x.force", {"kind": "remove"}, True),
        ("both", "x.amount", {"kind": "text", "amount": "1_000"}, 1000),
        ("loose", "x", {"note": "a"}, {"note": "b"}),
        ("group", "x", ["a"], ["b"]),
    ],
)
def test_a_model_whose_fields_are_known_asks_for_no_other_value(
    field_tools: dict[str, tuple[Tool, Any]], tool: str, path: str, argument: Any, value: Any
) -> None:
    definition, function = field_tools[tool]

    assert not gets(function, {"x": argument}, value)
    assert not confirmation(config({path: value}), definition, {"x": argument})


@pytest.mark.parametrize(
    ("tool", "wanted", "argument"),
    [
        ("named", {"sum": 7}, {"amount": 7}),
        ("named", {"sum": 1}, {}),
        ("named", {"sum": 7}, {"sum": 7, "ignored": 1}),
        ("group", ["a", "b"], ["b", "a"]),
    ],
)
def test_an_object_or_a_list_that_a_type_completes_requires_approval(
    field_tools: dict[str, tuple[Tool, Any]], tool: str, wanted: Any, argument: Any
) -> None:
    definition, function = field_tools[tool]
    same = [invoke(function, {"x": one}) for one in (wanted, argument)]

    assert same[0] == same[1], "the function gets the same"
    assert confirmation(config({"x": wanted}), definition, {"x": argument})


@pytest.mark.parametrize(
    ("tool", "path", "value", "waived", "crafted"),
    [
        ("named", "x.amount", 5, {"amount": 5}, {"amount": 5, "sum": 7}),
        ("named", "x.sum", 5, {"sum": 5}, {"amount": 7, "sum": 5}),
        ("camel", "x.to_env", "a", {"to_env": "a"}, {"to_env": "a", "toEnv": "prod"}),
        (
            "choice",
            "x.environment",
            "a",
            {"environment": "a"},
            {"environment": "a", "env": "prod"},
        ),
        ("items", "x.0.amount", 5, [{"amount": 5}], [{"amount": 5, "sum": 7}]),
        ("path", "x.env", "a", {"env": "a"}, {"env": "a", "deep": ["prod"]}),
        # The function ignores the key that the waiver names.
        ("prior", "x.toEnv", "a", {"toEnv": "a"}, {"env": "a", "toEnv": "prod"}),
        ("prior", "x.env", "a", None, {"env": "a", "toEnv": "prod"}),
        (
            "tagged",
            "x.force",
            False,
            {"kind": "quiet", "force": False},
            {"kind": "remove", "force": False},
        ),
    ],
)
def test_a_waiver_holds_only_for_the_value_that_a_field_surely_gets(
    field_tools: dict[str, tuple[Tool, Any]],
    tool: str,
    path: str,
    value: Any,
    waived: Any,
    crafted: Any,
) -> None:
    definition, function = field_tools[tool]
    definition = definition.model_copy(update={"confirmation": ("toolset",)})
    rules = config({path: value}, require=False)

    if waived is not None:
        assert gets(function, {"x": waived}, value)
        assert not confirmation(rules, definition, {"x": waived})
    invoke(function, {"x": crafted})
    assert confirmation(rules, definition, {"x": crafted})


@pytest.mark.parametrize(
    ("wanted", "args"),
    [
        ({"force": True}, {}),
        ({"force": True}, {"force": True}),
        ({"count": 1000}, {"count": 1000}),
        ({"count": 5}, {"force": False}),
    ],
)
def test_the_values_and_defaults_of_a_function_that_a_decorator_computes_require_approval(
    field_tools: dict[str, tuple[Tool, Any]], wanted: dict[str, Any], args: dict[str, Any]
) -> None:
    definition, function = field_tools["computed"]
    (value,) = wanted.values()
    declared = definition.model_copy(
        update={"input_schema": {"type": "object"}, "schema_is_declared": True}
    )

    assert gets(function, args, value), "the function gets it"
    for tool in (definition, declared):
        assert confirmation(config(wanted), tool, args)


OBJECTS = st.dictionaries(
    st.sampled_from(["sum", "amount", "env", "environment", "toEnv", "to_env", "kind", "force"]),
    st.sampled_from([1, 7, "prod", "test", "1_000", True, False, "read", "write", "quiet"]),
    max_size=3,
)
LISTED = {
    "named": ("sum", "amount"),
    "several": ("sum", "amount"),
    "camel": ("toEnv", "to_env"),
    "choice": ("env", "env"),
    "prior": ("toEnv", "to_env"),
    "two": ("force", "force"),
    "three": ("force", "force"),
    "tagged": ("force", "force"),
    "both": ("amount", "amount"),
}
"""The listed name of a field of each type, and that in Python."""


@settings(max_examples=examples(500))
@given(
    st.sampled_from(sorted(LISTED)), OBJECTS, st.sampled_from([1, 7, "prod", "test", True, 1000])
)
def test_whatever_object_a_caller_makes_a_rule_decides_about_what_the_function_gets(
    field_tools: dict[str, tuple[Tool, Any]], name: str, argument: dict[str, Any], wanted: Any
) -> None:
    definition, function = field_tools[name]
    asking = definition.model_copy(update={"confirmation": ("toolset",)})
    listed, field = LISTED[name]
    args = {"x": argument}
    try:
        got = getattr(invoke(function, args), field, None)
    except InvalidToolArguments:
        return
    is_wanted = type(got) is type(wanted) and got == wanted
    waives = not confirmation(config({f"x.{listed}": wanted}, require=False), asking, args)

    if is_wanted:
        assert confirmation(config({f"x.{listed}": wanted}), definition, args)
    if waives:
        assert is_wanted or str(got) == str(wanted)
