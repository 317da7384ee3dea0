"""Directives of autodoc for the public Python API and the SDK of tool authors."""

from __future__ import annotations

import inspect
from importlib import import_module


def api_text() -> str:
    """Return the description of each public name of ``covalt_git``."""
    return _text("covalt_git")


def sdk_text() -> str:
    """Return the description of each public name of ``covalt_toolset``."""
    return _text("covalt_toolset")


def _text(name: str) -> str:
    module = import_module(name)
    parts = [f".. py:currentmodule:: {name}"]
    for public in sorted(module.__all__, key=str.lower):
        thing = getattr(module, public)
        kind = "class" if inspect.isclass(thing) else "function" if callable(thing) else "data"
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            kind = "exception"
        parts.append(f".. auto{kind}:: {name}.{public}")
    return "```{eval-rst}\n" + "\n\n".join(parts) + "\n```"
