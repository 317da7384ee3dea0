"""Conversion of a document: recognition, reading, writing, and the account of every value.

Each value of the input is consumed, carried or lost.  A consumed value is in the output, in the form of its
format.  A carried value is in the output unchanged, mostly in ``extensions``.  A lost value is not in the output,
and is reported with a reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git import yaml_text
from covalt_git.credentials.leaks import masked
from covalt_git.errors import UnknownNameError, nearest_name
from covalt_git.formats import carried, skills, toolset_yaml
from covalt_git.formats.carried import Carried
from covalt_git.formats.documents import Document, FormatError, json_text, refuse, toml_text
from covalt_git.formats.literal_credentials import replace_credentials
from covalt_git.formats.model import Format, Imported, leaves, pointer_text
from covalt_git.formats.shapes import duplicates
from covalt_git.formats.table import FORMATS
from covalt_git.json_values import canonical_json
from covalt_git.json_values.json_schema import value_problems
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from covalt_git.formats.model import Note
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_MAX_SHOWN: Final = 200
_CONSUMED: Final = ""


class Loss(NamedTuple):
    """A value or a file of the input that the output does not have."""

    pointer: str
    value: str
    reason: str


class DocumentReading(NamedTuple):
    """A document, corrected and without credentials, and the toolsets that it becomes.

    If it ``is_complete``, the toolsets and what is carried are all of the document.
    """

    format: Format
    document: Document
    imported: Imported
    carried: Carried
    is_complete: bool


class Conversion(NamedTuple):
    """The files of the output by path, and what became of each value of the input.

    ``destructive`` is the number of tools whose calls need approval because of their effects.
    """

    source: Format
    target: Format
    files: dict[str, bytes]
    notes: tuple[Note, ...]
    lost: tuple[Loss, ...]
    consumed: tuple[Loc, ...]
    carried: tuple[Loc, ...]
    toolsets: int
    tools: int
    destructive: int


def find_format(name: str, *, writes: bool = False) -> Format:
    """Return the format with a name.

    Raises:
        UnknownNameError: with the most similar name, or else all formats that can be read (``writes``: written).
    """
    for one in FORMATS:
        if one.name == name:
            return one
    names = _names(writes=writes)
    error = UnknownNameError("format", name, names, list_with="covalt-git formats")
    if nearest_name(name, names, cutoff=0.6) is None:
        error.hint = f"use one of: {', '.join(names)}"
    raise error


def _names(*, writes: bool = False) -> list[str]:
    return [one.name for one in FORMATS if (one.write if writes else one.read)]


def recognize(documents: Sequence[Document], name: str | None = None) -> tuple[Document, Format]:
    """Return the document of an input and its format, from its content, or the format with this name.

    If several formats match, the name of the file decides.

    Raises:
        FormatError: if no format matches, or several do.
    """
    if name is not None:
        wanted = find_format(name)
        kinds = (wanted.kind, *_ALSO.get(wanted.kind, ()))
        fitting = [one for one in documents if one.kind in kinds]
        if wanted.read is None:
            hint = f"use one of: {', '.join(_names())}"
            raise FormatError(f"{wanted.title} cannot be read", hint=hint)
        if not fitting:
            raise FormatError(
                f"{documents[0].path!r} is {documents[0].kind}, but {wanted.title} is {wanted.kind}"
            )
        return fitting[0], wanted
    found = [
        (document, one)
        for document in documents
        for one in FORMATS
        if one.read and one.kind in (document.kind, "folder") and one.recognize(document)
    ]
    path = documents[0].path
    if len(found) > 1:
        named = [pair for pair in found if f"/{path}".endswith(f"/{pair[1].file_name}")]
        found = named if len(named) == 1 else found
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(one.name for _, one in found)
        raise FormatError(f"{path!r} can be any of: {names}", hint=f"add --from {found[0][1].name}")
    hint = f"add --from, with one of: {', '.join(_names())}"
    raise FormatError(f"the format of {path!r} is not known", hint=hint)


_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "json": ("yaml",),
    "yaml": ("json",),
    "folder": ("yaml", "json"),
}
"""Syntaxes in which a document of another syntax can be written, if its format is named."""


def read(document: Document, source: Format, *, target: Format | None = None) -> DocumentReading:
    """Read a document.

    For ``toolset.yaml`` as the ``target``, tools that are only definitions are left out.

    Raises:
        FormatError: with all problems of the document.
    """
    assert source.read is not None
    value, notes = replace_credentials(document.value)
    notes += source.correct(value)
    clean = document.with_value(value)
    problems = value_problems(source.schema, value) if source.schema else []
    if not problems:
        problems = [one for path in source.unique for one in duplicates(value, path)]
    if problems:
        raise refuse(
            document.path, [document.problem(loc, masked(message)) for loc, message in problems]
        )
    imported = Imported(notes=notes)
    source.read(clean, imported)
    if target is toolset_yaml.FORMAT:
        toolset_yaml.leave_out_definitions(imported)
    if source.write is None or source.kind == "folder":
        return DocumentReading(source, clean, imported, Carried(), is_complete=False)
    plain = source.write(imported.parts({}), imported)
    return DocumentReading(
        source, clean, imported, carried.difference(value, plain), is_complete=True
    )


def convert(document: Document, source: Format, target: Format) -> Conversion:
    """Convert a document to another format, or to its own.

    Raises:
        FormatError: with all problems of the document, or if the output would be too large.
    """
    if target.write is None:
        hint = f"use one of: {', '.join(_names(writes=True))}"
        if target.of_chats:
            hint = "covalt-git chat export CHAT --conversation"
            raise FormatError(f"{target.title} is written from a chat", hint=hint)
        raise FormatError(f"covalt-git reads {target.title}, but does not write it", hint=hint)
    reading = read(document, source, target=target)
    imported = reading.imported
    if target is toolset_yaml.FORMAT:
        if not imported.toolsets:
            raise FormatError(f"{document.path!r} has no tools to convert")
        if reading.is_complete:
            toolset_yaml.add_extensions(imported, source, reading.carried)
    used: dict[Loc, str] = {}
    value = target.write(imported.parts(used), imported)
    if target is source:
        value, _ = carried.restore(value, reading.carried)
    elif source is toolset_yaml.FORMAT:
        value = _with_extensions(value, target, imported, used)
    fates = _fates(reading, used, target)
    lost = [_loss(reading.document, loc, why) for loc, why in fates.items() if why]
    lost += _lost_files(imported, target)
    return Conversion(
        source,
        target,
        _files(value, target),
        tuple(imported.notes),
        tuple(sorted(lost)),
        tuple(loc for loc, why in fates.items() if why == _CONSUMED),
        tuple(loc for loc, why in fates.items() if why is None),
        len(imported.toolsets),
        sum(len(one.get("tools", ())) for one in imported.toolsets),
        sum(map(_destructive_tools, imported.toolsets)),
    )


def _with_extensions(value: Any, target: Format, imported: Imported, used: dict[Loc, str]) -> Any:
    """Restore what the toolsets carry from an earlier document of the target's format."""
    stored = [carried.stored_extension(manifest, target.name) for manifest in imported.toolsets]
    value, missing = carried.restore(value, Carried(stored))
    for position, one in enumerate(stored):
        if one:
            used[position, "extensions", target.name] = _CONSUMED
        for pointer in set(missing) & set(one.get("set", {})):
            reason = "the part of the document that it belongs to was removed"
            used[position, "extensions", target.name, "set", pointer] = reason
    return value


def _files(value: Any, target: Format) -> dict[str, bytes]:
    if target.kind == "folder":
        files: dict[str, bytes] = value
        return files
    if target.kind == "yaml":
        return {target.file_name: yaml_text.dump(value).encode()}
    text = toml_text(value) if target.kind == "toml" else json_text(value)
    return {target.file_name: text.encode()}


def _fates(
    reading: DocumentReading, used: Mapping[Loc, str], target: Format
) -> dict[Loc, str | None]:
    """Return for each value of the input: consumed, None if it is carried, or the reason why it is lost."""
    imported, document = reading.imported, reading.document
    every = leaves(document.value)
    known = set(every)
    no_field = f"{target.title} has no field for it"
    found: dict[Loc, str] = {}
    for loc in leaves(imported.toolsets):
        part = _prefix(loc, imported.origins)
        if part is None:
            continue  # the reader added it
        origin = imported.origins[part]
        exact = (*origin, *loc[len(part) :])
        at = exact if exact in known else origin
        why = _CONSUMED if target is reading.format else _longest(loc, used, no_field)
        found[at] = min(why, found.get(at, why))  # consumed, if one of the parts is
    places = set(reading.carried.places.values())
    carries = target in (reading.format, toolset_yaml.FORMAT)
    fates: dict[Loc, str | None] = {}
    for loc in every:
        part = _prefix(loc, imported.merged)
        why = _longest(imported.merged[part], used) if part is not None else None
        why = why if why is not None else _longest(loc, found)
        is_stored = _prefix(loc, places) is not None
        if why is None and reading.is_complete and not is_stored:
            why = _CONSUMED  # the format and the toolsets imply it, as the ``schema`` of CJSON
        if why != _CONSUMED and is_stored and carries:
            fates[loc] = None
        else:
            fates[loc] = why if why == _CONSUMED else _longest(loc, imported.lost, why or no_field)
    return fates


def _loss(document: Document, loc: Loc, reason: str) -> Loss:
    value = document.value
    for part in loc:
        value = value[part]
    shown = masked(shorten(canonical_json.dumps(value).decode(), _MAX_SHOWN))
    return Loss(pointer_text(loc), shown, reason)


def _lost_files(imported: Imported, target: Format) -> list[Loss]:
    """Return the files that the reader cannot place, and the skills that the target does not have."""
    found = dict(imported.lost_files)
    for files in imported.files if target.kind != "folder" else ():
        found |= dict.fromkeys(skills.skills_of(files), f"{target.title} has no skills")
    return [Loss(pointer_text((path,)), "", reason) for path, reason in found.items()]


def _prefix(loc: Loc, known: Collection[Loc]) -> Loc | None:
    """Return the longest known prefix of a place."""
    if known:
        for end in range(len(loc), -1, -1):
            if loc[:end] in known:
                return loc[:end]
    return None


def _longest(loc: Loc, known: Mapping[Loc, str], default: Any = None) -> Any:
    """Return the value of the longest known prefix of a place, or ``default``."""
    found = _prefix(loc, known)
    return default if found is None else known[found]


def _destructive_tools(manifest: JsonObject) -> int:
    """Return the number of tools whose calls need approval because of their effects."""
    count = 0
    for tool in manifest.get("tools", ()):
        hints = tool.get("annotations", {})
        writes = tool.get("http", {}).get("method", "GET") in _WRITES and not hints.get("read_only")
        is_waived = tool.get("requires_confirmation") is False
        count += bool((hints.get("destructive") or writes) and not is_waived)
    return count
