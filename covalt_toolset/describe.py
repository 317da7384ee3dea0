"""Description of a tool for a catalog, from its Python function."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalt_toolset.decorator import metadata_of
from covalt_toolset.signature import read_signature

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class ToolDescription:
    """The description of a tool for models and users; the schemas are JSON Schema 2020-12."""

    name: str
    description: str
    requires_confirmation: bool
    category: str | None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None


def describe(function: Callable[..., object]) -> ToolDescription:
    """Return the description of a tool; a plain function is described as with ``@tool``.

    Raises:
        ToolSignatureError: for a parameter that cannot be passed by name and as JSON.
    """
    metadata = metadata_of(function)
    signature = read_signature(function)
    return ToolDescription(
        name=metadata.name,
        description=metadata.description,
        requires_confirmation=metadata.requires_confirmation,
        category=metadata.category,
        input_schema=copy.deepcopy(signature.input_schema),
        output_schema=copy.deepcopy(signature.output_schema),
    )
