"""Conversion of a document: recognition, reading, writing, and a report of what is lost."""

from __future__ import annotations

import copy
import itertools
import re
import shlex
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git import yaml_text
from covalt_git.checks.effects import destroys
from covalt_git.checks.hidden_characters import hidden_characters
from covalt_git.credentials.leaks import masked
from covalt_git.errors import Problem, UnknownNameError, nearest_name
from covalt_git.formats import carried, toolset_yaml
from covalt_git.formats.account import CONSUMED, DocumentReading, account, no_field
from covalt_git.formats.carried import Carried
from covalt_git.formats.credentials.literal_credentials import replace_credentials
from covalt_git.formats.documents import (
    BadPartsError,
    Document,
    FormatError,
    json_text,
    refuse,
    toml_text,
)
from covalt_git.formats.model import Format, Imported, Note, changed, pointer_text, with_values
from covalt_git.formats.shapes import duplicates
from covalt_git.formats.table import FORMATS, TOOLSET
from covalt_git.json_values import canonical_json
from covalt_git.json_values.json_schema import value_problems
from covalt_git.manifests.skills import SKILL, SKILLS, names_of_skills, skill_path
from covalt_git.templating.references import references
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_MAX_SHOWN: Final = 200
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True, order=True)
class LostValue:
    """A value or a file of the input that the output does not have: its JSON pointer; credentials in it are masked."""

    pointer: str
    value: str
    reason: str


class AmbiguousFormatError(FormatError):
    """A document that has another meaning in some of the formats that it can have."""


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


def find_format(name: str, *, writes: bool = False) -> Format:
    """Return the format with a name.

    Raises:
        UnknownNameError: with the most similar name, or else all formats that can be read (``writes``: written).
    """
    for item in FORMATS:
        if item.name == name:
            return item
    names = _names(writes=writes)
    error = UnknownNameError("format", name, names, list_with="covalt-git formats")
    # With the usual bound, `nonsense` is similar to `opencode`.
    if nearest_name(name, names, cutoff=0.6) is None:
        error.hint = f"use one of: {', '.join(names)}"
    raise error


def _names(*, writes: bool = False) -> list[str]:
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
        names = ", ".join(candidate.name for candidate in formats)
        hint = f"add --from, with one of: {names}"
        raise AmbiguousFormatError(f"{path!r} can be any of: {names}", hint=hint)
    parents = {
        item.rpartition("/")[0].rpartition("/")[0]
        for item in document.files
        if item.endswith(f"/{SKILL}")
    }
    if document.kind == "folder" and len(parents) == 1:
        folder = f"{path.rstrip('/')}/{min(parents)}"
        message = f"{path!r} has no tools; the skills in it are below {folder!r}"
        raise FormatError(message, hint=f"convert that folder: {shlex.quote(folder)}")
    for candidate in FORMATS:
        if candidate.read is None and candidate.recognize(document):
            _named(document, candidate)
    hint = f"add --from, with one of: {', '.join(_names())}"
    raise FormatError(f"the format of {path!r} is not known", hint=hint)


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
        hint = named.other_source or f"use one of: {', '.join(_names())}"
        message = f"covalt-git writes the format {named.name!r}, but does not read it"
        raise FormatError(message, hint=hint)
    key, other = named.other_form or ("", "")
    if key and isinstance(document.value, dict) and isinstance(document.value.get(key), dict):
        return find_format(other)
    is_other = document.kind in {"json", "yaml"} and named.kind != "toml"
    if document.kind != named.kind and not is_other:
        message = f"{document.path!r} is {document.kind}, but {named.title} is {named.kind}"
        raise FormatError(message)
    return named


def read(document: Document, source: Format, *, skip_bad: bool = False) -> DocumentReading:
    """Read a document; with ``skip_bad``, without its wrong parts.

    Raises:
        BadPartsError: if some of several parts are wrong.
        FormatError: with all problems of the document.
    """
    assert source.read is not None
    # Before any reader: what has not been read cannot be in the output, the report or an error.
    value, notes = replace_credentials(document.value)
    value, corrected = source.correct(value)
    clean = replace(document, value=value)
    problems = value_problems(source.schema, value) if source.schema else []
    if not problems:
        problems = [item for path in source.unique for item in duplicates(value, path)]
    problems += source.check(value)
    elsewhere = source.elsewhere(value)
    if problems or elsewhere:
        places = {loc: document.problem(loc, masked(message)) for loc, message in problems}
        clean = _without_parts(clean, source, places, elsewhere, skip_bad=skip_bad)
    earlier = [*notes, *corrected]
    imported = Imported(notes=[*earlier])
    source.read(clean, imported)
    if elsewhere and isinstance(_at(clean.value, source.parts or ()), dict):
        left = {(*(source.parts or ()), name): why for name, why in elsewhere.items()}
        imported.lost |= {loc: _left_out(document.problem(loc, why)) for loc, why in left.items()}
    own = imported.notes[len(earlier) :]
    imported.notes = [*earlier, *(note._replace(loc=clean.written_loc(note.loc)) for note in own)]
    for manifest in imported.toolsets:
        _declare_secrets(manifest)
    if source.write is None or source.kind == "folder":
        reading = DocumentReading(source, clean, imported, Carried(), is_complete=False)
        return reading if source.write else reading._replace(carried=_rest(reading))
    edits = _edits(clean, source, imported, {note.secret for note in notes})
    return DocumentReading(source, clean, imported, edits, is_complete=True)


def _edits(document: Document, source: Format, imported: Imported, secrets: set[str]) -> Carried:
    """Return what turns the document that is written of the toolsets into the original one.

    A reference to one of the ``secrets``, which replace credentials, has the form of ``toolset.yaml``: carried, it would
    come back in place of the form that the format has, and its program would take it for the value.
    """
    assert source.read is not None
    assert source.write is not None
    if not secrets:
        return carried.difference(document.value, source.write(imported.parts({}), imported))
    value = changed(document.value, lambda text: _REFERENCE.sub(partial(_as_word, secrets), text))
    without = Imported()
    source.read(replace(document, value=value), without)
    edits = carried.difference(value, source.write(without.parts({}), without))
    plain = source.write(imported.parts({}), imported)
    restored, _ = carried.restore(copy.deepcopy(plain), edits)
    completed = source.complete(restored, plain, secrets)
    if completed is restored:
        return edits
    more = carried.difference(completed, plain)
    more.places |= edits.places
    return more


def _as_word(secrets: set[str], reference: re.Match[str]) -> str:
    return reference[1] if reference[1] in secrets else reference[0]


def _without_parts(
    document: Document,
    source: Format,
    problems: dict[Loc, Problem],
    elsewhere: Mapping[str | int, str],
    *,
    skip_bad: bool,
) -> Document:
    """Return a document without the parts that have problems.

    Those of ``elsewhere`` are not wrong: an object keeps them, for a conversion back, and a list, whose items have no
    names, does not.

    Raises:
        BadPartsError: if the caller does not skip the parts with problems.
        FormatError: if a problem is in no part, or all parts would be left out.
    """
    path = source.parts or ()
    own = {name: document.problem((*path, name), masked(why)) for name, why in elsewhere.items()}
    is_part = {loc: source.parts is not None and loc[: len(path)] == path and len(loc) > len(path) for loc in problems}  # fmt: skip
    # The schema is that of the other parts.
    problems = {
        loc: problem
        for loc, problem in problems.items()
        if not (is_part[loc] and loc[len(path)] in own)
    }
    if not all(is_part[loc] for loc in problems):
        raise refuse(document.path, problems.values())
    names = {loc[len(path)] for loc in problems}
    parts: JsonObject | list[Any] = _at(document.value, path)
    # Without any part, the output would be empty, and look like a success.
    if len(names) + len(own) == len(parts):
        raise refuse(document.path, [*problems.values(), *own.values()])
    left = {loc[len(path)]: problem for loc, problem in problems.items()}
    left |= own if isinstance(parts, list) else {}
    pointers = {name: pointer_text((*path, name)) for name in left}
    # One wrong server must not stop the others, but the user decides whether it is left out.
    if names and not skip_bad:
        bad = [pointers[name] for name in names]
        raise BadPartsError(document.path, bad, problems.values())
    rest: Any
    positions: dict[Loc, list[int]] = {}
    if isinstance(parts, list):
        places_left = [at for at in range(len(parts)) if at not in pointers]
        rest = [parts[at] for at in places_left]
        positions[path] = places_left
    else:
        rest = {name: item for name, item in parts.items() if name not in pointers}
    reasons = {pointers[name]: _left_out(problem) for name, problem in left.items()}
    value = with_values(document.value, {path: rest})
    left_out = {**document.left_out, **reasons}
    return replace(document, value=value, left_out=left_out, positions=positions)


def _left_out(problem: Problem) -> str:
    return f"left out: {problem.line}:{problem.col} {problem.message}"


def _rest(reading: DocumentReading) -> Carried:
    """Return the values that a format without a writer has beside its tools, such as links and descriptions."""
    rest = Carried()
    value, toolsets = reading.document.value, reading.imported.toolsets
    fates = account(reading, {(at,): CONSUMED for at in range(len(toolsets))}, TOOLSET)
    # Not the document itself, which is empty.
    left = (
        [loc for loc, why in fates.items() if loc and why == no_field(TOOLSET)] if toolsets else []
    )
    above = {loc[:end] for loc in fates.keys() - {*left} for end in range(len(loc) + 1)}
    for loc in left:
        end = next(end for end in range(1, len(loc) + 1) if loc[:end] not in above)
        rest.places.add(loc[:end])
        rest.values[pointer_text(loc[:end])] = _at(value, loc[:end])
    return rest


def _declare_secrets(manifest: JsonObject) -> None:
    """Add the names of all references to the toolset's ``secrets``, except for a server's variables of the environment."""
    values = [manifest.get(key) for key in ("sources", "auth")]
    values += [tool.get("http") for tool in manifest.get("tools", ())]
    declared = manifest.get("secrets", [])
    names = {item.name for _, item in references(values)}
    servers = references(manifest.get("mcp_servers"))
    names |= {item.name for _, item in servers if item.place != "env"}
    names = names.difference(declared)
    if names:
        manifest["secrets"] = [*declared, *sorted(names)]


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
        hint = f"use one of: {', '.join(_names(writes=True))}"
        raise FormatError(f"covalt-git reads {target.title}, but does not write it", hint=hint)
    reading = read(document, source, skip_bad=skip_bad)
    imported = reading.imported
    imported.output = output
    if target is TOOLSET:
        if not imported.toolsets:
            raise FormatError(f"{document.path!r} has no tools to convert")
        stored = reading.carried.stored([item["id"] for item in imported.toolsets])
        for manifest, own in zip(imported.toolsets, stored, strict=True):
            if own:
                extensions = manifest.setdefault("extensions", {})
                extensions.setdefault(source.name, {}).update(own)
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
        imported.notes += [
            note._replace(loc=written_loc(note.loc)) for note in imported.without_effect
        ]
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
    lost = [_loss(reading.document, loc, why) for loc, why in fates.items() if why]
    lost += [LostValue(item, "", why) for item, why in reading.document.left_out.items()]
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
        if item:
            used[position, "extensions", target.name] = CONSUMED
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
    value = _at(document.value, loc)
    shown = masked(shorten(canonical_json.dumps(value).decode(), _MAX_SHOWN))
    return LostValue(pointer_text(document.written_loc(loc)), shown, reason)


def _at(value: Any, loc: Loc) -> Any:
    for part in loc:
        value = value[part]
    return value


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
