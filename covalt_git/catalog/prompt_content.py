"""Messages of prompts and contents of resources, with the caller's arguments filled in.

Texts come from the toolset's manifest and files, as they were when the toolset was read; no code runs.
"""

from __future__ import annotations

import mimetypes
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from covalt_git.git_store.objects import is_binary_content
from covalt_git.templating.expressions import split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from covalt_git.index.tool_queries import ToolQueries
    from covalt_git.models.prompts import Item, Prompt, PromptMessage, Resource, ToolsetItem

    Args = Mapping[str, str]

_PLAIN = "text/plain"
_BYTES = "application/octet-stream"


class Content(NamedTuple):
    """Content of a resource: ``text``, or ``blob`` if it is not UTF-8."""

    mime_type: str
    text: str | None
    blob: bytes = b""

    @classmethod
    def of_file(cls, path: str, content: bytes, mime_type: str | None = None) -> Self:
        """Return the content of a file; its media type is by default guessed from its name."""
        guessed = mime_type or mimetypes.guess_type(path)[0]
        if not is_binary_content(content):
            with suppress(UnicodeDecodeError):
                return cls(guessed or _PLAIN, content.decode())
        return cls(guessed or _BYTES, None, content)

    @property
    def content(self) -> bytes:
        return self.blob if self.text is None else self.text.encode()


class PromptText(NamedTuple):
    """One message of a prompt, filled in; ``uri`` is the URI of an embedded resource."""

    message: PromptMessage
    content: Content
    uri: str | None


def filled(text: str, args: Args) -> str | None:
    """Return a text with its expressions replaced by arguments; None if an argument is missing."""
    parts = [
        piece if isinstance(piece, str) else args.get(".".join(piece.path)) for piece in split(text)
    ]
    present = [part for part in parts if part is not None]
    return "".join(present) if len(present) == len(parts) else None


def prompt_messages(
    root: Path, index: ToolQueries, item: ToolsetItem[Prompt], args: Args
) -> Iterator[PromptText]:
    """Yield the messages of a prompt, except messages that need a missing argument."""
    for message in item.what.messages:
        uri = None if message.resource is None else filled(message.resource, args)
        content = content_of(root, index, item, message, args)
        if content is not None and (uri is None) == (message.resource is None):
            yield PromptText(message, content, uri)


def content_of(
    root: Path,
    index: ToolQueries,
    item: ToolsetItem[Item],
    of: PromptMessage | Resource,
    args: Args,
) -> Content | None:
    """Return the content of a resource or a message; None if its path is not a file of the toolset."""
    if of.text is not None:
        text = filled(of.text, args)
        return None if text is None else Content(of.mime_type or _PLAIN, text)
    path = filled((of.file or "").removeprefix("./"), args)
    # Only paths in the index are accepted, so no spelling of a path can lead outside the toolset.
    if path is None or path not in {row["path"] for row in index.toolset_files(item.toolset_id)}:
        return None
    with suppress(OSError):  # deleted since the toolset was read
        content = (root / "toolsets" / item.toolset_id / path).read_bytes()
        return Content.of_file(path, content, of.mime_type)
    return None
