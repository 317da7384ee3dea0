"""Results that are sent as an event of a stream, whose size clients limit."""

from __future__ import annotations

import json

import mcp_types as types
from pydantic import ValidationError

from covalt_git.gateway.resources import resource_uris
from covalt_git.gateway.results import CHAT, MANIFEST

MOST_EVENT_BYTES = (1 << 20) - (1 << 10)
"""Largest event that is sent to a client: 1 MiB, with room for its frame."""


def for_event(answer: bytes) -> bytes:
    """Return an answer that fits in an event, if it is a tool's result: without its largest images, audio and files.

    Links to their files follow them, or to the result for a text.  The session of a client that gets a larger event
    than it permits is unusable.
    """
    facts = json.loads(answer)
    try:
        result = types.CallToolResult.model_validate(facts["result"])
    except (KeyError, ValidationError):
        return answer
    size, content = len(answer), [*result.content]
    # The largest first, so that as few as possible are left out.
    for block in sorted(result.content, key=_data_size, reverse=True):
        if size <= MOST_EVENT_BYTES or not _data_size(block):
            break
        size -= _data_size(block)
        content[content.index(block)] = _placeholder(block, result)
    facts["result"]["content"] = [
        block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in content
    ]
    return json.dumps(facts, separators=(",", ":")).encode()


def _data_size(block: types.ContentBlock) -> int:
    """Return the size of a block's data as it is sent."""
    match block:
        case types.ImageContent() | types.AudioContent():
            return len(block.data)
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            return len(resource.blob)
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return len(resource.text.encode())
    return 0


def _placeholder(block: types.ContentBlock, result: types.CallToolResult) -> types.ContentBlock:
    facts = result.meta or {}
    if isinstance(block, types.EmbeddedResource):
        media_type = block.resource.mime_type
        if isinstance(block.resource, types.TextResourceContents) and facts.get(MANIFEST):
            uri = resource_uris.result(facts[CHAT], facts[MANIFEST])
            return types.ResourceLink(uri=uri, name="result", size=_data_size(block))
    else:
        assert isinstance(block, types.ImageContent | types.AudioContent)
        media_type = block.mime_type
    note = f"{media_type} is too large to be sent after progress; read the resource that is linked"
    return types.TextContent(text=note)
