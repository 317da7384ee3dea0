"""Files, images and audio as results of tools, which are returned by reference."""

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
"""The folder of the workspace in which bytes of results are stored."""

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


class NoSuchFile(ValueError):  # noqa: N818 - a public name of the SDK
    """A result refers to a path that is not a file of the workspace."""


class ContentReference(ABC):
    """A value whose JSON is a reference to its content."""

    SCHEMA: ClassVar[dict[str, Any]] = FILE_SCHEMA

    @abstractmethod
    def reference(self) -> dict[str, Any]:
        """Return the JSON of the result.

        Raises:
            RuntimeError: outside of a call.
        """

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, __: GetCoreSchemaHandler) -> Any:
        """Return the schema for fields of models; the JSON is the reference."""
        return core_schema.is_instance_schema(
            cls,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: value.reference(), when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _: Any, __: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON Schema of the reference."""
        return dict(cls.SCHEMA)


@dataclass(frozen=True)
class File(ContentReference):
    """A file of the workspace as a result: ``return File("report.pdf")``.

    The JSON is ``{"file": "report.pdf", "size": 1024, "media_type": "application/pdf"}``.
    """

    path: str | os.PathLike[str]

    def reference(self) -> dict[str, Any]:
        """Return the JSON of the result.

        Raises:
            NoSuchFile: if the path is not a file of the workspace.
            RuntimeError: outside of a call.
        """
        context = get_context()
        path = os.fspath(self.path)
        if Path(path).is_absolute():
            path = os.path.relpath(path, context.workspace)
        try:
            # Links are followed, because the tool chose this path, not its caller, whom approval rules are about.
            target = context.path(path, follow_links=True)
        except ValueError as error:
            raise NoSuchFile(str(error)) from None
        name = target.relative_to(context.workspace).as_posix()
        if not target.is_file():
            raise NoSuchFile(f"the workspace has no file {name!r}")
        guessed, _ = mimetypes.guess_type(name)
        size, media_type = target.stat().st_size, guessed or "application/octet-stream"
        return {"file": name, "size": size, "media_type": media_type}


@dataclass(frozen=True)
class Image(ContentReference):
    """An image as a result: ``return Image(png)``.

    It is stored as a file of the workspace, and the JSON is that of a :class:`File`.
    """

    content: bytes
    media_type: str = "image/png"

    def reference(self) -> dict[str, Any]:
        """Return the JSON of the result."""
        return save(self.content, self.media_type)


@dataclass(frozen=True)
class Audio(ContentReference):
    """Audio as a result: ``return Audio(wav)``; stored like an :class:`Image`."""

    content: bytes
    media_type: str = "audio/wav"

    def reference(self) -> dict[str, Any]:
        """Return the JSON of the result."""
        return save(self.content, self.media_type)


@dataclass(frozen=True)
class Embedded(ContentReference):
    """A resource with its URI and content: ``Embedded("doc://a", text)``.

    The result contains text; bytes are stored as a file of the workspace.
    """

    uri: str
    content: str | bytes
    media_type: str = "text/plain"

    SCHEMA: ClassVar[dict[str, Any]] = EMBEDDED_SCHEMA

    def reference(self) -> dict[str, Any]:
        """Return the JSON of the result."""
        if isinstance(self.content, str):
            return {"uri": self.uri, "media_type": self.media_type, "text": self.content}
        return {"uri": self.uri, **save(self.content, self.media_type)}


def save(content: bytes, media_type: str = "application/octet-stream") -> dict[str, Any]:
    """Write bytes to a file of the workspace, named by their hash, and return its reference.

    Raises:
        RuntimeError: outside of a call.
        OSError: if the file cannot be written.
    """
    name = f"{BYTES_FOLDER}/{sha256(content).hexdigest()[:16]}{_extension(media_type)}"
    path = get_context().path(name, follow_links=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {**File(name).reference(), "media_type": media_type}


def _extension(media_type: str) -> str:
    kind, _, subtype = media_type.partition(";")[0].partition("/")
    # The tables of mimetypes differ between systems, and lack newer formats.  A subtype is a text of the tool that
    # becomes part of a path, so it must be letters and digits.
    if kind not in {"image", "audio", "video"} or not subtype.isalnum():
        return mimetypes.guess_extension(media_type) or ".bin"
    return mimetypes.guess_extension(media_type) or f".{subtype}"
