"""Recognition of a document's format: by a name that the user gives, or from the content, and then from the file's name.

A document of no format, or of several that would read it differently, is refused with what the user can do; it is never a guess.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from covalt_git.errors import UnknownNameError, nearest_name
from covalt_git.formats.documents import FormatError
from covalt_git.formats.model import Imported
from covalt_git.formats.shapes import has_servers_at
from covalt_git.formats.table import FORMATS
from covalt_git.json_values.json_schema import value_problems
from covalt_git.models.sources.skill_entry import SKILL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Format


class UnknownFormatError(FormatError):
    """A document whose format the user has to name: one of ``formats``."""

    def __init__(self, message: str, formats: Sequence[str]) -> None:
        self.formats = tuple(formats)
        super().__init__(message, hint=f"add --from, with one of: {', '.join(formats)}")


class AmbiguousFormatError(UnknownFormatError):
    """A document that has another meaning in some of the formats that it can have."""


def find_format(name: str, *, writes: bool = False) -> Format:
    """Return the format with a name.

    Raises:
        UnknownNameError: with the most similar name, or else all formats that can be read (``writes``: written).
    """
    for item in FORMATS:
        if item.name == name:
            return item
    names = names_of_formats(writes=writes)
    error = UnknownNameError("format", name, names, list_with="covalt-git formats")
    # With the usual bound, `nonsense` is similar to `opencode`.
    if nearest_name(name, names, cutoff=0.6) is None:
        error.hint = f"use one of: {', '.join(names)}"
    raise error


def names_of_formats(*, writes: bool = False) -> list[str]:
    """Return the names of all formats that can be read (``writes``: written)."""
    return [
        candidate.name for candidate in FORMATS if (candidate.write if writes else candidate.read)
    ]


def recognize(document: Document, name: str | None = None) -> Format:
    """Return the format of a document, from its content, or the format with this name.

    If several formats match, the name of the file decides.  Formats of clients that make the same toolset of it are one.

    Raises:
        FormatError: if no format matches, or several do, or the document has not the syntax of the named format.
    """
    if name is not None:
        return _named(document, find_format(name))
    formats = [
        candidate
        for candidate in FORMATS
        if candidate.read
        and candidate.kind in (document.kind, "folder")
        and candidate.recognize(document)
    ]
    path = document.path
    # Files of several clients look alike; the content must fit first, because names can be of anything.
    named = [candidate for candidate in formats if f"/{path}".endswith(f"/{candidate.file_name}")]
    last = path.rstrip("/").rpartition("/")[2]
    named = named or [item for item in formats if item.file_name.rpartition("/")[2] == last]
    if len(formats) > 1 and len(named) == 1:
        formats = named
    # A user cannot choose between formats that make no difference for this file.
    if len(formats) == 1 or _is_same_in_all(document, formats):
        return formats[0]
    if formats:
        names = [candidate.name for candidate in formats]
        raise AmbiguousFormatError(f"{path!r} can be any of: {', '.join(names)}", names)
    parents = {
        item.rpartition("/")[0].rpartition("/")[0]
        for item in document.files
        if item.endswith(f"/{SKILL}")
    }
    if document.kind == "folder" and len(parents) == 1:
        folder = f"{path.rstrip('/')}/{min(parents)}"
        message = f"{path!r} has no tools; the skills in it are below {folder!r}"
        raise FormatError(message, hint=f"convert that folder: {shlex.quote(folder)}")
    own = [item for item in document.files if _is_usual_name(item)]
    if document.kind == "folder" and own:
        listed = " or ".join(shlex.quote(f"{path.rstrip('/')}/{item}") for item in own[:3])
        message = f"{path!r} is no folder of tools"
        raise FormatError(message, hint=f"convert the file in it: {listed}")
    for candidate in FORMATS:
        if candidate.read is None and candidate.recognize(document):
            _named(document, candidate)
    raise UnknownFormatError(f"the format of {path!r} is not known", names_of_formats())


def _is_usual_name(path: str) -> bool:
    """Return whether a file has the usual name of a format that can be read."""
    names = {item.file_name for item in FORMATS if item.read and item.kind != "folder"}
    return any(f"/{path}".endswith(f"/{name}") for name in names)


def _is_same_in_all(document: Document, formats: list[Format]) -> bool:
    """Return whether a client's file means the same in all formats that it can have."""
    meanings = []
    for candidate in formats:
        imported = Imported()
        problems = value_problems(candidate.schema, document.value)
        if candidate.is_host_config and candidate.read and not problems:
            candidate.read(document, imported)
        meaning = [{**toolset, "extensions": None} for toolset in imported.toolsets]
        meanings.append((candidate.is_host_config, len(problems), meaning))
    return (
        bool(formats)
        and formats[0].is_host_config
        and all(meaning == meanings[0] for meaning in meanings)
    )


def _named(document: Document, named: Format) -> Format:
    """Return a format if the document can have it; JSON and YAML can replace each other, and a folder."""
    if named.read is None:
        hint = named.other_source or f"use one of: {', '.join(names_of_formats())}"
        message = f"covalt-git writes the format {named.name!r}, but does not read it"
        raise FormatError(message, hint=hint)
    path, other = named.other_form or ((), "")
    if path and has_servers_at(document.value, path):
        return find_format(other)
    is_other = document.kind in {"json", "yaml"} and named.kind != "toml"
    if document.kind != named.kind and not is_other:
        message = f"{document.path!r} is {document.kind}, but {named.title} is {named.kind}"
        raise FormatError(message)
    return named
