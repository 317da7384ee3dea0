"""The requirements of the specification, the lines of its documents, and the tests with the mark ``requirement``."""

import ast
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

from tests.rest import run_by_make_test

FOLDER = Path(__file__).parent
TESTS = FOLDER.parent
SEEDS = TESTS.parent.parent / "shared" / "seeds"
"""The five documents, which are not part of this repository."""


def read(name: str) -> Any:
    """Return the content of a YAML file of this folder."""
    return yaml.load((FOLDER / name).read_text(encoding="utf-8"), yaml.CSafeLoader)


def marked() -> dict[str, list[str]]:
    """Return the files with a test of each requirement that ``make test`` runs, by id.

    A requirement is an argument of the mark, or the first column of a table of this folder.
    """
    files = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.requirement(" in text:
            for test in run_by_make_test(ast.parse(text)):
                for name in _requirements(test):
                    files[name].append(path.relative_to(TESTS).as_posix())
    for path in sorted(FOLDER.glob("test_*.yaml")):
        for table in read(path.name).values():
            for name in table:
                files[name].append(path.relative_to(TESTS).with_suffix(".py").as_posix())
    return dict(files)


def _requirements(test: ast.FunctionDef) -> list[str]:
    return [
        node.value
        for mark in test.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.requirement"
        for node in ast.walk(mark)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
