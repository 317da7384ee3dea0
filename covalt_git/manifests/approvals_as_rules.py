"""Rewriting of the key ``approvals`` of ``covalt.yaml`` as ``rules``, which keeps comments and layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git import yaml_text
from covalt_git.manifests.reading import check
from covalt_git.models.project_config import ProjectConfig
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.errors import Problem
    from covalt_git.manifests.model_errors import Loc


class _Edit(NamedTuple):
    """A part of a text, and what replaces it."""

    start: int
    old: str
    new: str


def approvals_as_rules(text: str, path: str) -> tuple[str, Problem] | None:
    """Return the text of ``covalt.yaml`` with rules, and the problem that is fixed; None if there is nothing to rewrite.

    The result is verified: it is read as the same rules.  A value of an argument that is a mapping is not rewritten, because a
    mapping in ``rules`` is a condition.
    """
    try:
        document = yaml_text.load(text, path)
    except yaml_text.YamlProblems:
        return None
    reading = check(document, ProjectConfig)
    if reading.value is None or not reading.value.approvals:
        return None
    changed = document.text
    for edit in sorted(_edits(document), reverse=True):
        end = edit.start + len(edit.old)
        if changed[edit.start : end] != edit.old:
            return None
        changed = changed[: edit.start] + edit.new + changed[end:]
    try:
        after = check(yaml_text.load(changed, path), ProjectConfig).value
    except yaml_text.YamlProblems:
        return None
    if after is None or after.approvals or after.rules != reading.value.rules:
        return None
    problem = reading.problem(
        codes.LEGACY_KEY, ("approvals",), "'approvals' is now 'rules'", key=True
    )
    return changed if text.endswith("\n") else changed.removesuffix("\n"), problem


def _edits(document: yaml_text.YamlDocument) -> Iterator[_Edit]:
    yield _Edit(document.offset(("approvals",), key=True), "approvals", "rules")
    for position, rule in enumerate(document.data["approvals"]):
        at: Loc = ("approvals", position)
        if "require" in rule:
            written, effect = ("true", "ask") if rule["require"] else ("false", "allow")
            yield _Edit(document.offset((*at, "require"), key=True), "require", "effect")
            yield _Edit(document.offset((*at, "require")), written, effect)
            continue
        first = document.offset((*at, next(iter(rule))), key=True)
        is_flow = document.text[document.offset(at)] == "{"
        column = first - (document.text.rfind("\n", 0, first) + 1)
        yield _Edit(first, "", "effect: ask, " if is_flow else f"effect: ask\n{' ' * column}")
