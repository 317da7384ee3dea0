"""Files of the workspace as a tool gives them back: by reference, never by their bytes."""

from __future__ import annotations

import mimetypes
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


class NoSuchFile(ValueError):  # noqa: N818 - it names what is wrong, as authors read it
    """A result refers to what is no file of the workspace."""


@dataclass(frozen=True)
class File:
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
            found = context.path(_inside(self.path, context.workspace))
        except ValueError as error:
            raise NoSuchFile(str(error)) from None
        name = found.relative_to(context.workspace).as_posix()
        if not found.is_file():
            raise NoSuchFile(f"the workspace has no file {name!r}")
        guessed, _ = mimetypes.guess_type(name)
        size, media_type = found.stat().st_size, guessed or "application/octet-stream"
        return {"file": name, "size": size, "media_type": media_type}

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, __: GetCoreSchemaHandler) -> Any:
        """Let models hold files, and write them as references."""
        return core_schema.is_instance_schema(
            cls,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda file: file.reference(), when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _: Any, __: GetJsonSchemaHandler) -> dict[str, Any]:
        """Say what a reference looks like."""
        return dict(FILE_SCHEMA)


def saved(content: bytes) -> dict[str, Any]:
    """Write bytes to a file of the workspace and return the reference; the same bytes are one file.

    Raises:
        RuntimeError: outside of a call.
        OSError: where it cannot be written.
    """
    name = f"{BYTES_FOLDER}/{sha256(content).hexdigest()[:16]}.bin"
    path = get_context().path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return File(name).reference()


def _inside(path: str | os.PathLike[str], workspace: os.PathLike[str]) -> str:
    """Return a path as the workspace has it, also one that was made from it."""
    text = os.fspath(path)
    return os.path.relpath(text, workspace) if Path(text).is_absolute() else text
