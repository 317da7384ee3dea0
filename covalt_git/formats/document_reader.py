"""Reading of a document whose format is known: its toolsets, and what a conversion back to the format needs.

Credentials are replaced first, then the document is corrected and checked, and only then does the format's reader get it.  Wrong
parts are an error, or are left out if the user accepts that.
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from covalt_git.credentials.leaks import masked
from covalt_git.formats import carried
from covalt_git.formats.account import CONSUMED, DocumentReading, account, no_field
from covalt_git.formats.carried import Carried
from covalt_git.formats.credentials.literal_credentials import replace_credentials
from covalt_git.formats.documents import BadPartsError, refuse
from covalt_git.formats.model import Imported, pointer_text, with_values
from covalt_git.formats.shapes import duplicates
from covalt_git.formats.table import TOOLSET
from covalt_git.json_values.json_schema import value_problems
from covalt_git.templating.references import references, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from covalt_git.errors import Problem
    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Format, Note
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read(document: Document, source: Format, *, skip_bad: bool = False) -> DocumentReading:
    """Read a document; with ``skip_bad``, without its wrong parts.

    Raises:
        BadPartsError: if some of several parts are wrong.
        FormatError: with all problems of the document.
    """
    assert source.read is not None
    # Before any reader: what has not been read cannot be in the output, the report or an error.
    value, notes = replace_credentials(
        document.value,
        with_placeholders=source.is_host_config,
        has_bare_references=source.has_bare_references,
    )
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
    if elsewhere and isinstance(value_at(clean.value, source.parts or ()), dict):
        left = {(*(source.parts or ()), name): why for name, why in elsewhere.items()}
        imported.lost |= {loc: _left_out(document.problem(loc, why)) for loc, why in left.items()}
    own = imported.notes[len(earlier) :]
    imported.notes = [*earlier, *(note._replace(loc=clean.written_loc(note.loc)) for note in own)]
    for manifest in imported.toolsets:
        _declare_secrets(manifest)
    if source.write is None or source.kind == "folder":
        reading = DocumentReading(source, clean, imported, Carried(), is_complete=False)
        return reading if source.write else reading._replace(carried=_rest(reading))
    edits = _edits(clean, source, imported, [note for note in notes if note.secret])
    return DocumentReading(source, clean, imported, edits, is_complete=True)


def _edits(
    document: Document, source: Format, imported: Imported, notes: Sequence[Note]
) -> Carried:
    """Return what turns the document that is written of the toolsets into the original one.

    The references that replace the credentials of ``notes`` have the form of ``toolset.yaml``.  Carried, they have the form
    of the document's program, which would take another one for the value.
    """
    assert source.read is not None
    assert source.write is not None
    if not notes:
        return carried.difference(document.value, source.write(imported.parts({}), imported))
    # As a word, a reference is the same in the document and in what is written of it, so it is not carried for its form.
    value = _with_references(document.value, notes, str)
    without = Imported()
    source.read(replace(document, value=value), without)
    edits = carried.difference(value, source.write(without.parts({}), without))
    own = _with_references(document.value, notes, source.secret_text)
    edits.values = {pointer: value_at(own, loc) for loc, pointer in edits.places.items()}
    plain = source.write(imported.parts({}), imported)
    restored, _ = carried.restore(copy.deepcopy(plain), edits)
    completed = source.complete(restored, plain, {note.secret for note in notes})
    if completed is restored:
        return edits
    more = carried.difference(completed, plain)
    more.places |= edits.places
    return more


def _with_references(value: Any, notes: Sequence[Note], change: Callable[[str], str]) -> Any:
    """Return a value with what ``change`` returns for the name in place of each reference to the secret of a note.

    The document's own references to a secret of this name stay as they are, unless the format's corrections have moved
    the text of a note.
    """
    of_texts = dict(texts(value))
    at: dict[Loc, set[str]] = {}
    anywhere: set[str] = set()
    for note in notes:
        is_there = f"${{{note.secret}}}" in of_texts.get(note.loc, "")
        (at.setdefault(note.loc, set()) if is_there else anywhere).add(note.secret)

    def with_change(text: str, names: set[str]) -> str:
        return _REFERENCE.sub(
            lambda reference: change(reference[1]) if reference[1] in names else reference[0], text
        )

    others = {
        loc: with_change(text, at.get(loc, set()) | anywhere) for loc, text in of_texts.items()
    }
    return with_values(value, {loc: text for loc, text in others.items() if text != of_texts[loc]})


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
    parts: JsonObject | list[Any] = value_at(document.value, path)
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
    items: list[tuple[int, Any]] = []
    positions: dict[Loc, list[int]] = {}
    if isinstance(parts, list):
        places_left = [at for at in range(len(parts)) if at not in pointers]
        rest = [parts[at] for at in places_left]
        items = [(at, parts[at]) for at in range(len(parts)) if at in own]
        positions[path] = places_left
    else:
        rest = {name: item for name, item in parts.items() if name not in pointers}
    reasons = {pointers[name]: _left_out(problem) for name, problem in left.items()}
    value = with_values(document.value, {path: rest})
    left_out = {**document.left_out, **reasons}
    return replace(document, value=value, left_out=left_out, positions=positions, elsewhere=items)


def _left_out(problem: Problem) -> str:
    return f"left out: {problem.line}:{problem.col} {problem.message}"


def _rest(reading: DocumentReading) -> Carried:
    """Return the values that a format without a writer has beside its tools, such as links and descriptions."""
    rest = Carried()
    value, toolsets = reading.document.value, reading.imported.toolsets
    fates = account(reading, {(at,): CONSUMED for at in range(len(toolsets))}, TOOLSET)
    # Without the path of the document itself, which is empty: its parts have paths of their own.
    left = (
        [loc for loc, why in fates.items() if loc and why == no_field(TOOLSET)] if toolsets else []
    )
    above = {loc[:end] for loc in fates.keys() - {*left} for end in range(len(loc) + 1)}
    for loc in left:
        end = next(end for end in range(1, len(loc) + 1) if loc[:end] not in above)
        rest.places[loc[:end]] = pointer = pointer_text(loc[:end])
        rest.values[pointer] = value_at(value, loc[:end])
    return rest


def value_at(value: Any, loc: Loc) -> Any:
    """Return the part of a value at a place, which it has."""
    for part in loc:
        value = value[part]
    return value


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
