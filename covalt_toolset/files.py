"""What a tool gives back that is no JSON: files, images and sounds, by reference and not by their bytes."""

from __future__ import annotations

import mimetypes
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic_core import core_schema

from covalt_toolset.context import get_context

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

BYTES_FOLDER = "files"
"""Where bytes that a tool returns become a file."""

FILE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A file of the workspace.",
    "properties": {
        "file": {"type": "string"},
        "size": {"type": "integer"},
        "media_type": {"type": "string"},
    },
    "required": ["file", "size", "media_type"],
    "additionalProperties": False,
}


EMBEDDED_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A resource with its content, which is a text or a file of the workspace.",
    "properties": {
        "uri": {"type": "string"},
        "media_type": {"type": "string"},
        "text": {"type": "string"},
        "file": {"type": "string"},
        "size": {"type": "integer"},
    },
    "required": ["uri", "media_type"],
    "additionalProperties": False,
}


class NoSuchFile(ValueError):  # noqa: N818 - it names what is wrong, as authors read it
    """A result refers to what is no file of the workspace."""


class Reference(ABC):
    """A value whose JSON names what it holds."""

    SCHEMA: ClassVar[dict[str, Any]] = FILE_SCHEMA

    @abstractmethod
    def reference(self) -> dict[str, Any]:
        """Return what a caller receives.

        Raises:
            RuntimeError: outside of a call.
        """

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, __: GetCoreSchemaHandler) -> Any:
        """Let models hold it, and write it as its reference."""
        return core_schema.is_instance_schema(
            cls,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda held: held.reference(), when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _: Any, __: GetJsonSchemaHandler) -> dict[str, Any]:
        """Say what a reference looks like."""
        return dict(cls.SCHEMA)


@dataclass(frozen=True)
class File(Reference):
    """A file of the workspace as a result: ``return File("report.pdf")``.

    A caller receives ``{"file": "report.pdf", "size": 1024, "media_type": "application/pdf"}``.
    """

    path: str | os.PathLike[str]

    def reference(self) -> dict[str, Any]:
        """Return what a caller receives.

        Raises:
            NoSuchFile: where the workspace has no such file.
            RuntimeError: outside of a call.
        """
        context = get_context()
        try:
            found = context.path(_inside(self.path, context.workspace), follow_links=True)
        except ValueError as error:
            raise NoSuchFile(str(error)) from None
        name = found.relative_to(context.workspace).as_posix()
        if not found.is_file():
            raise NoSuchFile(f"the workspace has no file {name!r}")
        guessed, _ = mimetypes.guess_type(name)
        size, media_type = found.stat().st_size, guessed or "application/octet-stream"
        return {"file": name, "size": size, "media_type": media_type}


@dataclass(frozen=True)
class Image(Reference):
    """An image as a result: ``return Image(png)``.

    It becomes a file of the workspace, and a caller receives the reference of one.
    """

    content: bytes
    media_type: str = "image/png"

    def reference(self) -> dict[str, Any]:
        """Return what a caller receives."""
        return saved(self.content, self.media_type)


@dataclass(frozen=True)
class Audio(Reference):
    """A sound as a result: ``return Audio(wav)``; a file of the workspace, as an :class:`Image`."""

    content: bytes
    media_type: str = "audio/wav"

    def reference(self) -> dict[str, Any]:
        """Return what a caller receives."""
        return saved(self.content, self.media_type)


@dataclass(frozen=True)
class Embedded(Reference):
    """Something with an address of its own, given with what is there: ``Embedded("doc://a", text)``.

    Text stands in the result, bytes become a file of the workspace.
    """

    uri: str
    content: str | bytes
    media_type: str = "text/plain"

    SCHEMA: ClassVar[dict[str, Any]] = EMBEDDED_SCHEMA

    def reference(self) -> dict[str, Any]:
        """Return what a caller receives."""
        if isinstance(self.content, str):
            return {"uri": self.uri, "media_type": self.media_type, "text": self.content}
        return {"uri": self.uri, **saved(self.content, self.media_type)}


def saved(content: bytes, media_type: str = "application/octet-stream") -> dict[str, Any]:
    """Write bytes to a file of the workspace and return the reference; the same bytes are one file.

    Raises:
        RuntimeError: outside of a call.
        OSError: where it cannot be written.
    """
    name = f"{BYTES_FOLDER}/{sha256(content).hexdigest()[:16]}{_ending(media_type)}"
    path = get_context().path(name, follow_links=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {**File(name).reference(), "media_type": media_type}


def _ending(media_type: str) -> str:
    """Return what the name of such a file ends in."""
    kind, _, of_it = media_type.partition(";")[0].partition("/")
    if kind not in {"image", "audio", "video"} or not of_it.isalnum():
        return mimetypes.guess_extension(media_type) or ".bin"
    return mimetypes.guess_extension(media_type) or f".{of_it}"


def _inside(path: str | os.PathLike[str], workspace: os.PathLike[str]) -> str:
    """Return a path as the workspace has it, also one that was made from it."""
    text = os.fspath(path)
    return os.path.relpath(text, workspace) if Path(text).is_absolute() else text
