import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.errors import CovaltError
from covalt_git.formats import conversion, documents, function_lists, recognition
from covalt_git.formats.toolset_yaml import folder_document
from covalt_git.json_values import json_schema
from tests.examples import examples
from tests.formats import laws
from tests.formats.test_round_trips import REAL, as_tools

RULES: dict[str, Any] = yaml.load(
    Path(__file__).with_name("providers.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
TOOLS = recognition.find_format("mcp-tools")


def functions_of(content: bytes, provider: str) -> Any:
    done = laws.converted(content, TOOLS, recognition.find_format(provider))
    (text,) = done.files.values()
    return json.loads(text)


@pytest.mark.parametrize("provider", RULES)
@settings(max_examples=examples(30))
@given(tools=as_tools())
def test_each_list_follows_the_rules_of_its_provider(provider: str, tools: Any) -> None:
    content = laws.as_json(tools)

    assert (
        json_schema.value_problems(RULES[provider]["schema"], functions_of(content, provider)) == []
    )


@pytest.mark.parametrize("provider", RULES)
def test_each_list_of_a_real_server_follows_the_rules(provider: str) -> None:
    paths = [*laws.documents_of("mcp-tools"), *REAL.glob("mcp/tools-list/[a-z]*.json")]
    for path in paths:
        if "prompts" not in path.name and "resources" not in path.name:
            functions = functions_of(path.read_bytes(), provider)
            assert json_schema.value_problems(RULES[provider]["schema"], functions) == [], path


@given(st.lists(st.text(min_size=1, max_size=90), unique=True))
def test_names_are_unique_and_the_same_each_time(ids: list[str]) -> None:
    names: set[str] = set()
    for tool_id in ids:
        name = function_lists.function_name(tool_id, "a", names)
        assert name not in names
        assert name == function_lists.function_name(tool_id, "a", names)
        names.add(name)


def test_python_tools_have_the_schema_of_their_source() -> None:
    files = {
        path.relative_to(laws.REPOSITORY / "toolsets/text-kit").as_posix(): path.read_bytes()
        for path in (laws.REPOSITORY / "toolsets/text-kit").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    document = folder_document("text-kit", files)
    done = conversion.convert(
        document, recognition.find_format("toolset"), recognition.find_format("anthropic")
    )
    tools = json.loads(next(iter(done.files.values())))

    assert tools
    assert all(one["description"] and one["input_schema"]["properties"] for one in tools)


def test_a_schema_that_may_not_be_what_calls_check_is_noted() -> None:
    folder = laws.REPOSITORY / "fixtures/invalid/type-not-read"
    paths = ("toolset.yaml", "toolset.schemas.yaml", "tools/checked.py")
    document = folder_document("hello", {path: (folder / path).read_bytes() for path in paths})

    def notes(target: str) -> str:
        formats = (recognition.find_format(name) for name in ("toolset", target))
        return str(conversion.convert(document, *formats).notes)

    assert "tools[greet]" in notes("anthropic")
    assert "tools[stored]" not in notes("anthropic")
    assert "tools[greet]" not in notes("toolset")


def test_what_a_provider_does_not_support_is_reported() -> None:
    content = (laws.FIXTURES / "mcp-tools" / "tools.json").read_bytes()
    lost = {
        one.pointer: one.reason
        for one in laws.converted(content, TOOLS, recognition.find_format("gemini")).lost
    }

    assert "exclusiveMinimum" in lost["/tools/0/inputSchema/properties/size/exclusiveMinimum"]
    assert "additionalProperties" in lost["/tools/0/inputSchema/additionalProperties"]
    assert lost["/tools/2/inputSchema/type"]


def test_an_argument_whose_name_anthropic_rejects_is_left_out_and_reported() -> None:
    schema = {
        "type": "object",
        "properties": {"filter[id]": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["filter[id]", "size"],
    }
    content = laws.as_json({"tools": [{"name": "a", "inputSchema": schema}]})
    done = laws.converted(content, TOOLS, recognition.find_format("anthropic"))
    (tool,) = json.loads(next(iter(done.files.values())))

    assert [*tool["input_schema"]["properties"]] == ["size"]
    assert tool["input_schema"]["required"] == ["size"]
    place = "/tools/0/inputSchema"
    assert {one.pointer for one in done.lost} == {
        f"{place}/properties/filter[id]/type",
        f"{place}/required/0",
    }


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"const": 5}, {"type": "integer", "minimum": 5, "maximum": 5}),
        ({"enum": [2, 1]}, {"type": "integer", "minimum": 1, "maximum": 2}),
        (
            {"type": "integer", "enum": [1, 7, 2]},
            {
                "anyOf": [
                    {"type": "integer", "minimum": 1, "maximum": 2},
                    {"type": "integer", "minimum": 7, "maximum": 7},
                ]
            },
        ),
        (
            {"enum": [1, 2.5]},
            {
                "anyOf": [
                    {"type": "number", "minimum": 1, "maximum": 1},
                    {"type": "number", "minimum": 2.5, "maximum": 2.5},
                ]
            },
        ),
        ({"enum": [*range(0, 90, 2)]}, {"type": "integer"}),
        ({"enum": [1, 2], "minimum": 2}, {"type": "integer", "minimum": 2}),
        ({"const": True}, {"type": "boolean"}),
        ({"enum": [1, None]}, {"type": "integer", "minimum": 1, "maximum": 1, "nullable": True}),
        ({"$ref": "#/$defs/N", "default": 1}, {"type": "integer", "default": 1}),
        ({"enum": ["a", 1]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"type": ["integer", "string"]}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ({"type": ["integer", "null"]}, {"type": "integer", "nullable": True}),
        ({"enum": ["a", "b"]}, {"enum": ["a", "b"], "type": "string"}),
        ({"const": "a"}, {"enum": ["a"], "type": "string"}),
        ({"allOf": [{"const": 5}]}, {"type": "integer"}),
        ({"allOf": [{"minLength": 1}, {"type": "string"}]}, {"type": "string"}),
        ({"allOf": [{"$ref": "#/$defs/N"}]}, {"type": "integer"}),
        (
            {"not": {"type": "string"}},
            {"anyOf": [{"type": "number"}, {"type": "boolean"}, {"type": "object"}]},
        ),
        ({"not": {"const": "a"}}, {"type": "string"}),
    ],
)
def test_a_schema_for_gemini_has_the_types_of_its_valid_values(schema: Any, written: Any) -> None:
    inputs = {
        "type": "object",
        "properties": {"a": schema},
        "$defs": {"N": {"type": "integer"}},
    }
    content = laws.as_json({"tools": [{"name": "x", "inputSchema": inputs}]})

    (list_,) = functions_of(content, "gemini")
    (function,) = list_["functionDeclarations"]
    assert function["parameters"]["properties"]["a"] == written


def test_what_is_lost_of_a_definition_is_reported_at_its_place() -> None:
    definitions = {
        "Size": {"type": "integer", "enum": [1, 2, 3]},
        "Node": {
            "type": "object",
            "properties": {"size": {"$ref": "#/$defs/Size"}, "next": {"$ref": "#/$defs/Node"}},
            "minProperties": 1,
            "propertyNames": {"pattern": "."},
        },
        "Unused": {"type": "string"},
    }
    inputs = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/Node"}},
        "$defs": definitions,
    }
    content = laws.as_json({"tools": [{"name": "x", "inputSchema": inputs}]})

    done = laws.converted(content, TOOLS, recognition.find_format("gemini"))

    ((function,),) = [one["functionDeclarations"] for one in json.loads(done.files["gemini.json"])]
    assert function["parameters"]["properties"]["a"]["properties"] == {
        "size": {"type": "integer", "minimum": 1, "maximum": 3},
        "next": {"type": "object"},
    }
    assert {one.pointer.removeprefix("/tools/0/inputSchema/$defs/") for one in done.lost} == {
        "Node/properties/next/$ref",
        "Node/propertyNames/pattern",
        "Unused/type",
    }


def test_an_example_is_lost_as_one_value() -> None:
    text = """\
id: a
name: A
version: "1"
tools:
  - id: x
    input_schema: {type: object}
    entrypoint: "tools.a:x"
    examples: [{description: D, args: {a: 1, b: {c: 2}}}, {args: {}}]
"""
    document = folder_document("a", {"toolset.yaml": text.encode(), "tools/a.py": b"def x(): ..."})
    source = recognition.find_format("toolset")

    for target in ("gemini", "openai"):
        done = conversion.convert(document, source, recognition.find_format(target))
        lost = [one.pointer for one in done.lost if "examples" in one.pointer]
        assert lost == ["/tools/0/examples/0", "/tools/0/examples/1"]


def test_what_is_lost_of_a_schema_from_source_is_reported() -> None:
    files = {
        "toolset.yaml": b'id: a\nname: A\nversion: "1"\ntools: [{id: x, entrypoint: "tools.a:x"}]\n',
        "tools/a.py": b"from typing import Any\n\n\ndef x(value: Any) -> None:\n    pass\n",
    }
    gemini = recognition.find_format("gemini")

    done = conversion.convert(
        folder_document("a", files), recognition.find_format("toolset"), gemini
    )

    lost = {one.pointer: one.reason for one in done.lost}
    assert lost["/tools/0/input_schema/properties/value"].endswith("the type string")


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic", "gemini"])
def test_a_function_list_is_known_and_only_written(provider: str) -> None:
    content = b'{"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}'
    source, target = map(recognition.find_format, ("mcp-tools", provider))
    (written,) = laws.converted(content, source, target).files.values()
    document = documents.parse(written, "functions.json")
    for name in (None, provider):
        with pytest.raises(CovaltError, match=f"writes the format '{provider}', but does not read"):
            recognition.recognize(document, name)


def test_the_reason_of_a_lost_keyword_says_whether_gemini_has_it() -> None:
    limits = {"type": "string", "default": None}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": limits}}
    schema |= {"type": "object"}
    content = laws.as_json({"tools": [{"name": "a", "inputSchema": schema}]})
    lost = laws.converted(content, TOOLS, recognition.find_format("gemini")).lost
    reasons = {loss.pointer.rpartition("/")[2]: loss.reason for loss in lost}

    assert reasons["$schema"] == "schemas of Gemini have no $schema"
