"""How the code reads, in numbers that anybody can measure again: ``python -m tests.readability [FOLDER]``.

It prints, for each package and in total, the comment lines per 1,000 lines, the functions of more than eight lines
with a name that says nothing of the thing (:data:`VAGUE`), the uses of ``one`` and ``found``, the private functions that are called once and have at
most four lines, and the docstrings that only repeat the name of their function.  The last three lists are printed
whole with ``--list``.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]
PACKAGES = ("covalt_git", "covalt_toolset", "server/covalt_server")
VAGUE = frozenset(
    {"one", "found", "known", "done", "made", "wanted", "shown", "now", "before", "it"}
)
"""Names that could be of anything; the noun of the thing (``server``, ``branch``, ``answer``) says what it is."""

_SHORT = 8
"""Functions of at most this many lines are read at a glance, whatever their names."""

_TRIVIAL = 4
_EMPTY_WORDS = frozenset(
    {"a", "an", "the", "of", "return", "whether", "is", "are", "has", "have", "this", "that"}
    | {"it", "all", "some", "if", "in", "for", "to", "and", "or", "with", "as"}
)
_DIRECTIVES = ("noqa", "type:", "fmt:", "pragma")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(NamedTuple):
    """A function of the code, as lists show it."""

    file: Path
    function: Function

    def __str__(self) -> str:
        return f"{self.file.relative_to(REPOSITORY)}:{self.function.lineno} {self.function.name}"


class Module:
    """A module, with what is counted of it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.text = file.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)

    @cached_property
    def functions(self) -> list[Place]:
        """Its functions and methods."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [Place(self.file, node) for node in ast.walk(self.tree) if isinstance(node, kinds)]

    @property
    def comment_lines(self) -> int:
        """The lines that are a comment, without directives of tools."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return sum(
            token.type == tokenize.COMMENT
            and token.line.lstrip().startswith("#")
            and not any(directive in token.string for directive in _DIRECTIVES)
            for token in tokens
        )

    @property
    def vague(self) -> list[Place]:
        """The functions of more than eight lines that give a thing a name without a noun."""
        return [
            place
            for place in self.functions
            if len_of(place.function) > _SHORT and vague_names(place.function)
        ]

    @property
    def vague_uses(self) -> int:
        """The uses of ``one`` and ``found`` as names."""
        names = (node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name))
        return sum(name in {"one", "found"} for name in names)

    @property
    def repeated(self) -> list[Place]:
        """The functions whose docstring has no word that is not in their name."""
        return [place for place in self.functions if _repeats_its_name(place.function)]

    @property
    def called_once(self) -> list[Place]:
        """The private functions of at most four lines whose name appears once more in the module."""
        names = Counter(re.findall(r"\w+", self.text))
        return [
            place
            for place in self.functions
            if place.function.name.startswith("_")
            and not place.function.name.startswith("__")
            and names[place.function.name] == 2  # its definition and its call
            and len_of(place.function) - 1 <= _TRIVIAL
        ]


def modules(*folders: Path) -> list[Module]:
    """Return the modules below some folders, by default those of the three packages."""
    roots = folders or tuple(REPOSITORY / package for package in PACKAGES)
    files = (file for root in roots for file in sorted(root.rglob("*.py")))
    return [Module(file) for file in files if "templates" not in file.parts]


def len_of(function: Function) -> int:
    """Return the lines of a function without its docstring and its decorators."""
    first = function.body[0]
    is_described = ast.get_docstring(function) is not None
    described = (first.end_lineno or 0) - first.lineno + 1 if is_described else 0
    return (function.end_lineno or 0) - function.lineno + 1 - described


def vague_names(function: Function) -> set[str]:
    """Return the names without a noun that a function gives."""
    return {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE
    }


def _repeats_its_name(function: Function) -> bool:
    text = ast.get_docstring(function)
    if text is None or "\n" in text:
        return False
    words = {word.lower().rstrip("s") for word in re.findall(r"[A-Za-z]+", text)}
    name = {word.rstrip("s") for word in function.name.lower().split("_")}
    return words - {word.rstrip("s") for word in _EMPTY_WORDS} <= name


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="print each place too")
    options = parser.parse_args()
    packages: dict[str, list[Module]] = {}
    for module in modules(*(folder.resolve() for folder in options.folders)):
        parts = module.file.relative_to(REPOSITORY).parent.parts
        packages.setdefault("/".join(parts[:2]), []).append(module)
    every = [module for package in packages.values() for module in package]
    print(f"{'':28}{'lines':>8}{'comments':>10}{'vague':>8}{'uses':>8}{'once':>8}{'repeated':>10}")
    for name, members in [*sorted(packages.items()), ("all", every)]:
        lines = sum(len(module.text.splitlines()) for module in members)
        comments = 1000 * sum(module.comment_lines for module in members) / max(lines, 1)
        counts = [
            sum(len(getattr(module, kind)) for module in members)
            for kind in ("vague", "called_once", "repeated")
        ]
        uses = sum(module.vague_uses for module in members)
        print(f"{name:28}{lines:8}{comments:10.1f}{counts[0]:8}{uses:8}{counts[1]:8}{counts[2]:10}")
    for kind in ("vague", "called_once", "repeated") if options.list else ():
        print(f"\n{kind}")
        for module in every:
            for place in getattr(module, kind):
                names = ", ".join(sorted(vague_names(place.function))) if kind == "vague" else ""
                print(f"  {place} {names}".rstrip())


if __name__ == "__main__":
    main()
