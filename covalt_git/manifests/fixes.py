"""Fixes of misspelt keys in hand-written files, which keep comments and layout.

A key is renamed if it can only be a misspelling of one known key.  Each rename is verified: the new text
is parsed, and must contain the same data except for the renamed keys.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pydantic import ValidationError

from covalt_git import yaml_text
from covalt_git.errors import Problem
from covalt_git.json_values.difference import same
from covalt_git.manifests.model_errors import Loc, ModelError, model_errors, name_place
from covalt_git.manifests.override_keys import override_key
from covalt_git.manifests.reading import check
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.base import StrictModel
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.renderers import config_model
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MARK: Final = "\ufeff"
_HAND_WRITTEN = re.compile(rf"covalt\.yaml|toolsets/(?!(?:state|locks)/)[^/]+/{MANIFEST}")
_SHORT: Final = 4
_LONG: Final = 8
_Model = TypeVar("_Model", bound=StrictModel)


class _Rename(NamedTuple):
    """A misspelt key, the index of its name in the text, and the correct key."""

    loc: Loc
    start: int
    old: str
    new: str


class Fixed(NamedTuple):
    """A text after the fixes, and the problems that were fixed, with their old places."""

    text: str
    problems: tuple[Problem, ...]


def fixable_files(problems: Sequence[Problem]) -> list[str]:
    """Return the hand-written files that may have fixable problems, sorted."""
    return sorted(
        {
            one.path
            for one in problems
            if one.code == codes.UNKNOWN_KEY and _HAND_WRITTEN.fullmatch(one.path)
        }
    )


def fix_text(text: str, path: str) -> Fixed:
    """Fix the text of the file ``path``, which is relative to the project's root.

    A second call changes nothing.  Invalid YAML is not changed.
    """
    mark = _MARK if text.startswith(_MARK) else ""
    body = text.removeprefix(_MARK)
    problems: list[Problem] = []
    while True:
        try:
            document = yaml_text.load(body, path)
        except yaml_text.YamlProblems:
            break
        body, done = _apply(document, _renames(document, _unknown_keys(document)))
        if not done:
            break
        problems += [_problem(document, one) for one in done]
    if not text.endswith("\n"):
        body = body.removesuffix("\n")  # the loader adds it
    return Fixed(mark + body, tuple(problems))


def _unknown_keys(document: yaml_text.YamlDocument) -> list[ModelError]:
    """Return the unknown keys of a document.  Those of renderers are found once all others are fixed."""
    if not document.path.endswith(f"/{MANIFEST}"):
        return _errors(document, (), document.data, ProjectConfig)
    manifest = check(document, ToolsetManifest).value
    if manifest is None:
        return _errors(document, (), document.data, ToolsetManifest)
    return [
        error
        for loc, kind, config in _renderer_configs(manifest)
        for error in _errors(document, loc, config, config_model(kind))
    ]


def _errors(
    document: yaml_text.YamlDocument, above: Loc, value: Any, model: type[_Model]
) -> list[ModelError]:
    """Return the unknown keys of a part of a document, with their places in the document."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        data = document.data
        for part in above:
            data = data[part]
        return [
            ModelError((*above, *found.loc), found.code, found.message, unused=found.unused)
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


def _renames(document: yaml_text.YamlDocument, errors: Sequence[ModelError]) -> list[_Rename]:
    renames = []
    corrections = {error.loc: _correction(str(error.loc[-1]), error.unused) for error in errors}
    for loc, key in corrections.items():
        rivals = [one for one in corrections if one[:-1] == loc[:-1] and corrections[one] == key]
        if key is None or len(rivals) > 1:
            continue
        old = str(loc[-1])
        at = document.offset(loc, key=True)
        at += document.text[at] in "\"'"
        if document.text.startswith(old, at):
            renames.append(_Rename(loc, at, old, key))
    return renames


def _correction(name: str, unused: Sequence[str]) -> str | None:
    """Return the only key that ``name`` can be a misspelling of, or None if there is not exactly one."""
    letters = _letters(name)
    same = [key for key in unused if _letters(key) == letters]
    near = same or [key for key in unused if _is_near(letters, _letters(key))]
    return near[0] if len(near) == 1 else None


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _is_near(written: str, known: str) -> bool:
    """Return whether ``written`` can be a misspelling of ``known``.

    One error is allowed from four letters, two from eight letters.  Two errors are only allowed if the
    first letters are equal, because ``sources`` is not ``resources``.
    """
    most = 0 if len(known) < _SHORT else 1 if len(known) < _LONG or written[:1] != known[:1] else 2
    return abs(len(written) - len(known)) <= most and _distance(written, known) <= most


def _distance(one: str, other: str) -> int:
    """Return the edit distance with transpositions (Damerau, 1964)."""
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


# Verification


def _apply(document: yaml_text.YamlDocument, renames: list[_Rename]) -> tuple[str, list[_Rename]]:
    """Return the text after as many renames as can be verified, and these renames."""
    text = _renamed(document.text, renames)
    if not renames or _is_verified(text, document, renames):
        return text, renames
    if len(renames) == 1:
        return document.text, []
    half = len(renames) // 2
    first, second = (_apply(document, some)[1] for some in (renames[:half], renames[half:]))
    text = _renamed(document.text, [*first, *second])
    if _is_verified(text, document, [*first, *second]):
        return text, [*first, *second]
    one_half = first or second
    return _renamed(document.text, one_half), one_half


def _renamed(text: str, renames: Sequence[_Rename]) -> str:
    # From the end, so that other indexes stay valid.  YAML aliases of a mapping have the same index.
    for start, old, new in sorted({one[1:] for one in renames}, reverse=True):
        text = f"{text[:start]}{new}{text[start + len(old) :]}"
    return text


def _is_verified(text: str, document: yaml_text.YamlDocument, renames: Sequence[_Rename]) -> bool:
    expected = _copied(document.data)
    # Inner keys first: a renamed mapping would not be found by its old name.
    for rename in sorted(renames, key=lambda one: -len(one.loc)):
        above = expected
        for part in rename.loc[:-1]:
            above = above[part]
        above[rename.new] = above.pop(rename.old)
    try:
        return same(yaml_text.load(text, document.path).data, expected)
    except yaml_text.YamlProblems:
        return False


def _copied(value: Any) -> Any:
    """Return a deep copy in which aliases are separate copies."""
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_copied(inner) for inner in value]
    return value


def _problem(document: yaml_text.YamlDocument, rename: _Rename) -> Problem:
    line, col = document.locate(rename.loc, key=True)
    item = name_place(document.data, rename.loc[:-1])
    words = f"{item}: " if item else ""
    words += f"{rename.old!r} is now {rename.new!r}"
    return Problem(document.path, line, col, codes.UNKNOWN_KEY, words, item=item)
