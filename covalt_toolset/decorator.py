"""The mark on a function that makes it a tool with a name, a description and a confirmation."""

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
    """What ``@tool`` says of a function; the toolset's manifest may say otherwise."""

    name: str
    description: str
    requires_confirmation: bool
    category: str | None


@overload
def tool(name: _Function, /) -> _Function: ...


@overload
def tool(
    name: str | None = None,
    *,
    description: str | None = None,
    requires_confirmation: bool = False,
    category: str | None = None,
) -> Callable[[_Function], _Function]: ...


def tool(
    name: _Function | str | None = None,
    *,
    description: str | None = None,
    requires_confirmation: bool = False,
    category: str | None = None,
) -> _Function | Callable[[_Function], _Function]:
    """Mark a function as a tool; the function itself stays as it is.

    Works as ``@tool``, ``@tool()`` and ``@tool(name="Write File", requires_confirmation=True)``.

    Args:
        name: the name people see; the function's own where none is given.
        description: what the model reads; the docstring where none is given.
        requires_confirmation: ask a person before each call.
        category: where a list of tools shows this one.
    """

    def mark(function: _Function) -> _Function:
        metadata = ToolMetadata(
            name=name if isinstance(name, str) else function_name(function),
            description=_description(function) if description is None else description,
            requires_confirmation=requires_confirmation,
            category=category,
        )
        setattr(function, _ATTRIBUTE, metadata)
        return function

    if name is None or isinstance(name, str):
        return mark
    return mark(name)


def get_tool_metadata(function: Callable[..., object]) -> ToolMetadata | None:
    """Return what ``@tool`` said of ``function``, or None for a plain function."""
    metadata = getattr(function, _ATTRIBUTE, None)
    return metadata if isinstance(metadata, ToolMetadata) else None


def is_tool(function: Callable[..., object]) -> bool:
    """Say whether ``function`` carries the mark."""
    return get_tool_metadata(function) is not None


def metadata_of(function: Callable[..., object]) -> ToolMetadata:
    """Return the mark of ``function``, or the one that a bare ``@tool`` would give it."""
    return get_tool_metadata(function) or ToolMetadata(
        name=function_name(function),
        description=_description(function),
        requires_confirmation=False,
        category=None,
    )


def function_name(function: Callable[..., object]) -> str:
    """Return the name that ``function`` was defined with."""
    return str(getattr(function, "__name__", type(function).__name__))


def _description(function: Callable[..., object]) -> str:
    return read_docstring(function).description
