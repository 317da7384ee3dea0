"""Regular expressions of the package mean the same on all versions of Python that it is for."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import covalt_git
import covalt_server
import covalt_toolset

# Private, and without types: what a pattern consists of.
compiler: Any = importlib.import_module("re._compiler")
kinds: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")

PACKAGES = (covalt_git, covalt_server, covalt_toolset)
STARTED = re.compile(r"__main__|runtime\.processes\.program$|\.templates\.")
"""Modules that only the process of their own imports."""


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not STARTED.search(module.name):
            yield importlib.import_module(module.name)


def patterns(value: Any, depth: int = 4) -> Iterator[re.Pattern[Any]]:
    """Yield the compiled patterns in a value and its items."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from patterns(item, depth - 1)
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from patterns(item, depth - 1)


LONG = {
    *("covalt_git.compilers.graphql.sdl", "covalt_git.compilers.openapi.documents"),
    *("covalt_git.json_values.levels", "covalt_git.text.html_tags", "covalt_git.yaml_text.reader"),
}
"""Modules that repeat a choice for each character of a file of any size, for which an atomic group would need memory.

What they repeat fails at its first character, or at the end of the text.
"""


def unsafe(pattern: re.Pattern[Any], *, long: bool) -> list[str]:
    """Return the possessive repetitions (``(?:...)*+``) of more than one character.

    With ``long``, only those that have a group before or in them.
    """
    texts: list[str] = []
    groups: list[int] = []

    def walk(parts: Any) -> None:
        for kind, value in parts:
            if kind is kinds.SUBPATTERN:
                groups.extend([value[0]] if value[0] is not None else [])
                walk(value[3])
            elif kind is kinds.POSSESSIVE_REPEAT:
                walk(value[2])
                # One character at a time is repeated by other code.
                if (groups or not long) and not compiler._simple(value[2]):
                    texts.append(str(value[2]))
            elif kind in {kinds.MAX_REPEAT, kinds.MIN_REPEAT}:
                walk(value[2])
            elif kind is kinds.BRANCH:
                for branch in value[1]:
                    walk(branch)
            elif kind is kinds.ATOMIC_GROUP:
                walk(value)
            elif kind in {kinds.ASSERT, kinds.ASSERT_NOT}:
                walk(value[1])

    walk(parser.parse(pattern.pattern, pattern.flags))
    return texts


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.__name__))
def test_patterns_match_the_same_on_older_versions_of_python(package: ModuleType) -> None:
    """Before 3.11.5, Python went on at a wrong place after such a repetition, and forgot the password that it had found.

    Debian 12 has 3.11.2 (python/cpython#106052).  With an alternative and a group, 3.12.1 and 3.13.0 raise
    SystemError (python/cpython#101955).
    ``(?>(?:...)*)`` means the same, and is right in all versions.
    """
    named = {
        pattern: module.__name__
        for module in modules(package)
        for value in vars(module).values()
        for pattern in patterns(value)
    }

    assert named or package is covalt_toolset
    problems = {
        name: texts
        for pattern, name in named.items()
        if (texts := unsafe(pattern, long=name in LONG))
    }
    assert problems == {}
