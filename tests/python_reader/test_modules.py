"""Schemas of tools whose types are in several modules of a toolset: reading them agrees with running them."""

import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from covalt_git.python_reader.modules import Modules, ModuleSource, names_of
from covalt_git.python_reader.source import ToolDefinition, read_tool
from tests.python_reader.comparison import plain
from tests.python_reader.conftest import Described

SHAPE = """
from pydantic import BaseModel, Field

class Shape(BaseModel):
    sides: int = Field(ge=3)
"""


def modules_of(files: Mapping[str, str]) -> Modules:
    """Return the modules of a toolset with these files."""

    def load(name: str) -> ModuleSource | None:
        stem = name.replace(".", "/")
        for path in (f"{stem}/__init__.py", f"{stem}.py"):
            if path in files:
                text = textwrap.dedent(files[path])
                return ModuleSource(text.encode(), is_package=path.endswith("__init__.py"))
        is_package = any(path.startswith(f"{stem}/") for path in files)
        return ModuleSource(b"", is_package=True) if is_package else None

    return Modules(load)


def read(
    files: Mapping[str, str], module: str = "tools.echo", function: str = "f"
) -> ToolDefinition:
    modules = modules_of(files)
    found = modules.module(module)
    assert found is not None
    return read_tool(modules.read[module], function, modules, module)


LAYOUTS: dict[str, dict[str, str]] = {
    "absolute": {
        "tools/models.py": SHAPE,
        "tools/echo.py": "from tools.models import Shape\ndef f(x: list[Shape]) -> Shape: ...",
    },
    "relative": {
        "tools/models.py": SHAPE,
        "tools/echo.py": "from .models import Shape as Form\ndef f(x: Form | None = None) -> Form: ...",
    },
    "module": {
        "tools/models.py": SHAPE,
        "tools/echo.py": "import tools.models as m\nimport tools.models\ndef f(x: m.Shape, y: tools.models.Shape): ...",
    },
    "module from a package": {
        "tools/models.py": SHAPE,
        "tools/echo.py": "from tools import models\nfrom . import models as n\ndef f(x: models.Shape, y: n.Shape): ...",
    },
    "re-exported by a package": {
        "shapes/__init__.py": "from .flat import Shape\nfrom .kinds import *",
        "shapes/flat.py": SHAPE,
        "shapes/kinds.py": "from enum import Enum\nclass Kind(Enum):\n    A = 'a'\n    B = 'b'",
        "tools/echo.py": "from shapes import Shape, Kind\ndef f(x: Shape, y: Kind = Kind.A): ...",
    },
    "shared base classes": {
        "base.py": SHAPE,
        "tools/round.py": "from base import Shape\nclass Round(Shape):\n    radius: float = 1.0",
        "tools/echo.py": "from tools.round import Round\nclass Ring(Round):\n    sides: int\n    hole: float\ndef f(x: Ring) -> Round: ...",
    },
    "used before its definition": {
        "tools/echo.py": """
            from __future__ import annotations
            from dataclasses import dataclass

            def f(x: Node, y: "list[Node]") -> Node: ...

            @dataclass
            class Node:
                name: str
                below: list[Node]
        """,
    },
    "a vendored package": {
        "vendor/geometry/__init__.py": "",
        "vendor/geometry/shapes.py": "from ..units import Metres\nfrom typing import TypedDict\nclass Line(TypedDict):\n    length: Metres",
        "vendor/units.py": "from typing import Annotated\nfrom annotated_types import Gt\nMetres = Annotated[float, Gt(0)]",
        "tools/echo.py": "from vendor.geometry.shapes import Line\ndef f(x: Line): ...",
    },
    "a cycle": {
        "tools/a.py": "from __future__ import annotations\nimport tools.b\nfrom pydantic import BaseModel\nclass A(BaseModel):\n    name: str",
        "tools/b.py": "import tools.a\nfrom pydantic import BaseModel\nclass B(BaseModel):\n    size: int",
        "tools/echo.py": "from tools.a import A\nfrom tools.b import B\ndef f(x: A, y: B): ...",
    },
    "a star import": {
        "tools/models.py": SHAPE + "_Hidden = str\n",
        "tools/more.py": "__all__ = ['Size']\nSize = int\nOther = str",
        "tools/echo.py": "from tools.models import *\nfrom .more import *\nOther = float\ndef f(x: Shape, y: Size, z: Other, n: int): ...",
    },
    "star imports of the same names": {
        "tools/first.py": "Size = int\nOther = str",
        "tools/second.py": "__all__ = ['Size']\nSize = bool\nOther = float",
        "tools/echo.py": "from tools.first import *\nfrom tools.second import *\ndef f(x: Size, y: Other): ...",
    },
    "star imports of the standard library": {
        "tools/names.py": "from datetime import *\nfrom enum import *\nX = int",
        "tools/echo.py": "from tools.names import *\ndef f(x: X, y: date, n: int): ...",
    },
    "star imports in a circle": {
        "tools/a.py": "from tools.b import *\nX = int",
        "tools/b.py": "from tools.a import *\nY = str",
        "tools/echo.py": "import tools.a\nfrom tools.a import *\ndef f(x: X, y: Y): ...",
    },
    "a name shadowed in the function": {
        "tools/models.py": SHAPE,
        "tools/echo.py": "from tools.models import Shape\ndef f(x: Shape):\n    Shape = int\n    return Shape(x)",
    },
    "imported for type checks only": {
        "tools/models.py": SHAPE,
        "tools/echo.py": "import typing\nif typing.TYPE_CHECKING:\n    from pathlib import Path\nfrom tools.models import Shape\ndef f(workspace: 'Path', x: Shape): ...",
    },
    "two classes of one name": {
        "tools/a.py": SHAPE,
        "tools/b.py": "class Outer:\n    pass\nfrom dataclasses import dataclass\n@dataclass\nclass Shape:\n    name: str",
        "tools/echo.py": "from tools import a, b\ndef f(x: a.Shape, y: b.Shape): ...",
    },
    "two bases that share one": {
        "tools/echo.py": """
            from pydantic import BaseModel
            class Root(BaseModel, extra="allow"):
                v: int
            class A(Root, extra="forbid"):
                v: str
            class B(Root):
                w: int
            class C(B, A):
                pass
            def f(x: C, y: A, z: B): ...
        """,
    },
    "constants of another module": {
        "settings.py": "from datetime import date\nLIMIT = 40\nNAMES = ['a', 'b']\nSTART = date(2026, 1, 31)",
        "tools/echo.py": "from settings import LIMIT, NAMES, START\nfrom pydantic import Field\nfrom datetime import date\ndef f(x: int = Field(LIMIT, le=LIMIT), y: list[str] = NAMES, z: date = START): ...",
    },
    "the function itself": {
        "tools/impl.py": SHAPE + "def shape(x: Shape, n: int = 1) -> Shape: ...",
        "tools/__init__.py": "",
        "tools/echo.py": "from tools.impl import shape as f",
    },
    "generic classes": {
        "tools/boxes.py": """
            from typing import Generic, TypeVar
            from pydantic import BaseModel
            T = TypeVar("T")
            Pair = tuple[T, T]
            class Box(BaseModel, Generic[T]):
                item: T
                more: list[T] = []
        """,
        "tools/echo.py": "from tools.boxes import Box, Pair\nclass IntBox(Box[int]):\n    name: str\ndef f(x: Box[str], y: IntBox, z: Pair[int]): ...",
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_schema_of_a_layout_equals_that_of_the_run_function(
    described: Described, layout: str, tmp_path: Path
) -> None:
    files = LAYOUTS[layout]
    ran = described(tmp_path, files)

    found = read(files)
    assert found.unread == {}
    assert plain([found.input_schema, found.output_schema]) == plain(ran)


@pytest.mark.parametrize(
    "echo",
    [
        "import sys\nif sys.platform == 'linux':\n    from tools.models import Shape\nelse:\n    from other import Shape",
        "import sys\nif sys.platform == 'linux':\n    from tools.models import Shape\nelse:\n    from tools.more import Shape",
        "try:\n    from fast import Shape\nexcept ImportError:\n    from tools.models import Shape",
        "from tools.absent import Shape",
        "from tools.models import Absent as Shape",
        "from ....models import Shape",
        "from other import *\nfrom tools.models import Form",
        "import tools.loop\nfrom tools.loop import Shape",
        "from tools.broken import Shape",
    ],
)
def test_an_import_that_only_running_would_decide_is_unread(echo: str) -> None:
    files = {
        "tools/models.py": SHAPE,
        "tools/more.py": "Shape = str",
        "tools/loop.py": "from tools.pool import Shape",
        "tools/pool.py": "from tools.loop import Shape",
        "tools/broken.py": "def f(:",
        "tools/echo.py": f"{echo}\ndef f(x: Shape): ...",
    }

    found = read(files)
    assert found.input_schema["properties"] == {"x": {}}
    assert [one.partition(",")[0] for one in found.unread.values()] == ["Shape"]


@pytest.mark.parametrize(
    ("echo", "reason"),
    [
        ("def f(x: int): ...", "int, which from other import * may define"),
        (
            "class M(BaseModel):\n    class Inner(BaseModel):\n        a: str\n    inner: Inner\ndef f(x: M): ...",
            "M: Inner, which the class itself defines",
        ),
        (
            "class M(BaseModel):\n    a: str = Field(validation_alias=AliasPath('b'))\ndef f(x: M): ...",
            "M: AliasPath('b')",
        ),
        (
            "def f(x: int = Field(validation_alias=AliasPath('b'))): ...",
            "the name of an argument: AliasPath('b')",
        ),
    ],
)
def test_the_reason_for_an_unread_type_names_what_is_unread(echo: str, reason: str) -> None:
    imports = "from pydantic import AliasPath, BaseModel, Field"
    if "int," in reason:
        imports = "from tools.names import *"
    files = {"tools/names.py": "from other import *", "tools/echo.py": f"{imports}\n{echo}"}

    assert [*read(files).unread.values()] == [reason]


def test_a_definition_names_the_modules_of_its_signature_only() -> None:
    files = LAYOUTS["shared base classes"] | {"tools/other.py": SHAPE}

    assert read(files).modules == ("base", "tools.echo", "tools.round")


def test_a_class_with_a_validator_is_noted_for_each_parameter_that_has_it() -> None:
    files = {
        "tools/echo.py": """
            from pydantic import BaseModel, field_validator
            class Box(BaseModel):
                name: str
                @field_validator("name")
                @classmethod
                def lower(cls, value): return value.lower()
            class Outer(BaseModel):
                box: Box
            class Stripped(BaseModel, str_strip_whitespace=True):
                name: str
            def f(x: Box, y: list[Box], z: Outer, s: Stripped, n: int): ...
        """
    }

    found = read(files)
    assert found.unread == dict.fromkeys("xyz", "Box.lower()") | {
        "s": "Stripped.str_strip_whitespace"
    }
    assert found.changed == {*"xyzs"}
    assert found.values_schema["properties"]["x"] == {"x-unread": True}


CIRCLE = """
    from __future__ import annotations
    from typing import Annotated
    from pydantic import AfterValidator, BaseModel
    class Node(BaseModel):
        edge: Edge | None = None
        env: Annotated[str, AfterValidator(str.lower)] = ""
    class Edge(BaseModel):
        node: Node | None = None
        other: Broken | None = None
    class Broken(Absent):
        pass
    def f({parameters}): ...
"""


@pytest.mark.parametrize(
    "parameters", ["b: Edge", "a: Node, b: Edge", "b: Edge, a: Node", "x: Broken, b: Edge"]
)
def test_what_is_noted_about_a_parameter_does_not_depend_on_the_others(parameters: str) -> None:
    found = read({"tools/echo.py": CIRCLE.replace("{parameters}", parameters)})

    assert "AfterValidator(str.lower)" in found.unread["b"]
    assert found.values_schema["properties"]["b"] == {"x-unread": True}


@pytest.mark.parametrize(
    "body",
    [
        "class M(BaseModel):\n    env: str\n    _lower = field_validator('env')(lower)",
        "from pydantic.functional_validators import field_validator as fv\nclass M(BaseModel):\n    env: str\n    @fv('env')\n    @classmethod\n    def low(cls, v): return v.lower()",
        "@dataclass\nclass M:\n    env: str\n    low = field_validator('env')(lower)",
        "validates = field_validator('env')\nclass M(BaseModel):\n    env: str\n    @validates\n    @classmethod\n    def low(cls, v): return v.lower()",
        "class Base:\n    low = field_validator('env')(lower)\n@dataclass\nclass M(Base):\n    env: str",
        "@dataclass\nclass M:\n    env: str\n    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(str_to_lower=True)",
    ],
)
def test_a_validator_of_a_class_is_noted_whatever_its_spelling(body: str) -> None:
    head = (
        "from typing import ClassVar\nfrom pydantic import BaseModel, ConfigDict, field_validator\n"
        "from pydantic.dataclasses import dataclass\ndef lower(cls, v): return v.lower()\n"
    )
    found = read({"tools/echo.py": f"{head}{body}\ndef f(x: M): ..."})

    assert found.changed == {"x"}


def test_what_usual_classes_have_beside_their_fields_is_not_noted() -> None:
    files = {
        "tools/echo.py": """
            from functools import cached_property
            from typing import ClassVar
            from pydantic import BaseModel, PrivateAttr
            class M(BaseModel):
                LIMIT: ClassVar[int] = 3
                name: str
                _cache: dict = PrivateAttr(default_factory=dict)
                _count = PrivateAttr(0)
                @property
                def size(self): return 1
                @size.setter
                def size(self, value): ...
                @cached_property
                def words(self): return []
                @classmethod
                def of(cls, name): return cls(name=name)
                def plain(self): ...
            def f(x: M): ...
        """
    }

    assert read(files).unread == {}


def test_a_way_of_many_imports_is_unread_and_no_error() -> None:
    files = {f"tools/m{n}.py": f"from tools.m{n + 1} import X" for n in range(300)}
    files |= {
        "tools/m300.py": "X = int",
        "tools/echo.py": "from tools.m0 import X\ndef f(x: X): ...",
    }

    assert read(files).unread == {"x": "X"}


def test_modules_of_several_toolsets_are_parsed_once() -> None:
    sources = [f"x = {number}".encode() for number in range(200)]
    read = [names_of(source) for source in sources]
    for source, names in zip(sources, read, strict=True):
        assert names_of(source) is names


def test_large_modules_are_not_remembered_for_long() -> None:
    filling = "# " + "x" * 50_000
    sources = [f"x = {number}\n{filling}".encode() for number in range(100)]
    read = [names_of(source) for source in sources]
    assert names_of(sources[-1]) is read[-1]
    assert names_of(sources[0]) is not read[0]
