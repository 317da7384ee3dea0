"""Decorator that marks a function as a tool, with its name, description and confirmation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, overload

from covalt_toolset.docstrings import read_docstring

if TYPE_CHECKING:
    from collections.abc import Callable

_ATTRIBUTE = "__tool_metadata__"

_Function = TypeVar("_Function", bound="Callable[..., object]")


@dataclass(frozen=True)
class ToolMetadata:
    """The arguments of ``@tool`` for a function; the toolset's manifest takes precedence."""

    name: str
    description: str
    requires_confirmation: bool = False
    category: str | None = None
    destructive: bool = False


@overload
def tool(name: _Function, /) -> _Function: ...


@overload
def tool(
    name: str | None = None,
    *,
    description: str | None = None,
    requires_confirmation: bool = False,
    category: str | None = None,
    destructive: bool = False,
) -> Callable[[_Function], _Function]: ...


def tool(
    name: _Function | str | None = None,
    *,
    description: str | None = None,
    requires_confirmation: bool = False,
    category: str | None = None,
    destructive: bool = False,
) -> _Function | Callable[[_Function], _Function]:
    """Mark a function as a tool, without changing it.

    Works as ``@tool``, ``@tool()`` and ``@tool(name="Write File", requires_confirmation=True)``.

    Args:
        name: the display name; default: the name of the function.
        description: the description for the model; default: the docstring.
        requires_confirmation: whether each call requires approval.
        category: the group in lists of tools.
        destructive: whether it creates, changes or deletes data, so that calls require approval by default.
    """

    def mark(function: _Function) -> _Function:
        text = read_docstring(function).description if description is None else description
        metadata = ToolMetadata(
            name=name if isinstance(name, str) else function_name(function),
            description=text,
            requires_confirmation=requires_confirmation,
            category=category,
            destructive=destructive,
        )
        setattr(function, _ATTRIBUTE, metadata)
        return function

    if name is None or isinstance(name, str):
        return mark
    return mark(name)


def get_tool_metadata(function: Callable[..., object]) -> ToolMetadata | None:
    """Return the metadata of a tool, or None for a plain function."""
    metadata = getattr(function, _ATTRIBUTE, None)
    return metadata if isinstance(metadata, ToolMetadata) else None


def is_tool(function: Callable[..., object]) -> bool:
    """Return whether a function is marked with ``@tool``."""
    return get_tool_metadata(function) is not None


def metadata_of(function: Callable[..., object]) -> ToolMetadata:
    """Return the metadata of a tool; for a plain function, that of ``@tool`` without arguments."""
    return get_tool_metadata(function) or ToolMetadata(
        function_name(function), read_docstring(function).description
    )


def function_name(function: Callable[..., object]) -> str:
    """Return the name of a function in its definition."""
    return str(getattr(function, "__name__", type(function).__name__))
