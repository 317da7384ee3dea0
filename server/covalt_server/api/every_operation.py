"""Operations of the HTTP API, and the OpenAPI document of all its routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.operations.registry import every_operation
from covalt_server.api import events, openapi, streams, tool_registry

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.operations.registry import Operation

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    *(operation for operation in every_operation().values() if not operation.local),
    *streams.OPERATIONS,
    *events.OPERATIONS,
)


def api_document(server: str) -> JsonObject:
    """Return the document of a server at a URL: the operations, and the tool registry."""
    document = openapi.document(OPERATIONS, server)
    document["paths"] |= tool_registry.documented_paths()
    document["components"]["schemas"] |= tool_registry.documented_schemas()
    return document
