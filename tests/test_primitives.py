"""Each primitive has one implementation, in the module that is its home."""

import ast
import functools
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ENGINE = ("covalt_git/git_store/", "covalt_git/workspaces/", "covalt_git/runtime/")
"""Packages that keep own copies of primitives."""


def is_rename_of_a_path(node: ast.AST) -> bool:
    """Return whether it is ``path.rename(x)`` or ``path.replace(x)``; texts are replaced by two."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"rename", "replace"}
        and len(node.args) == 1
        and not node.keywords
    )


def is_keyword_of_a_reference(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == "$ref"


def is_cut_text(node: ast.AST) -> bool:
    """Return whether it is ``f"{text[:most]}..."``."""
    return isinstance(node, ast.JoinedStr) and any(
        isinstance(one, ast.FormattedValue)
        and isinstance(one.value, ast.Subscript)
        and isinstance(one.value.slice, ast.Slice)
        and isinstance(other, ast.Constant)
        and str(other.value).startswith(("...", "…"))
        for one, other in itertools.pairwise(node.values)
    )


def is_question(node: ast.AST) -> bool:
    """Return whether it is ``click.confirm``, whose text may have line breaks of others."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "confirm"
        and isinstance(node.value, ast.Name)
        and node.value.id == "click"
    )


def is_name_of_the_type_of_an_error(node: ast.AST) -> bool:
    """Return whether it is ``type(error).__name__``, such as "AssertionError"."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "__name__"
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "type"
        and ast.unparse(node.value.args[0]) in {"error", "cause", "failure", "problem"}
    )


@functools.cache
def product_files() -> list[tuple[str, list[ast.AST]]]:
    """Return the path and the nodes of each file."""
    return [
        (path, list(ast.walk(ast.parse(file.read_text(encoding="utf-8")))))
        for top in ("covalt_git", "server")
        for file in (ROOT / top).rglob("*.py")
        if not (path := file.relative_to(ROOT).as_posix()).startswith(ENGINE)
    ]


@pytest.mark.parametrize(
    ("is_primitive", "homes"),
    [
        pytest.param(is_question, ["covalt_git/cli/terminal/output.py"], id="question"),
        pytest.param(is_rename_of_a_path, ["covalt_git/system/atomic_write.py"], id="rename"),
        pytest.param(
            is_keyword_of_a_reference, ["covalt_git/json_values/pointer.py"], id="reference"
        ),
        # Users read no names of classes, and an error that means a bug is logged.
        pytest.param(is_name_of_the_type_of_an_error, ["covalt_git/errors.py"], id="error type"),
        # A credential is shown by its first characters, however short it is.
        pytest.param(
            is_cut_text, ["covalt_git/credentials/leaks.py", "covalt_git/text/display.py"], id="cut"
        ),
    ],
)
def test_primitive_is_implemented_in_one_module(
    is_primitive: Callable[[ast.AST], bool], homes: list[str]
) -> None:
    found = {path for path, nodes in product_files() if any(map(is_primitive, nodes))}

    assert sorted(found) == homes
