"""Conversion of a document whose format is known to another format, and the report of what became of each of its values.

A value of the input is in the output, or is carried for a conversion back, or is lost with a reason: none vanishes silently.
"""

from __future__ import annotations

import copy
import functools
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git import yaml_text
from covalt_git.checks.effects import destroys
from covalt_git.checks.hidden_characters import hidden_characters
from covalt_git.credentials.leaks import masked
from covalt_git.formats import carried, document_reader, toolset_yaml
from covalt_git.formats.account import CONSUMED, account
from covalt_git.formats.carried import Carried
from covalt_git.formats.documents import Document, FormatError, json_text, toml_text
from covalt_git.formats.model import Format, Imported, Note, pointer_text
from covalt_git.formats.recognition import names_of_formats
from covalt_git.formats.table import TOOLSET
from covalt_git.json_values import canonical_json
from covalt_git.manifests.skills import SKILLS, names_of_skills, skill_path
from covalt_git.templating.references import texts
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.formats.account import DocumentReading
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_MAX_SHOWN: Final = 200


@dataclass(frozen=True, slots=True, order=True)
class LostValue:
    """A value or a file of the input that the output does not have: its JSON pointer; credentials in it are masked."""

    pointer: str
    value: str
    reason: str


class Conversion(NamedTuple):
    """The files of the output by path, and what became of each value of the input.

    ``executable`` are the paths of files that can be executed.  ``destructive`` is the number of tools whose calls need approval because of their effects.
    """

    source: Format
    target: Format
    files: dict[str, bytes]
    notes: tuple[Note, ...]
    lost: tuple[LostValue, ...]
    consumed: tuple[Loc, ...]
    carried: tuple[Loc, ...]
    toolsets: int
    tools: int
    destructive: int
    executable: frozenset[str] = frozenset()


def convert(
    document: Document,
    source: Format,
    target: Format,
    *,
    output: str = "",
    skip_bad: bool = False,
) -> Conversion:
    """Convert a document to another format, or to its own.

    ``output`` is the name of the output file without its extension, which a lock file contains.  With ``skip_bad``, wrong
    parts are left out, and are lost.

    Raises:
        FormatError: with all problems of the document, or if the output would be too large.
    """
    if target.write is None:
        hint = f"use one of: {', '.join(names_of_formats(writes=True))}"
        raise FormatError(f"covalt-git reads {target.title}, but does not write it", hint=hint)
    reading = document_reader.read(document, source, skip_bad=skip_bad)
    imported = reading.imported
    imported.output = output
    if target is TOOLSET:
        if not imported.toolsets:
            raise FormatError(f"{document.path!r} has no tools to convert")
        _add_extensions(reading)
    used: dict[Loc, str] = {}
    value = reading.document.value
    written_loc = reading.document.written_loc
    if target is source and reading.is_complete:
        # The document itself, unless its credentials have become references, which have the form of toolset.yaml.
        if any(note.secret for note in imported.notes):
            plain = target.write(imported.parts(used), imported)
            value, _ = carried.restore(copy.deepcopy(plain), reading.carried)
    else:
        # A toolset has these settings as its reader's extension, because they are unlike in each client.
        with_settings = target.is_host_config
        value = target.write(imported.parts(used, with_settings=with_settings), imported)
    if source is TOOLSET:
        value = _with_extensions(value, target, imported, used)
        used |= dict.fromkeys(_implied(target, imported), CONSUMED)
    if target is TOOLSET:
        # Otherwise the user would learn only from `validate` that the output is refused.
        imported.notes += _hidden_characters(imported.toolsets)
    else:
        imported.notes += imported.doubts  # no source is beside the schemas
    files = _files(value, target)
    # Nothing reads a reference in extensions.
    contents = [*files.values()]
    if target is TOOLSET:
        contents = [
            canonical_json.dumps({**item, "extensions": None, "secrets": None})
            for item in imported.toolsets
        ]
    imported.notes = [_needed(note, contents) for note in imported.notes]
    fates = account(reading, used, target)
    outside: list[Note] = []
    if target is TOOLSET:
        fates, missed = _with_missed(fates, imported.without_effect)
        outside = [note for note in imported.without_effect if _is_outside(note, reading.document)]
        missed |= {*outside}
        imported.notes += [
            note._replace(loc=written_loc(note.loc))
            for note in imported.without_effect
            if note not in missed
        ]
    if target is source and reading.is_complete and not target.replaces_carried:
        carried_at = {note.loc: note.secret for note in imported.notes if note.secret}
        fates |= {
            loc: _not_replaced(target, {carried_at[loc]})
            for loc, fate in fates.items()
            if loc in carried_at
            and not fate
            and any(loc[:end] in reading.carried.places for end in range(len(loc) + 1))
        }
    lost = [_loss(reading.document, loc, why) for loc, why in fates.items() if why]
    lost += [LostValue(item, "", why) for item, why in reading.document.left_out.items()]
    lost += [LostValue(pointer_text(note.loc), "", note.message) for note in outside]
    lost += [
        *_lost_files(imported, target, is_bundle=bool(document.files) and source is not TOOLSET),
        *_lost_of_source(imported, used),
    ]
    return Conversion(
        source,
        target,
        files,
        tuple(imported.notes),
        tuple(sorted(lost)),
        tuple(written_loc(loc) for loc, why in fates.items() if why == CONSUMED),
        tuple(written_loc(loc) for loc, why in fates.items() if why is None),
        len(imported.toolsets),
        sum(len(item.get("tools", ())) for item in imported.toolsets),
        sum(map(_destructive_tools, imported.toolsets)),
        _executable(imported) if target is TOOLSET else frozenset(),
    )


def _add_extensions(reading: DocumentReading) -> None:
    """Add to the toolsets what they carry for a conversion back."""
    imported = reading.imported
    stored = reading.carried.stored([item["id"] for item in imported.toolsets])
    for manifest, own in zip(imported.toolsets, stored, strict=True):
        names = {note.secret for note in imported.notes if note.secret}
        written = [text for _, text in texts(own.get("set", {}))]
        names = {name for name in names if any(f"${{{name}}}" in text for text in written)}
        if names and not reading.format.replaces_carried:
            own["secrets"] = sorted(names)
        # A list with other items has no place for them; they come back where they were.
        items = reading.document.elsewhere if manifest is imported.toolsets[0] else ()
        if items:
            own["items"] = [{"at": at, "value": item} for at, item in items]
        if own:
            extensions = manifest.setdefault("extensions", {})
            extensions.setdefault(reading.format.name, {}).update(own)


def _with_missed(
    fates: dict[Loc, str | None], without_effect: Iterable[Note]
) -> tuple[dict[Loc, str | None], set[Note]]:
    """Return the fates in which a part that is only carried is lost, if a user would miss its effect, and the notes on those."""
    missed = {note.loc: note for note in without_effect if note.is_lost}
    inner: dict[Loc, list[Loc]] = {}
    for loc in fates:
        for end in range(len(loc) + 1):
            if loc[:end] in missed:
                inner.setdefault(loc[:end], []).append(loc)
                break
    result = dict(fates)
    said: set[Note] = set()
    for loc, values in inner.items():
        carried_here = [
            item for item in values if fates[item] is None or (item == loc and not fates[item])
        ]
        if not carried_here:
            continue
        said.add(missed[loc])
        # One line for the part, unless the output has some of its values.
        if len(carried_here) == len(values):
            for item in values:
                del result[item]
            carried_here = [loc]
        result |= dict.fromkeys(carried_here, missed[loc].message)
    return result, said


def _is_outside(note: Note, document: Document) -> bool:
    """Return whether a note is on a lost value of the file from which the document is only one part."""
    if not note.is_lost or document.file_value is None:
        return False
    try:
        document_reader.value_at(document.value, note.loc)
    except (KeyError, IndexError, TypeError):
        return True
    return False


def _not_replaced(target: Format, names: Iterable[str]) -> str:
    listed = ", ".join(sorted(names))
    return (
        f"{target.title} does not replace variables here: write the value of {listed} into its file"
    )


def _needed(note: Note, contents: list[bytes]) -> Note:
    """Return a note about a credential that says whether the output refers to its secret."""
    name = note.secret.encode()
    if not name or any(re.search(rb"\b%s\b" % name, content) for content in contents):
        return note
    message = "the credential is not copied, and no tool or server of the output needs it"
    return note._replace(message=message, secret="")


def _executable(imported: Imported) -> frozenset[str]:
    is_alone = len(imported.toolsets) == 1
    return frozenset(
        toolset_yaml.prefix(imported.toolsets[position], is_alone=is_alone) + path
        for position, path in imported.executable
    )


def _implied(target: Format, imported: Imported) -> Iterator[Loc]:
    """Yield the names and versions that a conversion of the output to a toolset gives again.

    A document without them gets them from its conversion, so they are not lost on the way back.
    """
    for position, part in enumerate(imported.parts({})):
        if target.read is None or target.write is None or target.kind == "folder":
            return
        again = Imported()
        try:
            document = Document(target.file_name, target.kind, target.write([part], imported))
            target.read(document, again)
        except FormatError:
            continue
        for key in ("name", "version"):
            if [item[key] for item in again.toolsets] == [imported.toolsets[position][key]]:
                yield (position, key)


def _with_extensions(value: Any, target: Format, imported: Imported, used: dict[Loc, str]) -> Any:
    """Restore what the toolsets carry from an earlier document of the target's format."""
    stored = [carried.stored_extension(manifest, target.name) for manifest in imported.toolsets]
    value, missing = carried.restore(copy.deepcopy(value), Carried(stored))  # it shares parts
    for position, item in enumerate(stored):
        listed = functools.reduce(lambda part, key: part[key], target.parts or (), value)
        for own in item.get("items", ()) if isinstance(listed, list) else ():
            listed.insert(own["at"], own["value"])
        if item:
            used[position, "extensions", target.name] = CONSUMED
        for loc, text in texts(item.get("set", {})):
            names = [name for name in item.get("secrets", ()) if f"${{{name}}}" in text]
            if names:
                reason = _not_replaced(target, names)
                used[position, "extensions", target.name, "set", *loc] = reason
        for pointer in set(missing) & set(item.get("set", {})):
            reason = "the part of the document that it belongs to was removed"
            used[position, "extensions", target.name, "set", pointer] = reason
    return value


def _files(value: Any, target: Format) -> dict[str, bytes]:
    if target.kind == "folder":
        files: dict[str, bytes] = value
        return files
    if target.kind == "yaml":
        is_lock = target.read is None  # git merges lock files by their sorted keys
        return {target.file_name: yaml_text.dump(value, sort_keys=is_lock).encode()}
    text = toml_text(value) if target.kind == "toml" else json_text(value)
    return {target.file_name: text.encode()}


def _loss(document: Document, loc: Loc, reason: str) -> LostValue:
    value = document_reader.value_at(document.value, loc)
    shown = masked(shorten(canonical_json.dumps(value).decode(), _MAX_SHOWN))
    return LostValue(pointer_text(document.written_loc(loc)), shown, reason)


def _lost_files(imported: Imported, target: Format, *, is_bundle: bool) -> list[LostValue]:
    """Return the files that the reader cannot place, and the skills that the target does not have."""
    result = dict(imported.lost_files)
    for files in imported.files if target.kind != "folder" else ():
        skill_files = {item for item in files if item.startswith(f"{SKILLS}/")}
        paths = [*map(skill_path, names_of_skills(files))]
        result |= dict.fromkeys(paths, f"{target.title} has no skills")
        others = {"".join(item.partition("/")[:2]) for item in files if item not in skill_files}
        if is_bundle:
            result |= dict.fromkeys(sorted(others), f"{target.title} has no files of a server")
    return [LostValue(pointer_text((path,)), "", reason) for path, reason in result.items()]


def _lost_of_source(imported: Imported, used: dict[Loc, str]) -> list[LostValue]:
    """Return what is lost of values that come from the tools' source, and are not in the document."""
    origins = {parts[0]: loc for loc, parts in imported.places.items() if len(parts) == 1}
    result = []
    for loc, reason in used.items():
        values = imported.known.get(loc[:3], {})
        position, is_tool = loc[0], len(loc) > 3  # noqa: PLR2004 - toolset, "tools", number of the tool, key
        if not reason or not is_tool or loc[3] not in values:
            continue
        if loc[3] in imported.toolsets[int(position)]["tools"][loc[2]]:
            continue  # the manifest has the key too
        value: Any = values
        for part in loc[3:]:
            value = value[part]
        text = masked(shorten(canonical_json.dumps(value).decode(), _MAX_SHOWN))
        place = (*origins.get((position,), (position,)), *loc[1:])
        result.append(LostValue(pointer_text(place), text, reason))
    return result


def _hidden_characters(manifests: list[JsonObject]) -> Iterator[Note]:
    """Yield a note for each text of toolsets that ``validate`` refuses."""
    for number, manifest in enumerate(manifests):
        for loc, text in _texts(manifest, (number,) if len(manifests) > 1 else ()):
            for hidden in itertools.islice(hidden_characters(text), 1):
                yield Note(loc, f"{hidden.message}; validate refuses the toolset with it")


def _texts(value: Any, loc: Loc) -> Iterator[tuple[Loc, str]]:
    """Yield the keys and texts in a JSON value, which is not deep, with their places."""
    if isinstance(value, str):
        yield loc, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*loc, key), key
            yield from _texts(inner, (*loc, key))
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from _texts(inner, (*loc, at))


def _destructive_tools(manifest: JsonObject) -> int:
    """Return the number of tools whose calls need approval because of their effects."""
    return sum(
        tool.get("requires_confirmation") is not False
        and destroys(
            stated=tool.get("annotations", {}).get("destructive"),
            method=tool["http"].get("method", "GET") if "http" in tool else None,
        )
        for tool in manifest.get("tools", ())
    )
