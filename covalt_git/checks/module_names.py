"""The names of a toolset's Python files: none that another module has, none that Python runs unasked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from covalt_git.errors import Problem
from covalt_git.problems import codes

if TYPE_CHECKING:
    from covalt_git.manifests.toolset_files import BundleFiles

PROVIDED = frozenset({"covalt_toolset", "pydantic", "pydantic_core", "typing_extensions"})
"""Packages that every tool can import."""

_OURS = PROVIDED | {"covalt_git"}
"""What the process that runs a tool has imported before it."""

_UNASKED = frozenset({"sitecustomize", "usercustomize"})


def check_names(shown: str, files: BundleFiles) -> list[Problem]:
    """Return what is wrong with the names of a toolset's modules; ``shown`` is its folder."""
    problems = []
    told: set[str] = set()
    for file in files.files:
        place = f"{shown}/{file.path}"
        if file.path.endswith(".pth"):
            message = "a .pth file is code that Python runs whenever it starts"
            problems.append(Problem(place, 0, 0, codes.FORBIDDEN_FILE, message, "remove it"))
        top, _, rest = file.path.partition("/")
        module = top.removesuffix(".py")
        if not file.path.endswith(".py") or module in told:
            continue
        told.add(module)
        if module in _UNASKED and not rest:
            message = f"{top} is code that Python runs whenever it starts"
            problems.append(
                Problem(place, 0, 0, codes.FORBIDDEN_FILE, message, "rename it", "warning")
            )
        elif module in sys.stdlib_module_names or module in _OURS:
            whose = "Python itself" if module in sys.stdlib_module_names else "covalt-git"
            problems.append(
                Problem(
                    f"{shown}/{top}",
                    0,
                    0,
                    codes.SHADOWED_MODULE,
                    f"{module!r} is a module of {whose} too: which of them is imported depends on who asks",
                    f"rename it: git mv {shown}/{top} {shown}/my_{top}",
                    "warning",
                )
            )
    return problems
