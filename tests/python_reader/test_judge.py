"""The listed schema of a Python tool accepts exactly what a call accepts, or says which parameter it does not know.

The types are written after the documentation of pydantic 2, dataclasses, typing and enum, not after the reader.
"""

import functools
import importlib
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from covalt_git.authority.schema_meaning import judge_meaning
from covalt_git.json_values.json_schema import value_problems
from covalt_git.python_reader.modules import Modules, ModuleSource
from covalt_git.python_reader.source import read_tool
from covalt_toolset import ToolSignatureError, describe
from tests.covalt_toolset import declared_types
from tests.examples import one_in
from tests.python_reader.judge import disagreements
from tests.tables import tables

TABLES = tables(__file__)
ROOT = Path(__file__).parents[2]
CASES = ROOT.parent / "shared" / "data" / "public-cases"
SDK_MODULE = Path(declared_types.__file__).read_text(encoding="utf-8")
SDK_TYPES = [
    row[0]
    for row in tables(str(Path(declared_types.__file__).with_name("test_signature.py")))[
        "annotations"
    ]
]
MODULES = dict(TABLES["modules"]) | (
    dict(TABLES["modules_3_12"]) if sys.version_info >= (3, 12) else {}
)
PRELUDE: str = TABLES["prelude"]
KNOWN = dict(TABLES["known"])


def load(text: str) -> Any:
    """Run a module as the sandbox would, and return its function ``f``."""
    module = types.ModuleType("loaded_for_judgement")
    sys.modules[module.__name__] = module  # where pydantic looks for the names of the module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, "f.py", "exec", dont_inherit=True), vars(module))
    return vars(module)["f"]


def module_of(name: str) -> str:
    """Return the text of a module, in which an import from ``__future__`` stays first."""
    first, _, rest = MODULES[name].partition("\n")
    is_future = first.startswith("from __future__")
    return "\n".join([first, PRELUDE, rest] if is_future else [PRELUDE, first, rest])


def judge(name: str, text: str, *, own: str, number: int = 8) -> None:
    read = read_tool(text.encode(), "f")
    found = disagreements(read, load(text), own, 100 if name in KNOWN else number)
    if name in KNOWN:
        assert found, f"{name} agrees now: remove it from the list of known disagreements"
        assert {one.place for one in found} <= read.unread.keys(), "validate does not report it"
        pytest.xfail(KNOWN[name])
    assert [str(one) for one in found] == [], f"unread: {read.unread}"


# Both schemas of every module are compared below, in a tenth of the time.
@pytest.mark.parametrize("name", one_in(8, MODULES))
def test_listed_schema_accepts_what_a_call_accepts(name: str) -> None:
    judge(name, module_of(name), own=MODULES[name])


def test_only_the_parameters_of_the_list_are_unread() -> None:
    unread = {name: [*read_tool(module_of(name).encode(), "f").unread] for name in MODULES}

    assert unread == {name: dict(TABLES["unread"]).get(name, []) for name in MODULES}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes it since Python 3.12")
def test_type_arguments_of_a_typed_dict_are_unread() -> None:
    text = """
from typing import Generic, TypedDict, TypeVar
T = TypeVar("T")
class Box(TypedDict, Generic[T]):
    item: T
def f(x: Box[int], y: Box): return x
"""

    assert [*read_tool(text.encode(), "f").unread] == ["x"]
    with pytest.raises(ToolSignatureError):
        describe(load(text))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODULES)
def test_what_is_read_in_full_is_the_schema_that_runs(name: str) -> None:
    found = read_tool(module_of(name).encode(), "f")
    try:
        ran = describe(load(module_of(name)))
    except ToolSignatureError:
        pytest.skip("it has no schema")

    def of_read(schema: Any) -> Any:
        properties = {
            key: one for key, one in schema["properties"].items() if key not in found.unread
        }
        required = [key for key in schema["required"] if key in properties]
        return schema | {"properties": properties, "required": required}

    if "" not in found.unread:
        assert judge_meaning(of_read(found.input_schema), of_read(ran.input_schema)) == []
    if not found.unread and found.output_schema is not None:
        assert judge_meaning(found.output_schema, ran.output_schema or {}) == []


def discriminators(part: Any) -> Iterator[Any]:
    if isinstance(part, dict):
        yield from (one for key, one in part.items() if key == "discriminator")
        part = list(part.values())
    for one in part if isinstance(part, list) else ():
        yield from discriminators(one)


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("discriminated")])
def test_each_tag_is_mapped_to_its_class(name: str) -> None:
    found = read_tool(module_of(name).encode(), "f")
    if found.unread:
        pytest.skip("it is not read in full")
    ran = describe(load(module_of(name))).input_schema

    assert list(discriminators(found.input_schema)) == list(discriminators(ran))


@pytest.mark.parametrize("annotation", one_in(4, SDK_TYPES))
def test_types_of_the_sdk_are_listed_as_a_call_accepts_them(annotation: str) -> None:
    judge(annotation, f"{SDK_MODULE}\ndef f(x: {annotation}): return x", own="", number=5)


def test_a_listed_default_is_one_that_the_list_accepts() -> None:
    schemas = {name: read_tool(module_of(name).encode(), "f").input_schema for name in MODULES}
    refused = [
        (name, where, key)
        for name, schema in schemas.items()
        for where, one in [("", schema), *schema.get("$defs", {}).items()]
        for key, part in one.get("properties", {}).items()
        if "default" in part
        and value_problems({**part, "$defs": schema.get("$defs", {})}, part["default"])
    ]

    assert refused == []


CLASSES = """
T = TypeVar("T")
class Plain:
    def __init__(self, a: int): self.a = a
class Child(Plain): pass
class Generic_(Generic[T]): pass
class Text(str): pass
@dataclass
class Fields:
    plain: Plain
class Keys(TypedDict):
    plain: Plain
class Loose(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    plain: Plain
class Own:
    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler): return handler(int)
class OwnChild(Own): pass
"""


def load_defect(annotation: str) -> tuple[str, bool]:
    """Return why no call can run a function of a parameter, by its source, and whether calls can read the parameter."""
    text = f"{PRELUDE}\n{CLASSES}\ndef f(x: {annotation}): return x"
    found = read_tool(text.encode(), "f")
    try:
        describe(load(text))
    except (ToolSignatureError, NameError):
        return found.defect, False
    return found.defect, True


@pytest.mark.parametrize("annotation", TABLES["no_json"])
def test_a_type_without_json_is_a_defect(annotation: str) -> None:
    defect, is_read = load_defect(annotation)

    assert defect
    assert not is_read


@pytest.mark.parametrize("annotation", TABLES["json_by_own_schema"])
def test_a_type_with_a_schema_of_its_own_is_no_defect(annotation: str) -> None:
    assert load_defect(annotation) == ("", True)


# Tools of toolsets


def path_of(folder: Path, name: str) -> Path | None:
    stem = folder / name.replace(".", "/")
    return next(
        (path for path in (stem / "__init__.py", stem.with_suffix(".py")) if path.is_file()), None
    )


def toolset_tools() -> Iterator[tuple[Path, str, str]]:
    """Yield the folder, the module and the function of each Python tool of the samples and fixtures."""
    for manifest in sorted(
        [
            *ROOT.glob("toolsets/*/toolset.yaml"),
            *ROOT.glob("examples/**/toolset.yaml"),
            *ROOT.glob("fixtures/**/toolset.yaml"),
        ]
    ):
        text = manifest.read_text(encoding="utf-8", errors="replace")
        for module, function in re.findall(r"entrypoint: ['\"]?([\w.]+):(\w+)", text):
            name = next(
                (one for one in (module, f"tools.{module}") if path_of(manifest.parent, one)), None
            )
            if name is not None:
                yield manifest.parent, name, function


def modules_of(folder: Path) -> Modules:
    def load_source(name: str) -> ModuleSource | None:
        path = path_of(folder, name)
        if path is not None:
            return ModuleSource(path.read_bytes(), is_package=path.stem == "__init__")
        is_package = (folder / name.replace(".", "/")).is_dir()
        return ModuleSource(b"", is_package=True) if is_package else None

    return Modules(load_source)


def without_effects(function: Any) -> Callable[..., object]:
    """Return a function with the same signature that does nothing."""

    @functools.wraps(function)
    def stub(**_: object) -> None: ...

    return stub


@pytest.mark.parametrize(
    ("folder", "module", "function"),
    [
        pytest.param(
            *tool,
            id=f"{tool[0].relative_to(ROOT)}-{tool[2]}",
            marks=pytest.mark.rest if number % 8 else (),
        )
        for number, tool in enumerate(toolset_tools())
    ],
)
def test_tools_of_the_samples_are_listed_as_a_call_accepts_them(
    folder: Path, module: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(folder, module)
    assert path is not None
    text = path.read_text(encoding="utf-8", errors="replace")
    before = set(sys.modules)
    monkeypatch.syspath_prepend(folder)
    try:
        found = read_tool(text.encode(), function, modules_of(folder), module)
        run = getattr(importlib.import_module(module), function)
        assert [
            str(one)
            for one in disagreements(
                found._replace(output_schema=None), without_effects(run), text, 10
            )
        ] == []
    except (ImportError, SyntaxError, NameError, AttributeError, RuntimeError) as error:
        pytest.skip(f"it cannot be loaded: {error}")
    except Exception as error:
        if "python_reader" in type(error).__module__:
            pytest.skip(f"it cannot be read: {error}")
        raise
    finally:
        for one in set(sys.modules) - before:
            del sys.modules[one]


def shared_functions() -> Iterator[tuple[str, str, str]]:
    """Yield the Python that the public cases write, with the names of its functions."""
    for script in sorted(CASES.glob("*/run.sh")):
        for at, (_, text) in enumerate(
            re.findall(
                r"<<\s*['\"]?(\w+)['\"]?[^\n]*\n(.*?)\n\1\n",
                script.read_text(encoding="utf-8", errors="replace"),
                re.DOTALL,
            )
        ):
            if re.search(r"^(async )?def \w+\(", text, re.MULTILINE):
                for function in re.findall(r"^(?:async )?def (\w+)\(", text, re.MULTILINE):
                    yield f"{script.parent.name}-{at}-{function}", text, function


@pytest.mark.parametrize(
    ("text", "function"),
    [pytest.param(text, function, id=name) for name, text, function in shared_functions()],
)
def test_tools_of_the_public_cases_are_listed_as_a_call_accepts_them(
    text: str, function: str
) -> None:
    try:
        found = read_tool(text.encode(), function)
        run = load(f"{text}\nf = {function}")
    except Exception as error:  # noqa: BLE001 - most of these texts are programs, not tools
        pytest.skip(f"it is no module: {error}")
    assert [
        str(one)
        for one in disagreements(found._replace(output_schema=None), without_effects(run), text, 10)
    ] == []
