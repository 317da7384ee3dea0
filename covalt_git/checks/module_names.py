"""Check that no Python file of a toolset hides another module, or has a name that Python runs at startup."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from covalt_git.errors import Problem
from covalt_git.problems import codes

if TYPE_CHECKING:
    from covalt_git.manifests.toolset_files import BundleFiles

PROVIDED = frozenset(
    {"annotated_types", "covalt_toolset", "pydantic", "pydantic_core", "typing_extensions"}
)
"""Packages that every tool can import."""

IMPORTED = PROVIDED | {"covalt_git"}
"""Packages that the process of a tool imports before the tool."""

_STARTUP = frozenset({"sitecustomize", "usercustomize"})


def check_names(display_path: str, files: BundleFiles) -> list[Problem]:
    """Return the problems with the names of a toolset's modules; ``display_path`` is the toolset's folder."""
    problems = []
    checked: set[str] = set()
    for file in files.files:
        place = f"{display_path}/{file.path}"
        if file.path.endswith(".pth"):
            message = "code in .pth files runs whenever Python starts"
            problems.append(Problem(place, 0, 0, codes.FORBIDDEN_FILE, message, "remove it"))
        top, _, rest = file.path.partition("/")
        module = top.removesuffix(".py")
        # A package has many files, but imports use its name alone.
        if not file.path.endswith(".py") or module in checked:
            continue
        checked.add(module)
        if module in _STARTUP and not rest:
            message = f"code in {top} runs whenever Python starts"
            problems.append(
                Problem(place, 0, 0, codes.FORBIDDEN_FILE, message, "rename it", "warning")
            )
        elif module in sys.stdlib_module_names or module in IMPORTED:
            owner = (
                "Python's standard library" if module in sys.stdlib_module_names else "covalt-git"
            )
            problems.append(
                Problem(
                    f"{display_path}/{top}",
                    0,
                    0,
                    codes.SHADOWED_MODULE,
                    f"{module!r} is also a module of {owner}; imports can get the wrong one",
                    f"rename it: git mv {display_path}/{top} {display_path}/my_{top}",
                    "warning",
                )
            )
    return problems
