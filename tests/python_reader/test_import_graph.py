"""Modules that entrypoints import: those that are broken or missing are reported exactly if an entrypoint needs them."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.python_reader.import_graph import MOST_REPORTED, ImportGraph
from covalt_git.python_reader.module_text import MAX_SOURCE_BYTES
from covalt_git.python_reader.modules import Modules, ModuleSource
from tests.examples import examples
from tests.python_reader.test_modules import modules_of

NAMES = ("tools.a", "tools.b", "tools.sub.c", "tools.sub.d", "lib.e", "f")
FORMS = (
    "import {name}",
    "import os, {name} as other",
    "from {name} import anything",
    "from {name} import *",
    "from {package} import {last}",
    "def late():\n    if True:\n        import {name}",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from {name} import anything",
    "try:\n    pass\nfinally:\n    with open('x'):\n        import {name}",
)
"""Ways to import a module."""

edges = st.dictionaries(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), st.sampled_from(FORMS), max_size=9
)


def graph_of(files: Mapping[str, str], *entries: str) -> ImportGraph:
    stems = {path.removesuffix(".py").removesuffix("/__init__") for path in files}
    names = {
        ".".join(stem.split("/")[:count])
        for stem in stems
        for count in range(1, stem.count("/") + 2)
    }
    tops = {name.partition(".")[0] for name in names}
    return ImportGraph(modules_of(files), entries, tops.__contains__, names.__contains__)


def missing(files: Mapping[str, str], *entries: str) -> list[tuple[str, int, str, str, bool]]:
    return [
        (absent.importer, absent.line, absent.module, absent.name, absent.certain)
        for absent in graph_of(files, *entries).missing(lambda _: True)
    ]


def statement(form: str, name: str) -> str:
    package, _, last = name.rpartition(".")
    # A top-level module has no package.
    return form.format(name=name, package=package, last=last) if package else f"import {name}"


@settings(max_examples=examples(150), deadline=None)
@given(edges, st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES), min_size=1, max_size=3))
def test_a_broken_module_is_reported_exactly_if_an_entrypoint_reaches_it(
    imports: dict[tuple[str, str], str], broken: str, entries: set[str]
) -> None:
    texts = {name: ["anything = 1"] for name in NAMES}
    for (importer, name), form in imports.items():
        texts[importer].append(statement(form, name))
    texts[broken].append("def f()\n    pass")
    files = {f"{name.replace('.', '/')}.py": "\n".join(text) for name, text in texts.items()}

    reports = graph_of(files, *entries).broken()

    reaching = {broken}
    for _ in NAMES:
        reaching |= {
            importer for importer, name in imports if name in reaching and importer != broken
        }
    users = tuple(sorted(entries & reaching))
    assert [(module.name, module.entries) for module in reports] == [(broken, users)] * bool(users)


@pytest.mark.parametrize(
    ("import_words", "certain"),
    [
        ("import tools.b", True),
        ("from .b import x", True),
        ("def f():\n    from . import b", True),
        ("try:\n    import tools.b\nexcept ImportError:\n    pass", True),
        ("for x in y:\n    import tools.b", False),
        ("try:\n    import tools.b\nexcept (ValueError, SyntaxError):\n    pass", False),
        ("try:\n    import tools.b\nexcept:\n    pass", False),
        ("import contextlib\nwith contextlib.suppress(Exception):\n    import tools.b", False),
        ("match x:\n    case 1:\n        import tools.b", False),
        ("if x:\n    import tools.b\nfrom tools.c import y", True),
    ],
)
def test_a_broken_module_is_certain_if_its_import_surely_runs(
    import_words: str,
    certain: bool,  # noqa: FBT001 - a column of the table
) -> None:
    files = {"tools/a.py": import_words, "tools/b.py": "(", "tools/c.py": "import tools.b\ny = 1"}

    (module,) = graph_of(files, "tools.a").broken()

    assert (module.name, module.error.line, module.error.col) == ("tools.b", 1, 1)
    assert module.certain == certain


@pytest.mark.parametrize(
    ("source", "certain"),
    [
        (b"\xef\xbb\xbfx = (", True),
        (b"x = 1\0", True),
        (b"# \xe9", True),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'", False),
        (b"# -*- coding: latin-1 -*-\nx = 'e'", False),
        (b"x = 1\n" * (MAX_SOURCE_BYTES // 6 + 1), False),
    ],
)
def test_what_only_the_reader_refuses_is_not_certain(
    source: bytes,
    certain: bool,  # noqa: FBT001 - a column of the table
) -> None:
    sources = {"tools": b"", "tools.a": b"import tools.b", "tools.b": source}
    modules = Modules(lambda name: ModuleSource(sources[name], is_package=name == "tools"))

    graph = ImportGraph(modules, ["tools.a"], "tools".__eq__, sources.__contains__)

    assert [module.certain for module in graph.broken()] == [certain]


def test_packages_are_imported_before_their_modules() -> None:
    files = {
        "tools/__init__.py": "from tools import deep",
        "tools/deep/__init__.py": "__all__ = ['listed']\n(",
        "tools/a.py": "",
    }
    (module,) = graph_of(files, "tools.a").broken()
    assert (module.name, module.certain) == ("tools.deep", True)


@pytest.mark.parametrize(
    ("import_words", "expected"),
    [
        ("import tools.absent", ("tools.absent", "", True)),
        ("from tools import absent", ("tools.absent", "", True)),
        ("from .absent.more import x", ("tools.absent", "", True)),
        ("from tools.b.more import x", ("tools.b.more", "", True)),
        ("from tools.b import absent as x", ("tools.b", "absent", True)),
        ("from tools.package import absent", ("tools.package", "absent", True)),
        ("if x:\n    from tools import absent", ("tools.absent", "", False)),
        ("from tools.b import __file__, here, other, inner", None),
        ("from tools.package import module, name", None),
        ("from tools.stars import absent", None),
        ("from tools.computed import absent", None),
        ("try:\n    import tools.absent\nexcept ModuleNotFoundError:\n    pass", None),
        ("try:\n    import tools.absent\nexcept errors:\n    pass", None),
        ("try:\n    import tools.absent\nexcept ValueError:\n    pass", ("tools.absent", "", True)),
        ("from contextlib import suppress\nwith suppress(ImportError):\n    import tools.absent", None),
        ("try:\n    import tools.needing\nexcept ImportError:\n    pass", None),
        ("import tools.needing", ("tools.absent", "", True)),
        ("import elsewhere, json.absent", None),
        ("import sys\nsys.path.append('x')\nimport tools.absent", None),
        ("from tools.b import absent\nimport tools.b as b\nb.absent = 1", None),
        ("from tools import data", None),
    ],
)  # fmt: skip
def test_missing_modules_and_names_are_reported_if_they_surely_do_not_exist(
    import_words: str, expected: tuple[str, str, bool] | None
) -> None:
    files = {
        "tools/a.py": import_words,
        "tools/b.py": "def here(): ...\nif x:\n    other = 1\nfor inner in x: ...",
        "tools/package/__init__.py": "name = 1",
        "tools/package/module.py": "",
        "tools/stars.py": "from json import *",
        "tools/computed.py": "globals()['x'] = 1",
        "tools/needing.py": "import tools.absent",
        "tools/data/words.txt": "",
    }
    reports = missing(files, "tools.a")
    assert [report[2:] for report in reports] == ([] if expected is None else [expected])


def test_names_that_a_module_may_set_do_not_use_up_the_number_of_those_that_are_reported() -> None:
    names = [f"name_{number}" for number in range(MOST_REPORTED)]
    files = {
        "tools/a.py": "import tools.b\n"
        + "".join(f"tools.b.{name} = 1\n" for name in names)
        + f"from tools.b import {', '.join(names)}, gone\n",
        "tools/b.py": "there = 1\n",
    }
    assert [name for *_, name, _ in missing(files, "tools.a")] == ["gone"]


def test_the_place_of_a_missing_name_is_its_own() -> None:
    files = {"tools/a.py": "from tools.b import (\n    x,\n    y,\n)", "tools/b.py": "x = 1"}
    assert missing(files, "tools.a") == [("tools.a", 3, "tools.b", "y", True)]
