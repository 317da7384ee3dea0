"""Docstrings of tools: the description of the tool for the model, and the descriptions of the parameters."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Docstring:
    """The description of a function, and of its parameters by name."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def read_docstring(function: Callable[..., object]) -> Docstring:
    """Parse a docstring in Google, NumPy or reStructuredText style."""
    text = inspect.getdoc(function)
    if not text:
        return Docstring()

    import docstring_parser  # noqa: PLC0415 - most tools have a description in the decorator

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Docstring(description=text)
    summary = (parsed.short_description, parsed.long_description)
    return Docstring(
        description="\n\n".join(part.strip() for part in summary if part),
        parameters={
            parameter.arg_name: " ".join(parameter.description.split())
            for parameter in parsed.params
            if parameter.description
        },
    )
