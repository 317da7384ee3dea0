"""covalt-git: an AI assistant's tools and its work, kept in Git.

``open_project(path)`` opens a project in Python; ``docs/reference/python-api.md`` describes it.  Its modules are
imported on first use, so that ``import covalt_git`` imports no other package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from covalt_git.errors import CovaltError
    from covalt_git.python_api.chat import CallResult, Chat, FinishedResult, PendingResult
    from covalt_git.python_api.project import Project, open_project

__version__ = "0.1.0"
__all__ = [
    "CallResult",
    "Chat",
    "CovaltError",
    "FinishedResult",
    "PendingResult",
    "Project",
    "open_project",
]

_HOMES = {
    "CallResult": "python_api.chat",
    "Chat": "python_api.chat",
    "CovaltError": "errors",
    "FinishedResult": "python_api.chat",
    "PendingResult": "python_api.chat",
    "Project": "python_api.project",
    "open_project": "python_api.project",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    # Every command imports this module, and the API would load the operations for each of them.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only where a program embeds covalt-git

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
