"""Tools of Text Kit: search, replace, diff, patch, and preview in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict
from urllib.parse import quote

from pydantic import Field
from tools import diffs
from tools.changes import patched, write_all
from tools.globs import Chosen
from tools.matching import (
    Line,
    matching_lines,
    read_pattern,
    read_replacement,
    replaced_lines,
)
from tools.report import report
from tools.texts import (
    NotText,
    existing_file,
    files_below,
    read_all_lines,
    read_lines,
    split_lines,
)

from covalt_toolset import get_context, tool

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from pathlib import Path

MAX_SHOWN = 1024 * 1024
"""Maximum number of characters of lines, or of a diff, in a result."""

MAX_MADE = 64 * 1024 * 1024
"""Maximum total size in bytes of the files that a replacement changes."""

PACE = 500
"""Number of files between two progress reports."""

MAX_SKIPPED = 100
"""Maximum number of skipped files that a result names."""


class Skipped(TypedDict):
    """A skipped file, and the reason."""

    path: str
    reason: str


class FoundFile(TypedDict):
    """A file with matches: their number, the matching lines and the lines around them."""

    path: str
    matches: int
    lines: list[Line]


class Found(TypedDict):
    """Result of a search; with ``truncated``, there may be more matches."""

    pattern: str
    matches: int
    files: list[FoundFile]
    searched: int
    skipped: list[Skipped]
    skipped_total: int
    truncated: bool


class ReplacedFile(TypedDict):
    """A file, and the number of replaced matches in it."""

    path: str
    replaced: int


class Replaced(TypedDict):
    """Result of a replacement or its dry run; ``diff`` is empty if it is too long to show."""

    dry_run: bool
    replaced: int
    files: list[ReplacedFile]
    searched: int
    skipped: list[Skipped]
    skipped_total: int
    diff: str


class Difference(TypedDict):
    """Result of a comparison; ``diff`` is a unified diff, which is empty if the texts are equal."""

    old: str
    new: str
    added: int
    removed: int
    diff: str


class PatchedFile(TypedDict):
    """A file that a patch created, changed or deleted, with the numbers of added and removed lines."""

    path: str
    change: str
    added: int
    removed: int


class Patched(TypedDict):
    """Result of a patch or its dry run; ``report`` has the same as Markdown."""

    dry_run: bool
    files: list[PatchedFile]
    added: int
    removed: int
    report: str


class Shown(TypedDict):
    """A file on a server of this machine: the server's port, and the path encoded for a URL."""

    path: str
    port: int
    address: str


@tool(name="Search Text")
def search(
    pattern: str,
    *,
    path: str = ".",
    regex: bool = False,
    ignore_case: bool = False,
    include: list[str] | None = None,
    exclude: list[str] | None = None,
    context: Annotated[int, Field(ge=0, le=10)] = 2,
    limit: Annotated[int, Field(ge=1, le=1000)] = 200,
) -> Found:
    """Find text in the files of the workspace, line by line.

    Files that are binary or not UTF-8 are skipped and listed; links are not followed.

    Args:
        pattern: text to find, or a Python regular expression; the time limit of the call stops
            one that takes too long
        path: file or folder to search in
        regex: whether the pattern is a regular expression
        ignore_case: whether upper and lower case are the same
        include: patterns of files to search in, such as *.py or src/**/*.ts; by default all
        exclude: patterns of files to leave out, such as tests/
        context: lines to show around each match
        limit: maximum number of matching lines to return
    """
    wanted = read_pattern(pattern, regex=regex, ignore_case=ignore_case)
    skipped = _Skips()
    room = _Room(limit)
    files: list[FoundFile] = []
    searched = 0
    for name, file in _chosen(path, include, exclude):
        try:
            lines, matches = _found_in(file, wanted, context=context, room=room)
        except NotText as error:
            skipped.add(name, error)
            continue
        searched += 1
        if matches:
            files.append({"path": name, "matches": matches, "lines": lines})
        if room.full:
            break
    return {
        "pattern": pattern,
        "matches": sum(file["matches"] for file in files),
        "files": files,
        "searched": searched,
        "skipped": skipped.named,
        "skipped_total": skipped.total,
        "truncated": room.full,
    }


@tool(name="Replace Text")
def replace(
    pattern: str,
    replacement: str,
    *,
    path: str = ".",
    regex: bool = False,
    ignore_case: bool = False,
    include: list[str] | None = None,
    exclude: list[str] | None = None,
    expect: Annotated[int, Field(ge=0)] | None = None,
    dry_run: bool = False,
) -> Replaced:
    r"""Replace text in the files of the workspace, line by line: exactly the matches of a search.

    All files are searched before the first one is written.

    Args:
        pattern: text to replace, or a Python regular expression; the time limit of the call stops
            one that takes too long
        replacement: the new text; for a regular expression, \1 and \g<name> are groups
        path: file or folder to change
        regex: whether the pattern is a regular expression
        ignore_case: whether upper and lower case are the same
        include: patterns of files to change, such as *.py or src/**/*.ts; by default all
        exclude: patterns of files to leave alone, such as tests/
        expect: expected number of matches; with another number, nothing is changed
        dry_run: only report what would change
    """
    wanted = read_pattern(pattern, regex=regex, ignore_case=ignore_case)
    new = read_replacement(replacement, wanted, regex=regex)
    skipped = _Skips()
    changed: dict[Path, bytes] = {}
    files: list[ReplacedFile] = []
    shown: list[str] = []
    searched, made, room = 0, 0, MAX_SHOWN
    for name, file in _chosen(path, include, exclude):
        try:
            old_lines = read_all_lines(file)
        except NotText as error:
            skipped.add(name, error)
            continue
        searched += 1
        new_lines, count = replaced_lines(old_lines, wanted, new)
        if not count:
            continue
        files.append({"path": name, "replaced": count})
        if new_lines == old_lines:
            continue
        changed[file] = "".join(new_lines).encode()
        made += len(changed[file])
        if made > MAX_MADE:
            raise ValueError(
                f"the changed files have more than {MAX_MADE} bytes: select fewer files"
            )
        if room > 0:
            shown.append(diffs.unified(old_lines, new_lines, old_name=name, new_name=name))
            room -= len(shown[-1])
    total = sum(file["replaced"] for file in files)
    if expect is not None and total != expect:
        raise ValueError(f"{pattern!r} occurs {total} times, not {expect}: nothing was changed")
    if not dry_run:
        write_all(changed)
    return {
        "dry_run": dry_run,
        "replaced": total,
        "files": files,
        "searched": searched,
        "skipped": skipped.named,
        "skipped_total": skipped.total,
        "diff": "".join(shown) if room >= 0 else "",
    }


@tool(name="Compare Texts")
def diff(
    path: str,
    other: str | None = None,
    text: str | None = None,
    context: Annotated[int, Field(ge=0, le=100)] = 3,
) -> Difference:
    """Compare a file with another file or with a text; the result is a patch for the first file.

    Args:
        path: the first file
        other: the other file
        text: the text, instead of another file
        context: unchanged lines to show around each change
    """
    if (other is None) == (text is None):
        raise ValueError("give either 'other', a file, or 'text' to compare with")
    old = _existing_lines(path)
    new = split_lines(text) if text is not None else _existing_lines(other or "")
    made = diffs.unified(old, new, old_name=path, new_name=path, context=context)
    added, removed = diffs.counts(made)
    named = "the given text" if other is None else other
    return {"old": path, "new": named, "added": added, "removed": removed, "diff": made}


@tool(name="Apply Patch")
def apply_patch(
    patch: str | None = None, *, file: str | None = None, dry_run: bool = False
) -> Patched:
    """Apply a unified patch of diff or git: all of it, or nothing if a part does not match.

    Every line must be at the line number of the patch; otherwise the error lists each mismatch.

    Args:
        patch: the patch
        file: a file of the workspace with the patch, instead of `patch`
        dry_run: only check that the patch applies
    """
    if (patch is None) == (file is None):
        raise ValueError("give either 'patch', the text, or 'file', a file with the patch")
    text = patch if patch is not None else "".join(_existing_lines(file or ""))
    changes = patched(text, name=file or "patch")
    if not dry_run:
        write_all({change.file: change.content for change in changes})
    return {
        "dry_run": dry_run,
        "files": [
            {
                "path": change.patch.path,
                "change": change.what,
                "added": change.added,
                "removed": change.removed,
            }
            for change in changes
        ],
        "added": sum(change.added for change in changes),
        "removed": sum(change.removed for change in changes),
        "report": report(changes, dry_run=dry_run),
    }


@tool(name="Preview Page")
def preview(port: Annotated[int, Field(ge=1024, le=65535)], path: str = "index.html") -> Shown:
    """Show a file of the workspace in the browser, through a web server that you run.

    This tool starts no server: run `python -m http.server 3000`, or another one, in the chat's folder.

    Args:
        port: port of this machine where the server listens
        path: file of the workspace
    """
    name = existing_file(path).relative_to(get_context().workspace).as_posix()
    return {"path": name, "port": port, "address": quote(name)}


class _Room:
    """The remaining room in the result of a search: matching lines, and characters of all lines."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._characters = MAX_SHOWN
        self.full = False

    def takes(self, line: Line, matches: int) -> bool:
        """Reserve room for a line; return whether there was enough."""
        self._lines -= matches > 0
        self._characters -= len(line["text"])
        self.full = self._lines < 0 or self._characters < 0
        return not self.full


class _Skips:
    """The skipped files: the first ones with their names, and the number of all."""

    def __init__(self) -> None:
        self.named: list[Skipped] = []
        self.total = 0

    def add(self, path: str, why: NotText) -> None:
        self.total += 1
        if len(self.named) < MAX_SKIPPED:
            self.named.append({"path": path, "reason": str(why)})


def _found_in(
    file: Path, pattern: re.Pattern[str], *, context: int, room: _Room
) -> tuple[list[Line], int]:
    """Return the lines of a file to show, as long as there is room, and their number of matches."""
    lines: list[Line] = []
    total = 0
    for matches, line in matching_lines(read_lines(file), pattern, context=context):
        if not room.takes(line, matches):
            break
        lines.append(line)
        total += matches
    return lines, total


def _chosen(
    path: str, include: list[str] | None, exclude: list[str] | None
) -> Iterator[tuple[str, Path]]:
    """Yield the selected files, and report the progress."""
    chosen = Chosen.of(include or (), exclude or ())
    for number, (name, file) in enumerate(files_below(path)):
        if number % PACE == 0:
            get_context().progress(number, message=name)
        if chosen(name):
            yield name, file


def _existing_lines(path: str) -> list[str]:
    try:
        return read_all_lines(existing_file(path))
    except NotText as error:
        raise ValueError(f"{path!r} cannot be read: {error}") from None
