"""Results that refer to files, as MCP has them: images, audio and resources."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import mcp_types as types

from covalt_git.gateway import resource_uris
from covalt_git.models.file_reference import is_reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.models.calls import ToolCall
    from covalt_git.project import Project

    Read = Callable[[str], bytes | None]

MOST_BYTES = 4 << 20
"""How large a file is at most that stands in a result; of a larger one there is the link."""


def blocks(value: Any, call: ToolCall, read: Read) -> list[types.ContentBlock] | None:
    """Return the blocks of a result that is a reference, or a list with one in it; else None.

    ``read`` returns a file of the workspace as the call left it, or None where it is not there.
    """
    values = value if isinstance(value, list) else [value]
    if not any(map(is_reference, values)):
        return None
    return [block for one in values for block in _blocks(one, call, read)]


def reader(project: Project, call: ToolCall) -> Read:
    """Return what reads files of the workspace as a call left them."""

    def read(path: str) -> bytes | None:
        if call.post_manifest_id is None:
            return None
        with project.chats.open(call.chat_id) as chat:
            found = chat.find_file(call.post_manifest_id, path)
            return None if found is None else chat.store.read_blob(found.oid)

    return read


def _blocks(value: Any, call: ToolCall, read: Read) -> list[types.ContentBlock]:
    if not is_reference(value):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return [types.TextContent(text=text)]
    uri, media_type = value.get("uri"), value["media_type"]
    if "text" in value:
        held = types.TextResourceContents(uri=uri, mime_type=media_type, text=value["text"])
        return [types.EmbeddedResource(resource=held)]
    link = _link(value, call)
    content = read(value["file"]) if value["size"] <= MOST_BYTES else None
    if content is None or len(content) > MOST_BYTES:
        return link
    encoded = base64.b64encode(content).decode()
    if uri is not None:
        blob = types.BlobResourceContents(uri=uri, mime_type=media_type, blob=encoded)
        return [types.EmbeddedResource(resource=blob)]
    if media_type.startswith("image/"):
        return [types.ImageContent(data=encoded, mime_type=media_type), *link]
    if media_type.startswith("audio/"):
        return [types.AudioContent(data=encoded, mime_type=media_type), *link]
    return link


def _link(value: Any, call: ToolCall) -> list[types.ContentBlock]:
    """Return a link to the file as the call left it."""
    path = value["file"]
    if not resource_uris.can_be_named(path):
        return [types.TextContent(text=json.dumps(value))]
    uri = resource_uris.file(call.chat_id, path, manifest_id=call.post_manifest_id)
    return [types.ResourceLink(uri=uri, name=path, mime_type=value["media_type"])]
