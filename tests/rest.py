"""The tests that ``make test`` leaves to ``make test-rest``: those with the mark ``rest``, of their own or of their module."""

import ast

_MARK = "pytest.mark.rest"


def run_by_make_test(module: ast.Module) -> list[ast.FunctionDef]:
    """Return the test functions of a module of which ``make test`` runs at least one row."""
    if any(
        isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "pytestmark"
        and _MARK in ast.unparse(statement.value)
        for statement in module.body
    ):
        return []
    return [
        statement
        for statement in module.body
        if isinstance(statement, ast.FunctionDef)
        and statement.name.startswith("test_")
        and not any(ast.unparse(decorator) == _MARK for decorator in statement.decorator_list)
    ]
