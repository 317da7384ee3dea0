"""Fixes of misspelt keys in hand-written files, which keep comments and layout.

A key is renamed if it can only be a misspelling of one known key.  Each rename is verified: the new text
is parsed, and must contain the same data except for the renamed keys.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pydantic import ValidationError

from covalt_git import yaml_text
from covalt_git.errors import Problem, nearest_name
from covalt_git.json_values import with_texts
from covalt_git.json_values.difference import same
from covalt_git.manifests.approvals_as_rules import approvals_as_rules
from covalt_git.manifests.model_errors import Loc, ModelError, model_errors, name_place
from covalt_git.manifests.override_keys import renderer_configs
from covalt_git.manifests.project_root import CONFIG
from covalt_git.manifests.reading import check
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.base import StrictModel
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.renderers import config_model
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARK: Final = "\ufeff"
_HAND_WRITTEN = re.compile(rf"covalt\.yaml|toolsets/(?!(?:state|locks)/)[^/]+/{MANIFEST}")
_ALIKE: Final = 0.8
"""The least similarity of a misspelt key and the correct one."""

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
            problem.path
            for problem in problems
            if problem.code == codes.UNKNOWN_KEY and _HAND_WRITTEN.fullmatch(problem.path)
        }
    )


def fix_text(text: str, path: str) -> Fixed:
    """Fix the text of the file ``path``, which is relative to the project's root.

    A second call changes nothing.  Invalid YAML is not changed.
    """
    mark = _MARK if text.startswith(_MARK) else ""
    body = text.removeprefix(_MARK)
    problems: list[Problem] = []
    # Until nothing is left: the keys in a mapping with a misspelt name are checked once the name is right.
    while True:
        try:
            document = yaml_text.load(body, path)
        except yaml_text.YamlProblems:
            break
        renames = _verified(document, _renames(document, _unknown_keys(document)))
        body = _renamed(document.text, renames)
        if not renames:
            break
        problems += [_problem(document, rename) for rename in renames]
    if not text.endswith("\n"):
        body = body.removesuffix("\n")  # the loader adds it
    rewritten = approvals_as_rules(body, path) if path == CONFIG else None
    if rewritten is not None:
        body = rewritten[0]
        problems.append(rewritten[1])
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
        for loc, kind, config in renderer_configs(manifest)
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
            ModelError((*above, *unknown.loc), unknown.code, unknown.message, unused=unknown.unused)
            for unknown in model_errors(error, data, model)
            if unknown.code == codes.UNKNOWN_KEY
        ]
    return []


# Misspelt keys


def _renames(document: yaml_text.YamlDocument, errors: Sequence[ModelError]) -> list[_Rename]:
    renames = []
    corrections = {error.loc: _correction(str(error.loc[-1]), error.unused) for error in errors}
    # If two keys of a mapping could mean the same key, either can be right, and both would be a duplicate key.
    rivals = Counter((loc[:-1], key) for loc, key in corrections.items())
    for loc, key in corrections.items():
        if key is None or rivals[loc[:-1], key] > 1:
            continue
        old = str(loc[-1])
        at = document.offset(loc, key=True)
        at += document.text[at] in "\"'"
        # The text of a key with escapes, or over several lines, is not its name.
        if document.text.startswith(old, at):
            renames.append(_Rename(loc, at, old, key))
    return renames


def _correction(name: str, unused: Sequence[str]) -> str | None:
    """Return the only key that ``name`` can be a misspelling of, or None if there is not exactly one.

    The first letters must be equal, because ``sources`` is not ``resources``.
    """
    candidates = {_letters(key): key for key in unused if key[0] == name[:1].lower()}
    letters = _letters(name)
    near = nearest_name(letters, candidates, cutoff=_ALIKE)
    # A second candidate makes the meaning uncertain, except if the first one has the same letters.
    if near is None or (
        near != letters and nearest_name(letters, candidates.keys() - {near}, cutoff=_ALIKE)
    ):
        return None
    return candidates[near]


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


# Verification


def _verified(document: yaml_text.YamlDocument, renames: list[_Rename]) -> list[_Rename]:
    """Return the renames that can be verified: all together, or those of each half.

    Each verification reads the whole text, so one wrong rename among many must not cause one for each of them.
    """
    if not renames or _is_verified(_renamed(document.text, renames), document, renames):
        return renames
    if len(renames) == 1:
        return []
    half = len(renames) // 2
    return [*_verified(document, renames[:half]), *_verified(document, renames[half:])]


def _renamed(text: str, renames: Sequence[_Rename]) -> str:
    # From the end, so that other indexes stay valid.  YAML aliases of a mapping have the same index.
    for start, old, new in sorted({rename[1:] for rename in renames}, reverse=True):
        text = f"{text[:start]}{new}{text[start + len(old) :]}"
    return text


def _is_verified(text: str, document: yaml_text.YamlDocument, renames: Sequence[_Rename]) -> bool:
    expected = with_texts(document.data, str)  # aliases are separate copies
    # Inner keys first: a renamed mapping would not be found by its old name.
    for rename in sorted(renames, key=lambda item: -len(item.loc)):
        above = expected
        for part in rename.loc[:-1]:
            above = above[part]
        above[rename.new] = above.pop(rename.old)
    try:
        return same(yaml_text.load(text, document.path).data, expected)
    except yaml_text.YamlProblems:
        return False


def _problem(document: yaml_text.YamlDocument, rename: _Rename) -> Problem:
    line, col = document.locate(rename.loc, key=True)
    item = name_place(document.data, rename.loc[:-1])
    words = f"{item}: " if item else ""
    words += f"{rename.old!r} is now {rename.new!r}"
    return Problem(document.path, line, col, codes.UNKNOWN_KEY, words, item=item)
