"""Reading a Python tool from its source: it never runs, and the reading is never a wrong claim."""

import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.json_values import canonical_json, json_schema
from covalt_git.python_reader.module_text import MAX_SOURCE_BYTES
from covalt_git.python_reader.source import (
    NoFunctionError,
    PythonSyntaxError,
    ToolDefinition,
    read_tool,
)
from covalt_toolset import describe, to_json
from tests.covalt_toolset import declared_types
from tests.examples import examples, one_in
from tests.python_reader.comparison import plain
from tests.tables import tables

TABLES = tables(__file__)
MODULE = Path(__file__).with_name("module.txt").read_text(encoding="utf-8")
"""A module with the classes and constants that the tables name."""
SDK_MODULE = Path(declared_types.__file__).read_text(encoding="utf-8")
SDK_TABLES = tables(str(Path(declared_types.__file__).with_name("test_signature.py")))


def read(text: str, function: str = "f") -> ToolDefinition:
    return read_tool(textwrap.dedent(text).encode(), function)


def load(text: str) -> dict[str, Any]:
    """Run a module as the sandbox would, and return its names."""
    module = types.ModuleType("loaded_for_comparison")
    sys.modules[module.__name__] = module  # where pydantic looks for the names of the module
    exec(compile(text, "f.py", "exec", dont_inherit=True), vars(module))
    return vars(module)


def described(text: str) -> Any:
    """Return the input schema of the module's ``f`` once it runs; None if the SDK refuses it."""
    try:
        return describe(load(text)["f"]).input_schema
    except TypeError:
        return None


# The decorator and the signature


@pytest.mark.requirement("covalt-4.2.discoverable", "covalt-4.2.docstring", "covalt-4.3.3")
def test_decorated_function_has_a_name_and_texts() -> None:
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

    assert (found.name, found.description) == ("Write File", "Writes.")
    assert not found.requires_confirmation
    assert (found.line, found.col) == (5, 1)
    assert found.input_schema == {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "where to write"}},
        "required": ["path"],
        "additionalProperties": False,
    }


@pytest.mark.requirement("covalt-10.functions")
@pytest.mark.parametrize(
    ("annotation", "is_workspace"),
    [
        (": Path", True),
        (": 'Path'", True),
        (": pathlib.Path", True),
        (": P", True),
        (": str", False),
        (": Path | None", False),
        ("", False),
    ],
)
def test_only_a_path_called_workspace_is_not_an_argument(
    annotation: str,
    is_workspace: bool,  # noqa: FBT001 - a column of the table
) -> None:
    imports = "import pathlib\nfrom pathlib import Path, Path as P\n"
    found = read(f"{imports}def f(workspace{annotation}): ...")

    assert ("workspace" in found.input_schema["properties"]) is not is_workspace


@pytest.mark.requirement("covalt-4.2.confirmation")
@pytest.mark.parametrize(("decorator", "confirmation"), TABLES["decorators"])
def test_only_a_certain_false_requires_no_confirmation(
    decorator: str,
    confirmation: bool,  # noqa: FBT001 - a column of the table
) -> None:
    found = read(f"{MODULE}\n{decorator}\ndef f(x: int): ...")

    assert found.requires_confirmation is confirmation


@pytest.mark.parametrize("module", TABLES["unknown"])
def test_function_that_only_running_would_explain_requires_confirmation(module: str) -> None:
    found = read(module)

    assert found.requires_confirmation
    if "@t(" not in module:
        schema = found.input_schema
        assert schema["additionalProperties"] is not False or not schema["properties"]


def test_unknown_decorator_may_change_parameters_and_result() -> None:
    found = read("from x import wrap\n@wrap\ndef f(a: int) -> int: ...")

    assert found.output_schema is None
    assert found.input_schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": True,
    }


# Sources that cannot be read


@pytest.mark.parametrize(
    ("source", "place"),
    [
        pytest.param(b"def f(:\n", (1, 7), id="syntax"),
        pytest.param("é = 1\nö = (\n".encode(), (2, 5), id="characters"),
        pytest.param(b"x = 1\ny\0", (2, 2), id="null-byte"),
        pytest.param(b"x = '\xe9'\n", (1, 6), id="latin-1"),
        pytest.param(b"# coding: latin-1\nx = 'e'\n", (1, 1), id="declared-latin-1"),
        pytest.param(b"# coding: utf-7\n+AEA-danger\ndef f(): ...\n", (1, 1), id="utf-7"),
        pytest.param(b"def f(): ..." + b"#" * MAX_SOURCE_BYTES, (1, 1), id="large"),
        pytest.param(b"x = " + b"-" * 100_000 + b"1", (1, 1), id="minus"),
        pytest.param(b"x = 1" + b"+1" * 500_000, (1, 1), id="plus"),
        pytest.param(b"a" + b".b" * 500_000, (1, 1), id="attributes"),
    ],
)
def test_source_that_is_not_python_is_refused_at_its_place(
    source: bytes, place: tuple[int, int]
) -> None:
    with pytest.raises(PythonSyntaxError) as caught:
        read_tool(source, "f")

    assert (caught.value.line, caught.value.col) == place


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 parses it")
@pytest.mark.parametrize("line", ["type X = int", "def f[T](x: T): ...", "class Box[T]: ..."])
def test_a_version_that_lacks_the_syntax_is_named(line: str) -> None:
    with pytest.raises(PythonSyntaxError, match=r"needs Python 3\.12, and covalt-git runs 3\.11"):
        read_tool(f"import os\n{line}\n".encode(), "f")


def test_no_code_of_the_module_runs(tmp_path: Path) -> None:
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
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    source = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    for prefix in (b"", b"def f(x", b"def f():\n  '''Args:\n", b"@tool("):
        try:
            read_tool(prefix + source, "f")
        except (PythonSyntaxError, NoFunctionError):
            continue


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
def test_schema_of_a_growing_annotation_is_bounded(module: str) -> None:
    found = read(f"{module}\ndef f(x: A60): ...")

    assert len(canonical_json.dumps(found.input_schema)) < 1_000_000


# Schemas: reading agrees with loading


@pytest.mark.requirement("covalt-1.3.input_schema")
@pytest.mark.parametrize("parameters", TABLES["same"])
def test_schema_equals_that_of_the_loaded_function(parameters: str) -> None:
    module = f"{MODULE}\ndef f({parameters}): ..."

    assert plain(read(module).input_schema) == plain(described(module))


def accepts_less(module: str, arguments: list[Any]) -> list[Any]:
    """Return the arguments that the function accepts and the schema that was read does not."""
    loaded, found = described(module), read(module).input_schema
    return [
        one
        for one in arguments
        if loaded is not None
        and not json_schema.value_problems(loaded, one)
        and json_schema.value_problems(found, one)
    ]


ARGUMENTS = [{}, *({name: one} for name in "xyz" for one in TABLES["values"])]


@pytest.mark.parametrize("annotation", one_in(2, TABLES["wider"]))
def test_schema_is_never_narrower_than_the_function(annotation: str) -> None:
    for default in ("", " = None", " = LIST[0]", " = LIMIT", " = make()"):
        module = f"{MODULE}\ndef make(): return 3\ndef f(x: {annotation}{default}): ..."

        assert accepts_less(module, ARGUMENTS) == []


@pytest.mark.parametrize(("module", "named"), TABLES["reasons"])
def test_a_note_names_what_could_not_be_read(module: str, named: str) -> None:
    found = read(f"{MODULE}\nimport pydantic\n{module}")

    assert set(found.unread.values()) == {named}


@pytest.mark.parametrize("annotation", [row[0] for row in SDK_TABLES["annotations"]])
def test_annotations_of_the_sdk_are_read_alike_or_wider(annotation: str) -> None:
    module = f"{SDK_MODULE}\ndef f(x: {annotation}): ..."

    if annotation in TABLES["sdk_wider"]:
        assert accepts_less(module, ARGUMENTS) == []
    else:
        assert plain(read(module).input_schema) == plain(described(module))


NESTED = st.recursive(
    st.sampled_from(
        [
            *("int", "str", "float", "bool", "None", "Any", "date", "Colour", "Options", "Point"),
            *("Box", "Tree", "Literal['a', 'b']", "Literal[1]", "'int'", "Plain", "Computed"),
        ]
    ),
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


@given(annotation=NESTED, values=st.lists(JSON, min_size=3, max_size=9))
@settings(max_examples=examples(50))
def test_schema_of_any_annotation_is_never_narrower(annotation: str, values: list[Any]) -> None:
    module = f"{MODULE}\ndef f(x: {annotation}): ..."

    assert accepts_less(module, [{"x": value} for value in values]) == []


@pytest.mark.parametrize(
    "default",
    [
        *("1e999", "b'x'", "{print}", "{1: 2}", "'\\ud800'", "0x" + "f" * 5000, "1j"),
        *(str(2**53), str(-(2**53)), str(2**54), str(2**63)),
    ],
)
def test_default_that_json_cannot_hold_is_not_shown(default: str) -> None:
    schema = read(f"def f(x={default}): ...").input_schema

    assert schema["properties"] == {"x": {}}
    assert schema["required"] == []


def test_a_choice_that_json_cannot_hold_exactly_is_not_listed() -> None:
    found = read(f"from typing import Literal\ndef f(x: Literal[{2**53 + 1}, {-(2**53) - 1}]): ...")

    assert found.input_schema["properties"] == {"x": {}}
    assert list(found.unread) == ["x"]


@pytest.mark.parametrize(
    "model",
    [
        "class M(BaseModel, extra=[]):\n  x: int",
        "class M(BaseModel):\n  model_config = SETTINGS\n  x: int",
        "class M(BaseModel):\n  model_config = make(extra='forbid')\n  x: int",
    ],
)
def test_model_with_an_unknown_configuration_is_unknown(model: str) -> None:
    found = read(f"from pydantic import BaseModel\n{model}\ndef f(m: M): ...")

    assert json_schema.value_problems(found.input_schema, {"m": {"x": "any", "more": 1}}) == []


# Results


@pytest.mark.parametrize(("annotation", "value", "schema"), TABLES["results"])
def test_results_fit_the_schema_that_is_read(annotation: str, value: str, schema: Any) -> None:
    found = read(f"{MODULE}\ndef f() -> {annotation}: ...").output_schema

    assert found is not None
    assert schema is None or found == schema
    assert json_schema.value_problems(found, to_json(eval(value, load(MODULE)))) == []


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        *((one, None) for one in ("None", "Any", "object", "Written", "bytes", "File", "Unknown")),
        ("int | Written", None),
        ("dict[str, Written]", {"type": "object", "additionalProperties": {}}),
        ("list[Written]", {"type": "array", "items": {}}),
    ],
)
def test_result_that_may_be_written_as_anything_has_no_schema(annotation: str, schema: Any) -> None:
    assert read(f"{MODULE}\ndef f() -> {annotation}: ...").output_schema == schema
