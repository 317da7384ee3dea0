"""Mending what is surely meant in a hand-written file, by editing its text in place.

Two things are safe: a key that can only be a misspelling of one known key, and a renderer in its old
place.  Everything else of the text stays as it is, comments and layout too.  Each edit is proved before
it is kept: the new text is read again, and has to say what the old one said but for what was mended.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pydantic import ValidationError

from covalt_git import yaml_text
from covalt_git.errors import Problem
from covalt_git.files.bundle_files import MANIFEST
from covalt_git.files.edits import Edit, Mend, edited
from covalt_git.files.model_errors import Loc, ModelError, model_errors, name_place
from covalt_git.files.override_keys import override_key
from covalt_git.files.reading import check
from covalt_git.files.renderer_moves import renderer_moves
from covalt_git.models import problems as codes
from covalt_git.models.base import StrictModel
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.renderers import config_model
from covalt_git.models.toolset_manifest import ToolsetManifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIXABLE: Final = frozenset({codes.UNKNOWN_KEY, codes.LEGACY_KEY})
"""Codes of which some problems can be mended."""

_MARK: Final = "\ufeff"
_HAND_WRITTEN = re.compile(rf"covalt\.yaml|toolsets/(?!(?:state|locks)/)[^/]+/{MANIFEST}")
_SHORT: Final = 4
_LONG: Final = 8
_Model = TypeVar("_Model", bound=StrictModel)


class Fixed(NamedTuple):
    """A text after mending, and what was mended: problems at the places where they stood."""

    text: str
    mended: tuple[Problem, ...]


def fixable_files(problems: Sequence[Problem]) -> list[str]:
    """Return the hand-written files in which something may be mended, sorted."""
    return sorted(
        {one.path for one in problems if one.code in FIXABLE and _HAND_WRITTEN.fullmatch(one.path)}
    )


def fix_text(text: str, path: str) -> Fixed:
    """Mend what can be mended in the text of ``path``, as it is named from the project's root.

    Doing it again changes nothing.  A text that is not YAML stays as it is.
    """
    mark = _MARK if text.startswith(_MARK) else ""
    body = text.removeprefix(_MARK)
    # A line end at the end, of the kind that the others are, so that lines can be added behind it.
    end = "" if body.endswith("\n") else "\r\n" if "\r\n" in body else "\n"
    body += end
    mended: list[Problem] = []
    while True:
        try:
            document = yaml_text.load(body, path)
        except yaml_text.YamlProblems:
            break
        body, done = _proved(document, _mends(document))
        if not done:
            break
        mended += [_told(document, one) for one in done]
    return Fixed(mark + body.removesuffix(end), tuple(mended))


def _mends(document: yaml_text.Document) -> list[Mend]:
    """Return what could be mended now; keys first, because what they say decides what else is."""
    if not document.path.endswith(f"/{MANIFEST}"):
        return list(_renames(document, _errors(document, (), document.data, ProjectConfig)))
    errors = _errors(document, (), document.data, ToolsetManifest)
    manifest = check(document, ToolsetManifest).value
    if manifest is not None:
        errors = [
            error
            for loc, kind, config in _renderer_configs(manifest)
            for error in _errors(document, loc, config, config_model(kind))
        ]
    renames = list(_renames(document, errors))
    return renames or (renderer_moves(document, manifest) if manifest else [])


def _errors(
    document: yaml_text.Document, above: Loc, value: Any, model: type[_Model]
) -> list[ModelError]:
    """Return the unknown keys of a part of a document, their places those in the document."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        data = document.data
        for part in above:
            data = data[part]
        return [
            ModelError((*above, *found.loc), found.code, found.message, free=found.free)
            for found in model_errors(error, data, model)
            if found.code == codes.UNKNOWN_KEY
        ]
    return []


def _renderer_configs(manifest: ToolsetManifest) -> Iterator[tuple[Loc, str, dict[str, Any]]]:
    old: dict[str, str] = {}
    for position, tool in enumerate(manifest.tools):
        if tool.renderer is not None:
            old[override_key(manifest.id, tool.id)] = tool.renderer.type
            yield ("tools", position, "renderer"), tool.renderer.type, tool.renderer.config
    for position, override in enumerate(manifest.tool_overrides):
        kind = override.renderer or old.get(override_key(manifest.id, override.tool_id))
        if kind is not None and override.renderer_config is not None:
            yield ("tool_overrides", position, "renderer_config"), kind, override.renderer_config


# Misspelt keys


def _renames(document: yaml_text.Document, errors: Sequence[ModelError]) -> Iterator[Mend]:
    meant = {error.loc: _surely_meant(str(error.loc[-1]), error.free) for error in errors}
    for loc, key in meant.items():
        rivals = [other for other in meant if other[:-1] == loc[:-1] and meant[other] == key]
        if key is None or len(rivals) > 1:
            continue
        old = str(loc[-1])
        at = document.offset(loc, key=True)
        at += document.text[at] in "\"'"
        if document.text.startswith(old, at):
            words = f"{old!r} is now {key!r}"
            yield Mend(
                codes.UNKNOWN_KEY, loc, words, (Edit(at, at + len(old), key),), _rename(loc, key)
            )


def _rename(loc: Loc, key: str) -> Any:
    def change(data: Any) -> None:
        for part in loc[:-1]:
            data = data[part]
        if loc[-1] in data:  # an alias may have been here before
            data[key] = data.pop(loc[-1])

    return change


def _surely_meant(name: str, free: Sequence[str]) -> str | None:
    """Return the one key that ``name`` can only be: the same letters, or nearly, and no other near."""
    letters = _letters(name)
    same = [key for key in free if _letters(key) == letters]
    near = same or [key for key in free if _is_near(letters, _letters(key))]
    return near[0] if len(near) == 1 else None


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _is_near(written: str, known: str) -> bool:
    """Tell one slip in a word of four letters, two in a long one; a short word is too easily another.

    Two slips do not begin the word otherwise: ``sources`` are no ``resources``.
    """
    slips = 0 if len(known) < _SHORT else 1 if len(known) < _LONG or written[:1] != known[:1] else 2
    return abs(len(written) - len(known)) <= slips and _distance(written, known) <= slips


def _distance(one: str, other: str) -> int:
    """Return the letters left out, added, changed or swapped with the next (Damerau, 1964)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, above, row = row, before, [at]
        for across, wanted in enumerate(other, 1):
            least = min(before[across] + 1, row[-1] + 1, before[across - 1] + (letter != wanted))
            if at > 1 and across > 1 and letter == other[across - 2] and one[at - 2] == wanted:
                least = min(least, above[across - 2] + 1)
            row.append(least)
    return row[-1]


# The proof


def _proved(document: yaml_text.Document, mends: Sequence[Mend]) -> tuple[str, list[Mend]]:
    """Return the text with as many of the mends as keep its meaning, and these."""
    text = edited(document.text, mends)
    if not mends or _says(text, document, mends):
        return text, list(mends)
    if len(mends) == 1:
        return document.text, []
    half = len(mends) // 2
    kept, more = (_proved(document, some)[1] for some in (mends[:half], mends[half:]))
    text = edited(document.text, [*kept, *more])
    if _says(text, document, [*kept, *more]):
        return text, [*kept, *more]
    one_side = kept or more
    return edited(document.text, one_side), one_side


def _says(text: str, document: yaml_text.Document, mends: Sequence[Mend]) -> bool:
    wanted = _copied(document.data)
    # What is inside goes first: a renamed mapping would no longer be found by its old name.
    for mend in sorted(mends, key=lambda one: -len(one.loc)):
        mend.change(wanted)
    try:
        return _same(yaml_text.load(text, document.path).data, wanted)
    except yaml_text.YamlProblems:
        return False


def _copied(value: Any) -> Any:
    """Return a value whose parts are all its own, which those behind aliases are not."""
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_copied(inner) for inner in value]
    return value


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are one in JSON, where 1 is not true."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _told(document: yaml_text.Document, mend: Mend) -> Problem:
    line, col = document.locate(mend.loc, key=True)
    item = name_place(document.data, mend.loc[:-1])
    words = f"{item}: {mend.words}" if item else mend.words
    return Problem(document.path, line, col, mend.code, words, item=item)
