"""OpenAPI documents, which are read: each operation becomes a plain HTTP tool of a toolset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covalt_git.compilers.openapi import compile_openapi
from covalt_git.compilers.openapi.documents import BadDocumentError
from covalt_git.formats.model import Note, leaves
from covalt_git.json_values import canonical_json
from covalt_git.json_values.shared_definitions import Definitions

if TYPE_CHECKING:
    from covalt_git.compilers.compilation import CompiledTool
    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Imported, Node

_VERSIONS: Final = ("openapi", "swagger")
_WEBHOOKS: Final = "webhooks"
_MOST_NAME: Final = 200


def recognize(document: Document) -> bool:
    """Return whether a document is an OpenAPI description."""
    value = document.value
    return isinstance(value, dict) and any(isinstance(value.get(key), str) for key in _VERSIONS)


def read(document: Document, imported: Imported) -> None:
    """Add a toolset with a tool for each operation."""
    if not isinstance(document.value, dict):
        raise BadDocumentError("an OpenAPI document is an object")
    info = document.value.get("info")
    title = info.get("title") if isinstance(info, dict) else None
    toolset = imported.toolset(title if isinstance(title, str) else "api")
    compilation = compile_openapi(
        document.text or canonical_json.dumps(document.value),
        namespace=toolset.value["id"],
        path=document.path.rpartition("/")[2] or "openapi.yaml",
    )
    definitions = Definitions(compilation.definitions)
    for name, tool in compilation.tools.items():
        _add(toolset, name, tool, definitions)
    if compilation.secrets:
        toolset.value["secrets"] = sorted(compilation.secrets)
    # The compiler reads the document as a whole, and reports what it leaves out.
    for key in document.value:
        if key == _WEBHOOKS:
            imported.lost[(key,)] = "the API sends these requests itself"
            continue
        # Each tool has parts of many places, so the toolset as a whole has them.
        for loc in leaves(document.value[key]):
            toolset.trace(("id",), (key, *loc))
    for part in compilation.left_out:
        if part.upstream.startswith("webhook "):
            continue
        imported.notes.append(Note((), f"{part.upstream}: {part.reason}"))
    for problem in compilation.problems:
        imported.notes.append(Note((), f"{problem.line}:{problem.col}: {problem.message}"))


def _add(toolset: Node, name: str, tool: CompiledTool, definitions: Definitions) -> None:
    node = toolset.item("tools", id=name)
    texts = {"name": tool.title, "description": tool.description}
    node.value.update({key: text for key, text in texts.items() if text})
    if len(node.value.get("name", "")) > _MOST_NAME:
        del node.value["name"]
    node.value["http"] = tool.request
    node.value["input_schema"] = definitions.within(tool.input_schema)
    if tool.output_schema is not None:
        node.value["output_schema"] = definitions.within(definitions.opened(tool.output_schema))
    # The method says the rest: it is destructive unless it is a reading one.
    if tool.read_only:
        node.value["annotations"] = {"read_only": True}
