"""Three-way merge of a toolset's files, with YAML files merged key by key.

A conflict keeps both versions: a text file contains both with conflict markers, so the toolset cannot run
until the user resolves them; the other version of a binary file is written next to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Literal

from covalt_git.bundles.archive_reader import Entry
from covalt_git.errors import CovaltError
from covalt_git.installs.yaml_merge import MergedText, merge_yaml
from covalt_git.merging import line_merge
from covalt_git.paths import collisions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.installs.yaml_merge import Sides

StepKind = Literal["added", "updated", "removed", "merged", "kept", "conflict"]

_YAML = (".yaml", ".yml")
_LONGEST_LABEL = 40


class ClashingNamesError(CovaltError):
    """Files of the two sides whose names cannot exist in one folder."""

    code = "clashing_names"
    http_status = 409


@dataclass(frozen=True, slots=True)
class UpdateStep:
    """The merge result of one file; the kind ``kept`` is a local change of a file that the update does not change."""

    path: str
    kind: StepKind
    words: str = ""


def merge_files(
    base: Sequence[Entry], ours: Sequence[Entry], theirs: Sequence[Entry], names: Sides
) -> tuple[list[Entry], list[UpdateStep]]:
    """Return the merged files, sorted, and a step for each file that the sides changed.

    ``names`` are the labels of the sides in conflict markers, ours first.

    Raises:
        ClashingNamesError: if one side has a folder where the other has a file, or two names are equal on
            some file systems.
    """
    old, mine, other = ({entry.path: entry for entry in side} for side in (base, ours, theirs))
    merged: dict[str, Entry] = {}
    steps = []
    for path in sorted({*mine, *other}):
        files, step = _merge_file(path, old.get(path), mine.get(path), other.get(path), names)
        merged |= {entry.path: entry for entry in files}
        if step is not None:
            steps.append(step)
    _check_names(list(merged))
    return [merged[path] for path in sorted(merged)], steps


def take_theirs(
    ours: Sequence[Entry], theirs: Sequence[Entry]
) -> tuple[list[Entry], list[UpdateStep]]:
    """Return their files, and a step for each of our files that changes."""
    _, steps = merge_files(ours, ours, theirs, ("", ""))
    return sorted(theirs, key=lambda entry: entry.path), steps


def _merge_file(
    path: str, base: Entry | None, ours: Entry | None, theirs: Entry | None, names: Sides
) -> tuple[list[Entry], UpdateStep | None]:
    files = [entry for entry in (ours,) if entry is not None]
    if ours == theirs:
        return files, None
    if theirs == base:
        words = "added here" if base is None else "removed here" if ours is None else ""
        return files, UpdateStep(path, "kept", words)
    if ours == base:
        if theirs is None:
            return [], UpdateStep(path, "removed")
        return [theirs], UpdateStep(path, "added" if ours is None else "updated")
    if theirs is None:
        return files, UpdateStep(
            path, "conflict", f"removed in {names[1]}, changed here: your file is kept"
        )
    if ours is None:
        return [theirs], UpdateStep(
            path, "conflict", f"changed in {names[1]}, removed here: the file is restored"
        )
    return _both_changed(base, ours, theirs, names)


def _both_changed(
    base: Entry | None, ours: Entry, theirs: Entry, names: Sides
) -> tuple[list[Entry], UpdateStep]:
    path = ours.path
    executable = (
        ours.executable if base and theirs.executable == base.executable else theirs.executable
    )
    base_content = base.content if base else b""
    contents = base_content, ours.content, theirs.content
    if not line_merge.is_text(*contents):
        if ours.content == base_content or theirs.content in (base_content, ours.content):
            content = theirs.content if ours.content == base_content else ours.content
            return [Entry(path, content, executable)], UpdateStep(path, "merged")
        # The label is the version, which the other side wrote: only these characters may get into a file name.
        label = re.sub(r"[^A-Za-z0-9._-]+", "-", names[1])[:_LONGEST_LABEL].strip(".-")
        copy = f"{path}.theirs-{label}"
        words = f"binary file changed in both: your file is kept, the other one is {copy}"
        return [ours, Entry(copy, theirs.content, theirs.executable)], UpdateStep(
            path, "conflict", words
        )
    merged = merge_texts(path, *contents, names)
    step = (
        UpdateStep(path, "merged")
        if merged.clean
        else UpdateStep(path, "conflict", "changed in both")
    )
    return [Entry(path, merged.content, executable)], step


def merge_texts(path: str, base: bytes, ours: bytes, theirs: bytes, names: Sides) -> MergedText:
    """Return a text with the changes of both sides, with conflict markers if they conflict."""
    if ours in (base, theirs):
        return MergedText(theirs, clean=True)
    if theirs == base:
        return MergedText(ours, clean=True)
    if path.endswith(_YAML):
        merged = merge_yaml(base, ours, theirs, names)
        if merged is not None:
            return merged
    by_lines = line_merge.merge(base, ours, theirs)
    if by_lines is not None:
        return MergedText(by_lines, clean=True)
    return MergedText(line_merge.decided(base, ours, theirs, (), names), clean=False)


def _check_names(paths: Sequence[str]) -> None:
    # With the slash, "a" is sorted next to "a/b", so that each pair that clashes is adjacent; "a-b" would be between
    # them without it.
    as_folders = sorted(f"{path}/" for path in paths)
    nested = (
        (folder[:-1], other[:-1])
        for folder, other in pairwise(as_folders)
        if other.startswith(folder)
    )
    for first, second in chain(collisions(paths), nested):
        raise ClashingNamesError(
            f"{first!r} and {second!r} cannot both exist: one is yours, one is of the update",
            hint="rename your file, and update again",
        )
