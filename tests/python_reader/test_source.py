"""What is read of a Python tool without running it, and that it is never a wrong claim."""

from __future__ import annotations

import ast
import gc
import textwrap
import threading
import time
import types
from pathlib import Path
from typing import Any

import docstring_parser
import pytest
from docstring_parser import DocstringStyle
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.json_values import canonical_json, json_schema
from covalt_git.python_reader.module_text import MAX_SOURCE_BYTES, parse
from covalt_git.python_reader.source import (
    NoFunctionError,
    PythonSyntaxError,
    ToolSource,
    _is_marked,
    read_tool,
)
from covalt_toolset import describe

LAB = Path(__file__).resolve().parents[2] / "toolsets" / "data-lab" / "tools" / "lab.py"

PRELUDE = """
import collections.abc, dataclasses, datetime, enum, pathlib, typing, uuid
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import (Annotated, Any, ClassVar, Dict, List, Literal, Optional, Tuple, TypedDict, Union)
from typing_extensions import NotRequired, Required
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from covalt_toolset import tool
import covalt_toolset as ct
import functools
"""


def read(text: str, function: str = "f") -> ToolSource:
    return read_tool(textwrap.dedent(text).encode(), function)


def load(text: str) -> Any:
    """Run a module as the sandbox would, and return its ``f``."""
    module = types.ModuleType("loaded_for_comparison")
    exec(compile(textwrap.dedent(text), "f.py", "exec", dont_inherit=True), vars(module))
    return vars(module)["f"]


# --- what the decorator says --------------------------------------------------------------------


def test_a_decorated_function_says_its_name_and_more() -> None:
    found = read(
        '''
        from covalt_toolset import tool

        @tool(name="Write " "File", description="Writes.", category="files")
        async def f(path: str) -> dict:
            """Not this.

            Args:
                path: where to write
            """
        '''
    )

    assert (found.name, found.description, found.category) == ("Write File", "Writes.", "files")
    assert (found.requires_confirmation, found.is_async) == (False, True)
    assert (found.line, found.col) == (5, 1)
    assert [parameter.name for parameter in found.parameters] == ["path"]
    assert found.input_schema == {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "where to write"}},
        "required": ["path"],
        "additionalProperties": False,
    }


def test_a_plain_function_has_its_docstring_and_the_workspace() -> None:
    found = read(
        '''
        from pathlib import Path

        def f(workspace: Path, path: str) -> dict:
            """Read a file.

            All of it.
            """
        '''
    )

    assert (found.name, found.description) == (None, "Read a file.\n\nAll of it.")
    assert (found.takes_workspace, found.requires_confirmation) == (True, False)
    assert list(found.input_schema["properties"]) == ["path"]


@pytest.mark.parametrize(
    ("annotation", "taken"),
    [
        ("Path", True),
        ("'Path'", True),
        ("pathlib.Path", True),
        ("P", True),
        ("str", False),
        ("Path | None", False),
        ("", False),
    ],
)
def test_only_a_path_called_workspace_is_handed_over(annotation: str, taken: bool) -> None:  # noqa: FBT001 - a column of the table
    said = f": {annotation}" if annotation else ""
    found = read(
        f"import pathlib\nfrom pathlib import Path, Path as P\ndef f(workspace{said}): ..."
    )

    assert found.takes_workspace is taken
    assert ("workspace" in found.input_schema["properties"]) is not taken


DECORATED = [
    pytest.param("@tool", False, id="bare"),
    pytest.param("@tool()", False, id="called"),
    pytest.param("@tool('Name')", False, id="name"),
    pytest.param("@ct.tool(requires_confirmation=False)", False, id="false"),
    pytest.param("@functools.lru_cache(8)\n@tool", False, id="cached"),
    pytest.param("", False, id="undecorated"),
    pytest.param("@tool(requires_confirmation=True)", True, id="true"),
    pytest.param("@ct.tool(requires_confirmation=True)", True, id="through-the-module"),
    pytest.param("@tool('n', 'd', True)", True, id="by-position"),
    pytest.param("@tool(requires_confirmation=1)", True, id="not-the-constant-false"),
    pytest.param("@tool(requires_confirmation=0)", True, id="zero-is-not-false"),
    pytest.param("@tool(requires_confirmation=not True)", True, id="expression"),
    pytest.param("@tool(requires_confirmation=ASK)", True, id="name-of-a-constant"),
    pytest.param("@tool(**options)", True, id="unpacked-keywords"),
    pytest.param("@tool(*options)", True, id="unpacked-positions"),
    pytest.param("@danger", True, id="decorator-of-its-own"),
    pytest.param("@danger\n@tool", True, id="around-the-tool"),
    pytest.param("@tool(requires_confirmation=True)\n@tool()", True, id="outermost-wins"),
    pytest.param("@options[0]", True, id="from-a-list"),
    pytest.param("@(lambda f: f)", True, id="lambda"),
]


@pytest.mark.parametrize(("decorator", "asks"), DECORATED)
def test_only_what_is_certainly_false_does_not_ask(decorator: str, asks: bool) -> None:  # noqa: FBT001 - a column of the table
    found = read(f"{PRELUDE}\n{decorator}\ndef f(x: int): ...")

    assert found.requires_confirmation is asks


@pytest.mark.parametrize(
    "module",
    [
        pytest.param("from covalt_toolset import tool as t\n@t(**x)\ndef f(): ...", id="alias"),
        pytest.param("from covalt_toolset import *\n@tool()\ndef f(): ...", id="star"),
        pytest.param("from x import tool\n@tool()\ndef f(): ...", id="another-tool"),
        pytest.param("from .covalt_toolset import tool\n@tool()\ndef f(): ...", id="relative"),
        pytest.param(
            "from covalt_toolset import tool\ntool = x(tool)\n@tool()\ndef f(): ...", id="rebound"
        ),
        pytest.param(
            "from covalt_toolset import tool\nfor tool in x: ...\n@tool()\ndef f(): ...", id="loop"
        ),
        pytest.param(
            "from covalt_toolset import tool\ndef g():\n  global tool\n  tool = 1\n"
            "@tool()\ndef f(): ...",
            id="global",
        ),
        pytest.param(
            "from covalt_toolset import tool\n(lambda a=(tool := x): a)\n@tool()\ndef f(): ...",
            id="walrus-in-a-default",
        ),
        pytest.param(
            "try:\n  from covalt_toolset import tool\nexcept ImportError:\n  from y import tool\n"
            "@tool()\ndef f(): ...",
            id="either-import",
        ),
        pytest.param("def f(): ...\nf = ask(f)", id="wrapped-later"),
        pytest.param(
            "from covalt_toolset import tool\nif x:\n  @tool(requires_confirmation=True)\n"
            "  def f(): ...\nelse:\n  def f(): ...",
            id="either-definition",
        ),
        pytest.param("from other import f", id="imported"),
        pytest.param("f = make()", id="made"),
    ],
)
def test_what_only_running_would_tell_asks_and_claims_nothing(module: str) -> None:
    found = read(module)

    assert found.requires_confirmation
    if "@t(" not in module:
        assert found.input_schema["additionalProperties"] is not False or not found.parameters


def test_the_last_definition_counts() -> None:
    found = read("def f(a: int): ...\ndef f(b: str): ...")

    assert list(found.input_schema["properties"]) == ["b"]


def test_an_unfamiliar_decorator_may_change_the_parameters() -> None:
    found = read("from x import wrap\n@wrap\ndef f(a: int): ...")

    assert found.parameters == ()
    assert found.input_schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": True,
    }


# --- what does not work -------------------------------------------------------------------------


def test_an_unknown_function_is_told_the_known_ones() -> None:
    module = "def write_file(): ...\ndef _hidden(): ...\nclass Tool: ...\n"
    with pytest.raises(NoFunctionError) as misspelt:
        read(module, "wrte_file")
    with pytest.raises(NoFunctionError) as a_class:
        read(module, "Tool")

    assert str(misspelt.value) == (
        "no function 'wrte_file' in the module\n  hint: did you mean 'write_file'?"
    )
    assert misspelt.value.known == ("write_file",)
    assert a_class.value.hint == "it has write_file"


@pytest.mark.parametrize(
    ("source", "spot"),
    [
        pytest.param(b"def f(:\n", "1:7: invalid syntax", id="syntax"),
        pytest.param("é = 1\nö = (\n".encode(), "2:5: '(' was never closed", id="characters"),
        pytest.param(b"x = 1\ny\0", "2:2: there is a null byte in the text", id="null-byte"),
        pytest.param(b"x = '\xe9'\n", "1:6: this is not UTF-8", id="latin-1"),
        pytest.param(
            b"# coding: latin-1\nx = 'e'\n",
            "1:1: a Python tool is UTF-8, and declares nothing else",
            id="declared-latin-1",
        ),
        pytest.param(
            b"# coding: utf-7\n+AEA-danger\ndef f(): ...\n",
            "1:1: a Python tool is UTF-8, and declares nothing else",
            id="another-program-under-utf-7",
        ),
        pytest.param(
            b"#" * (MAX_SOURCE_BYTES + 1), "1:1: the file is larger than 1024 KiB", id="large"
        ),
        pytest.param(b"x = " + b"-" * 100_000 + b"1", "1:1: this is nested too deeply", id="minus"),
        pytest.param(b"x = 1" + b"+1" * 500_000, "1:1: this is nested too deeply", id="plus"),
        pytest.param(b"a" + b".b" * 500_000, "1:1: this is nested too deeply", id="attributes"),
    ],
)
def test_what_is_not_python_names_its_place(source: bytes, spot: str) -> None:
    with pytest.raises(PythonSyntaxError) as caught:
        read_tool(source, "f")

    assert f"{caught.value.line}:{caught.value.col}: {caught.value.message}" == spot


def test_a_doubtful_escape_in_a_tool_is_not_our_warning() -> None:
    assert read(r"def f(): '\d'").line == 1


def test_the_place_counts_characters() -> None:
    found = read_tool("x = 'é'\r\nif x:\r\n  'é'; a = 1\r\ndef f(): ...\n".encode(), "f")

    assert (found.line, found.col) == (4, 1)


def test_nothing_of_the_module_runs(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    found = read(
        f"""
        open({str(marker)!r}, "w")
        import antigravity

        def f(x: __import__("os").system("touch {marker}") = open({str(marker)!r}, "w")): ...
        """
    )

    assert found.input_schema["properties"] == {"x": {}}
    assert not marker.exists()


@given(text=st.text(max_size=200) | st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_arbitrary_text_is_read_or_refused(text: str | bytes) -> None:
    source = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    for prefix in (b"", b"def f(x", b"def f():\n  '''Args:\n", b"@tool("):
        try:
            read_tool(prefix + source, "f")
        except (PythonSyntaxError, NoFunctionError):
            continue


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_source_is_read_or_refused(data: st.DataObject) -> None:
    source = LAB.read_bytes()
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, min(len(source), start + 400)))
    damaged = source[:start] + data.draw(st.binary(max_size=6)) + source[end:]
    for function in ("summarize", "select_rows"):
        try:
            found = read_tool(damaged, function)
        except (PythonSyntaxError, NoFunctionError):
            continue
        assert canonical_json.dumps(found.input_schema)


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(
            "A0 = int\n" + "".join(f"A{n + 1} = list[A{n}] | dict[str, A{n}]\n" for n in range(60)),
            id="aliases-that-double",
        ),
        pytest.param("A60 = 'A60'", id="alias-of-itself"),
        pytest.param("A60 = B\nB = A60", id="aliases-in-a-circle"),
        pytest.param(
            "from typing import Annotated\nA60 = Annotated[A60, 1]", id="annotated-holds-itself"
        ),
        pytest.param("A60 = a" + ".b" * 700, id="attributes"),
        pytest.param("A60 = 1" + "|1" * 700, id="bars"),
        pytest.param("A60 = int\ndef g(y: a" + "()" * 700 + "): ...", id="calls"),
        pytest.param(
            f"A60 = tuple[{'L, ' * 500}int]\nfrom typing import Literal\n"
            f"L = Literal[{', '.join(map(str, range(3000)))}]",
            id="literal-many-times",
        ),
        pytest.param("A60 = " + "list[" * 90 + "int" + "]" * 90, id="deep"),
        pytest.param("A60 = " + " | ".join(["int"] * 2000), id="wide-and-deep"),
        pytest.param(
            "".join(f"class C{n}(C{n + 1}): ...\n" for n in range(500)) + "A60 = C0", id="bases"
        ),
    ],
)
def test_annotations_made_to_grow_do_not(module: str) -> None:
    found = read(f"{module}\ndef f(x: A60): ...")

    assert len(canonical_json.dumps(found.input_schema)) < 1_000_000


# --- schemas ------------------------------------------------------------------------------------

SAME = [
    pytest.param("x", id="no-annotation"),
    pytest.param("x: str", id="str"),
    pytest.param("x: int = 3", id="default"),
    pytest.param("x: float = -1.5", id="negative-default"),
    pytest.param("x: bool = False, *, y: int = 0", id="keyword-only"),
    pytest.param("x: None", id="none"),
    pytest.param("x: Any", id="any"),
    pytest.param("x: object", id="object"),
    pytest.param("x: list", id="list"),
    pytest.param("x: list[int]", id="list-of"),
    pytest.param("x: List[List[str]] = []", id="list-of-lists"),
    pytest.param("x: Sequence[str], y: collections.abc.Sequence[int]", id="sequence"),
    pytest.param("x: dict, y: Dict[str, Any], z: dict[str, list[int]]", id="dict"),
    pytest.param("x: tuple, y: tuple[int, ...], z: Tuple[int, str] = (1, 'a')", id="tuple"),
    pytest.param("x: set[int], y: frozenset[str]", id="set"),
    pytest.param("x: Optional[int], y: Union[int, str, None], z: int | str", id="union"),
    pytest.param("x: Optional[Union[int, t.Optional[str]]]", id="nested-union"),
    pytest.param("x: int | str | None, y: str | float | bool = 'a'", id="union-of-three"),
    pytest.param("x: int = None", id="none-as-default"),
    pytest.param("x: Literal['a', 'b'], y: Literal['a', 1, None, True, 0]", id="literal"),
    pytest.param("x: 'int', y: 'list[\"str\"]'", id="strings"),
    pytest.param("x: Annotated[int, Field(description='how many')]", id="annotated"),
    pytest.param("x: Annotated[int, 'a note'] = 1", id="annotated-note"),
    pytest.param("x: int = Field(description='how many', default=4)", id="field-default"),
    pytest.param("x: int = Field(..., alias='X')", id="field-alias"),
    pytest.param("x: int = Field(alias='X', validation_alias=None)", id="field-alias-only"),
    pytest.param("x: Annotated[int, Field(alias='X')] = 2", id="annotated-alias"),
    pytest.param("x: list[int] = Field(default_factory=list)", id="factory"),
    pytest.param("x: date, y: datetime.datetime, z: datetime.time", id="dates"),
    pytest.param("x: uuid.UUID, y: Path, z: pathlib.Path", id="uuid-and-path"),
    pytest.param("x: Named, y: Ids", id="aliases"),
    pytest.param("x: Colour, y: Size, z: Level", id="enums"),
    pytest.param("x: Options", id="model"),
    pytest.param("x: Tree", id="recursive-model"),
    pytest.param("x: list[Options] | None = None", id="model-within"),
    pytest.param("x: int = LIMIT, y: str = GREETING", id="default-by-name"),
]

CLASSES = '''
LIMIT = 40
GREETING = "hello (world"
Named = Annotated[str, Field(description="a name")]
Ids = list[int]

class Colour(Enum):
    """A colour."""
    RED = "red"
    BLUE = "blue"

class Size(IntEnum):
    S = 1
    L = 2

class Level(str, Enum):
    LOW = "low"
    HIGH = "high"

    def more(self): ...

class Options(BaseModel):
    """What to do.

    And how.
    """
    model_config = ConfigDict(extra="forbid", frozen=True)
    deep: bool = False
    level: Level = Field(default="low", description="how much")
    ids: list[int] = Field(default_factory=list)
    kind: ClassVar[str] = "x"
    _secret: int = 1

class Tree(BaseModel, extra="allow"):
    name: str
    children: "list[Tree]" = []

class Point(TypedDict, total=False):
    x: Required[int]
    y: int

class Row(TypedDict):
    a: NotRequired[str]
    b: str

@dataclass
class Box:
    """A box."""
    size: int
    label: str = "box"
    parts: list[int] = field(default_factory=list)
    count: int = field(default=0, init=False)

@dataclass(kw_only=True)
class Bag:
    _: dataclasses.KW_ONLY
    size: int

class Plain:
    def __init__(self, x): ...

class Child(Options):
    more: int

class Computed(Enum):
    A = enum.auto()

class Hooked(BaseModel):
    x: int
    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        from pydantic_core import core_schema
        return core_schema.any_schema()

class Aliased(BaseModel):
    model_config = ConfigDict(alias_generator=lambda name: name.upper())
    x: int

class Shadowed(BaseModel):
    int: str = "a"
    x: int = "b"

AsAlias = Field(alias="y")
LIST = [1]
'''


def plain(schema: Any) -> Any:
    """Leave out how definitions are written, which is pydantic's own taste."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.keys() >= {"const"}:
        schema = {key: value for key, value in schema.items() if key != "const"} | {
            "enum": [schema["const"]]
        }
    return {key: plain(value) for key, value in schema.items()}


@pytest.mark.parametrize("parameters", SAME)
def test_the_schema_is_the_one_that_loading_gives(parameters: str) -> None:
    module = f"{PRELUDE}{CLASSES}\ndef f({parameters}): ..."

    assert plain(read(module).input_schema) == plain(describe(load(module)).input_schema)


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**54, 2**63])
def test_an_integer_beyond_json_is_not_a_default(value: int) -> None:
    found = read(f"def f(x: int = {value}): ...")

    assert "default" not in found.input_schema["properties"]["x"]
    assert canonical_json.dumps(found.input_schema)


ANNOTATIONS = [
    *["Point", "Row", "Box", "Bag", "Child", "Computed", "Hooked", "Aliased", "Shadowed"],
    *["Annotated[int, BeforeValidator(int)]", "Annotated[int, Field(json_schema_extra={})]"],
    "list[Annotated[int, 'a note', Field(json_schema_extra={'type': 'string'})]]",
    *["Annotated[int, AsAlias]", "Annotated['Ids', Field(alias='z')]", "t.Iterable[int]"],
    *["type(1)", "LIST[0].__class__", "dict[int, str]", "tuple[()]", "Literal[Colour.RED]"],
    *["bytes", "complex", "datetime.timedelta", "list[Child]", "Colour | None", "'Tree'"],
]
VALUES: list[Any] = [
    *[None, True, 0, 1, 2.5, "", "red", "1", [], [1], ["a"], {}, {"a": 1}, {"size": 1}],
    *[{"x": 1}, {"X": 1}, {"b": "b"}, {"y": 1}, {"x": 1, "y": 2}, {"int": "a"}, [{"more": 1}]],
    *[{"more": 1, "deep": True}, {"name": "a", "children": [{"name": "b", "more": 1}]}],
]


@pytest.mark.parametrize("default", ["", " = None", " = LIST[0]", " = LIMIT", " = make()"])
@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_what_loading_accepts_reading_accepts(annotation: str, default: str) -> None:
    """The law: no schema is narrower than the function."""
    module = f"{PRELUDE}{CLASSES}\ndef make(): ...\ndef f(x: {annotation}{default}): ..."
    read_schema = read(module).input_schema
    try:
        loaded = describe(load(module)).input_schema
    except TypeError:
        return  # the SDK refuses the annotation, so that nothing can be accepted

    arguments = [{}, *({name: value} for name in ("x", "y", "z") for value in VALUES)]
    for given_ in arguments:
        if not json_schema.value_problems(loaded, given_):
            assert not json_schema.value_problems(read_schema, given_), given_


SIMPLE = st.sampled_from(
    [
        "int",
        "str",
        "float",
        "bool",
        "None",
        "Any",
        "date",
        "Colour",
        "Options",
        "Point",
        "Box",
        "Tree",
    ]
)
NESTED = st.recursive(
    SIMPLE | st.sampled_from(["Literal['a', 'b']", "Literal[1]", "'int'", "Plain", "Computed"]),
    lambda inner: st.one_of(
        st.builds("list[{}]".format, inner),
        st.builds("dict[str, {}]".format, inner),
        st.builds("tuple[{}, ...]".format, inner),
        st.builds("Optional[{}]".format, inner),
        st.builds("Union[{}, {}]".format, inner, inner),
        st.builds("Annotated[{}, Field(description='d')]".format, inner),
    ),
    max_leaves=4,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "red", "2024-01-01"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["x", "y", "size", "name", "deep"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(annotation=NESTED, value=JSON)
@settings(max_examples=80, deadline=None)
def test_any_annotation_accepts_what_loading_accepts(annotation: str, value: Any) -> None:
    module = f"{PRELUDE}{CLASSES}\ndef f(x: {annotation}): ..."
    try:
        loaded = describe(load(module)).input_schema
    except TypeError:
        return

    if not json_schema.value_problems(loaded, {"x": value}):
        assert not json_schema.value_problems(read(module).input_schema, {"x": value})


@pytest.mark.parametrize(
    ("parameters", "names", "required", "others"),
    [
        pytest.param("a, /, b, *, c=1", ["a", "b", "c"], ["a", "b"], False, id="kinds"),
        pytest.param("a, **more", ["a"], ["a"], True, id="keywords"),
        pytest.param("*values, a=1", ["a"], [], True, id="positions"),
        pytest.param("a: int = Field(**options)", [], [], True, id="computed-field"),
        pytest.param("a: int = Field(alias=name())", [], [], True, id="computed-alias"),
    ],
)
def test_required_and_further_arguments(
    parameters: str,
    names: list[str],
    required: list[str],
    others: bool,  # noqa: FBT001 - a column of the table
) -> None:
    schema = read(f"{PRELUDE}\ndef f({parameters}): ...").input_schema

    assert list(schema["properties"]) == names
    assert schema["required"] == required
    assert schema["additionalProperties"] is others


@pytest.mark.parametrize(
    "default",
    ["1e999", "b'x'", "{1}", "{1: 2}", "'\\ud800'", "0x" + "f" * 5000, "2**53", "...", "1j"],
)
def test_a_default_that_json_cannot_hold_is_not_shown(default: str) -> None:
    schema = read(f"def f(x={default}): ...").input_schema

    assert schema["properties"] == {"x": {}}
    assert schema["required"] == []


def test_a_model_with_settings_that_make_no_sense_is_unknown() -> None:
    found = read(
        "from pydantic import BaseModel\nclass M(BaseModel, extra=[]):\n  x: int\ndef f(m: M): ..."
    )

    assert found.input_schema["properties"] == {"m": {}}


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["Args", "Parameters", "----------", "--", "a, b", "  text", "", "x : int", "@param a"]
        ),
        max_size=9,
    ).map("\n".join)
)
def test_a_docstring_without_marks_reads_as_if_all_styles_were_tried(text: str) -> None:
    def read(style: DocstringStyle) -> object:
        try:
            parsed = docstring_parser.parse(text, style)
        except docstring_parser.ParseError:
            return None
        arguments = [(one.arg_name, one.description) for one in parsed.params]
        return parsed.short_description, parsed.long_description, arguments

    assert _is_marked(text) or read(DocstringStyle.REST) == read(DocstringStyle.AUTO)


def test_descriptions_come_from_every_docstring_style() -> None:
    google = '"""Do.\n\n    Args:\n        x (int): first\n            line\n    """'
    numpy = '"""Do.\n\n    Parameters\n    ----------\n    x : int\n        first line\n    """'
    sphinx = '"""Do.\n\n    :param x: first line\n    """'
    for docstring in (google, numpy, sphinx):
        found = read_tool(f"def f(x):\n    {docstring}\n".encode(), "f")

        assert found.description == "Do."
        assert found.input_schema["properties"]["x"] == {"description": "first line"}


def test_threads_that_read_at_once_do_not_disturb_each_other() -> None:
    """Python 3.11 hands over to another thread in the middle, when it collects garbage."""
    line = "def f{0}(a: int = {0}) -> str:\n    return {{'k': [{{'l': [1, (2, [a, {0}])]}}]}}\n"
    text = "".join(line.format(number) for number in range(150)).encode()
    found: list[str] = []

    def read() -> None:
        try:
            found.append(ast.dump(parse(text))[:6])
        except SystemError as error:
            found.append(str(error))

    def hand_over(_phase: str, _told: object) -> None:
        time.sleep(0.0002)

    limits = gc.get_threshold()
    gc.callbacks.append(hand_over)
    gc.set_threshold(50)
    try:
        threads = [threading.Thread(target=read) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*limits)
        gc.callbacks.remove(hand_over)

    assert found == ["Module"] * 6
