"""What becomes of a toolset's files when two sides changed them: file by file, and YAML key by key.

A conflict loses nothing: a text holds both versions as git shows them, which keeps the toolset from
running until somebody decides; beside a file that is no text lies theirs.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.bundles.archive_reader import Entry
from covalt_git.errors import CovaltError
from covalt_git.installs.yaml_merge import Merged, merge_yaml
from covalt_git.merging import line_merge
from covalt_git.paths import collisions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.installs.yaml_merge import Sides

StepKind = Literal["added", "updated", "removed", "merged", "kept", "conflict"]

_YAML = (".yaml", ".yml")
_LONGEST_LABEL = 40


class ClashingNamesError(CovaltError):
    """Both sides have names that cannot stand beside each other."""

    code = "clashing_names"
    http_status = 409


class Step(NamedTuple):
    """What becomes of one file; ``kept`` is a local change that theirs does not touch."""

    path: str
    kind: StepKind
    words: str = ""


def merge_files(
    base: Sequence[Entry], ours: Sequence[Entry], theirs: Sequence[Entry], names: Sides
) -> tuple[list[Entry], list[Step]]:
    """Return the files with the changes of both sides, sorted, and what became of each that changed.

    ``names`` are what the sides are called where they are in conflict, ours first.

    Raises:
        ClashingNamesError: when one side has a folder where the other has a file, or names differ in
            what some systems do not tell apart.
    """
    was, mine, other = ({one.path: one for one in side} for side in (base, ours, theirs))
    merged: dict[str, Entry] = {}
    steps = []
    for path in sorted({*mine, *other}):
        made, step = _merged(path, was.get(path), mine.get(path), other.get(path), names)
        merged |= {one.path: one for one in made}
        if step is not None:
            steps.append(step)
    _check_names(list(merged))
    return [merged[path] for path in sorted(merged)], steps


def take_theirs(ours: Sequence[Entry], theirs: Sequence[Entry]) -> tuple[list[Entry], list[Step]]:
    """Return their files, and what becomes of each of ours."""
    _, steps = merge_files(ours, ours, theirs, ("", ""))
    return sorted(theirs, key=lambda one: one.path), steps


def _merged(
    path: str, base: Entry | None, ours: Entry | None, theirs: Entry | None, names: Sides
) -> tuple[list[Entry], Step | None]:
    there = [one for one in (ours,) if one is not None]
    if ours == theirs:
        return there, None
    if theirs == base:
        words = "added here" if base is None else "removed here" if ours is None else ""
        return there, Step(path, "kept", words)
    if ours == base:
        if theirs is None:
            return [], Step(path, "removed")
        return [theirs], Step(path, "added" if ours is None else "updated")
    if theirs is None:
        return there, Step(
            path, "conflict", f"{names[1]} removed it, and you changed it: yours stays"
        )
    if ours is None:
        return [theirs], Step(
            path, "conflict", f"{names[1]} changed it, and you removed it: it is back"
        )
    return _both_changed(base, ours, theirs, names)


def _both_changed(
    base: Entry | None, ours: Entry, theirs: Entry, names: Sides
) -> tuple[list[Entry], Step]:
    path = ours.path
    executable = (
        ours.executable if base and theirs.executable == base.executable else theirs.executable
    )
    before = base.content if base else b""
    contents = before, ours.content, theirs.content
    if not line_merge.is_text(*contents):
        if ours.content == before or theirs.content in (before, ours.content):
            content = theirs.content if ours.content == before else ours.content
            return [Entry(path, content, executable)], Step(path, "merged")
        label = re.sub(r"[^A-Za-z0-9._-]+", "-", names[1])[:_LONGEST_LABEL].strip(".-")
        beside = f"{path}.theirs-{label}"
        words = f"both changed what is no text: yours stays, {beside} is theirs"
        return [ours, Entry(beside, theirs.content, theirs.executable)], Step(
            path, "conflict", words
        )
    merged = merge_texts(path, *contents, names)
    step = Step(path, "merged") if merged.clean else Step(path, "conflict", "both changed it")
    return [Entry(path, merged.content, executable)], step


def merge_texts(path: str, base: bytes, ours: bytes, theirs: bytes, names: Sides) -> Merged:
    """Return a text with the changes of both sides; where they are in conflict, both with marks."""
    if ours in (base, theirs):
        return Merged(theirs, clean=True)
    if theirs == base:
        return Merged(ours, clean=True)
    if path.endswith(_YAML):
        merged = merge_yaml(base, ours, theirs, names)
        if merged is not None:
            return merged
    by_lines = line_merge.merge(base, ours, theirs)
    if by_lines is not None:
        return Merged(by_lines, clean=True)
    return Merged(line_merge.marked(base, ours, theirs, names), clean=False)


def _check_names(paths: Sequence[str]) -> None:
    for first, second in _clashes(paths):
        raise ClashingNamesError(
            f"{first!r} and {second!r} cannot both be there, and one is yours, one theirs",
            hint="rename yours, and update again",
        )


def _clashes(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from collisions(paths)
    as_folders = sorted(f"{path}/" for path in paths)
    for folder, inside in pairwise(as_folders):
        if inside.startswith(folder):
            yield folder.rstrip("/"), inside.rstrip("/")
