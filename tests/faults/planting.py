"""Faults that tests must find: small wrong changes of product code, each a record in ``faults.yaml``."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
_FOLDERS = ("covalt_git", "covalt_toolset", "server/covalt_server")


class LostFaultError(Exception):
    """The text that a fault changes does not occur exactly once."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        id: the effect of the fault, words joined by ``-``.
        file: the file that has the text; after a move, any file below the product's folders.
        function: the function, method or class that has it, as ``Class.method``.
        old: a text that occurs once in the function.
        new: the text to plant in its place.
        tests: tests that run the line in another process, where no coverage is recorded.
    """

    id: str
    file: str
    function: str
    old: str
    new: str
    tests: tuple[str, ...] = ()

    def planted(self, root: Path) -> Planted:
        """Return where the fault is in a checkout, and the text of the file that has it.

        Raises:
            LostFaultError: when no file, or more than one, has the text in that function.
        """
        found = list(self._places([root / self.file]) or self._places(_modules(root)))
        if len(found) != 1:
            raise LostFaultError(
                f"{self.id}: {len(found)} places have this text in {self.function}: {self.old!r}"
            )
        return found[0]

    def _places(self, files: list[Path]) -> list[Planted]:
        found = []
        for file in files:
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            if self.old not in text:
                continue
            for first, last in _functions(text).get(self.function, ()):
                lines = text.splitlines(keepends=True)
                body = "".join(lines[first - 1 : last])
                if body.count(self.old) == 1:
                    before = "".join(lines[: first - 1])
                    rest = "".join(lines[last:])
                    start = first + body[: body.index(self.old)].count("\n")
                    end = start + self.old.rstrip("\n").count("\n")
                    whole = before + body.replace(self.old, self.new) + rest
                    found.append(Planted(file, whole, _statement(text, start), end))
        return found


@dataclass(frozen=True, slots=True)
class Planted:
    """A file with the fault in it, and the lines of the statements that it changes, without the fault."""

    file: Path
    text: str
    first_line: int
    last_line: int


def read_faults() -> list[Fault]:
    """Return the faults in the order of ``faults.yaml``."""
    records = yaml.load((HERE / "faults.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return [Fault(**one | {"tests": tuple(one.get("tests", ()))}) for one in records]


@cache
def _modules(root: Path) -> list[Path]:
    return sorted(path for folder in _FOLDERS for path in (root / folder).rglob("*.py"))


@cache
def parsed(text: str) -> ast.Module:
    """Return the tree of a module, which several faults change."""
    return ast.parse(text)


@cache
def _functions(text: str) -> dict[str, list[tuple[int, int]]]:
    """Return the first and last line of each function, method and class of a module, by its name."""
    found: dict[str, list[tuple[int, int]]] = {}

    def walk(node: ast.AST, above: str) -> None:
        for part in ast.iter_child_nodes(node):
            name = above
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{above}.{part.name}".removeprefix(".")
                found.setdefault(name, []).append((part.lineno, part.end_lineno or part.lineno))
            walk(part, name)

    walk(parsed(text), "")
    return found


def _statement(text: str, line: int) -> int:
    """Return the line on which the innermost statement that has a line begins."""
    return max(first for first, last in _statements(text) if first <= line <= last)


@cache
def _statements(text: str) -> list[tuple[int, int]]:
    """Return the first and last line of each statement of a module."""
    return [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.stmt)
    ]
