"""Names are nouns, and what has a contract has a docstring: what `python -m tests.readability` counts."""

import ast
from itertools import groupby
from pathlib import Path

import pytest

from tests.readability import REPOSITORY, Module, len_of, modules, vague_names

UNNAMED: dict[str, int] = {}
"""The functions of each package that are not renamed yet; a package that is leaves the table."""

_DESCRIBED = 6
"""A public function of more lines than this needs a docstring."""


def _package(module: Module) -> str:
    return "/".join(module.file.relative_to(REPOSITORY).parent.parts[:2])


# Sorted: the files of a folder come before and after its folders.
PACKAGES = {name: list(group) for name, group in groupby(sorted(modules(), key=_package), _package)}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_longer_function_names_its_things_by_nouns(package: str) -> None:
    places = [place for module in PACKAGES[package] for place in module.vague]

    assert len(places) <= UNNAMED.get(package, 0), "\n".join(
        f"{place}: {', '.join(sorted(vague_names(place.function)))}" for place in places
    )


def _public(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the public functions of a module, and the public methods of its public classes."""
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    for node in ast.iter_child_nodes(tree):
        is_private = getattr(node, "name", "_").startswith("_")
        if isinstance(node, ast.ClassDef) and not is_private:
            functions += _public(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_private:
            is_overload = any(
                "overload" in ast.unparse(decorator) for decorator in node.decorator_list
            )
            functions += [] if is_overload else [node]
    return functions


def test_a_public_function_of_more_than_six_lines_has_a_docstring() -> None:
    bare = [
        f"{Path(module.file).relative_to(REPOSITORY)}:{function.lineno} {function.name}"
        for members in PACKAGES.values()
        for module in members
        for function in _public(module.tree)
        if len_of(function) > _DESCRIBED and ast.get_docstring(function) is None
    ]

    assert bare == []
