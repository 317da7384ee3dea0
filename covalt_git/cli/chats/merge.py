"""``covalt-git chat merge`` and ``covalt-git chat resolve``."""

from __future__ import annotations

import base64
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from covalt_git.cli.context import ask, ask_to_print, chat_argument, print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.errors import CovaltError, UnknownNameError, WrongCallError
from covalt_git.operations.chats import merges
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.operations.chats.merges import Conflict, Merged, WaitingConflict

_HUNK_CHOICES = ("ours", "theirs", "both")
_CHOICES = ("ours", "theirs", "union", "both")


@click.command(cls=JsonCommand)
@chat_argument
@click.argument("branch", metavar="BRANCH")
@click.option("--message", default="", metavar="TEXT", help="Subject of the merge commit.")
@click.option(
    "--keep-both", is_flag=True, help="Merge in spite of conflicts, with both versions as files."
)
@click.option(
    "--prefer",
    type=click.Choice(["ours", "theirs", "union"]),
    help="Resolve all conflicts: the active branch's version, BRANCH's, or the lines of both.",
)
@click.option(
    "--resolve",
    "pairs",
    multiple=True,
    metavar="PATH=CHOICE",
    help="Resolve one: ours, theirs, union, both, or a FILE with the content; repeatable.",
)
@click.option(
    "--no-ff", is_flag=True, help="Create a merge commit even if a fast-forward is possible."
)
@click.option(
    "--again", is_flag=True, help="Merge also what an undo or a restore took back after a merge."
)
@click.option("--dry-run", is_flag=True, help="Only show what would happen.")
def merge(
    prefer: str | None, pairs: tuple[str, ...], *, keep_both: bool, no_ff: bool, **fields: Any
) -> None:
    """Merge BRANCH into the active branch.

    Uncommitted changes are committed first.  If both branches changed the same lines, the merge
    stops and shows them, and nothing changes.  Resolve them with `covalt-git chat resolve`, or
    merge again with --prefer or --resolve.  With --keep-both, BRANCH's version is added as
    NAME.theirs-BRANCH, to be resolved later.

    Exits with 1 when conflicts stopped the merge.

    Example: covalt-git chat merge c1 idea
    """
    if keep_both and prefer:
        raise WrongCallError("--keep-both and --prefer cannot be combined")
    result = ask(
        merges.merge_branch,
        conflicts="both" if keep_both else prefer,
        resolutions=[_resolution(pair) for pair in pairs],
        fast_forward=not no_ff,
        **fields,
    )
    has_conflicts = result.status == "conflicts"
    print_json(result, exit_code=int(has_conflicts))
    _print_merge(fields["chat_id"], result, dry_run=fields["dry_run"])
    if has_conflicts:
        raise SystemExit(1)


@click.command(cls=JsonCommand)
@chat_argument
@click.argument("path", required=False)
@click.option("--ours", is_flag=True, help="Keep the active branch's version.")
@click.option("--theirs", is_flag=True, help="Take the merged branch's version.")
@click.option("--union", is_flag=True, help="Take the lines of both.")
@click.option(
    "--with",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Take the content of FILE.",
)
@click.option(
    "--hunk",
    "hunks",
    multiple=True,
    metavar="N=CHOICE",
    help="Decide about hunk N, from 1: ours, theirs or both; repeat it for each hunk.",
)
@click.option(
    "--markers",
    is_flag=True,
    help="Only print the merged text with conflict markers, to edit it for --with.",
)
def resolve(
    chat_id: str,
    path: str | None,
    file: Path | None,
    hunks: tuple[str, ...],
    *,
    ours: bool,
    theirs: bool,
    union: bool,
    markers: bool,
) -> None:
    """Resolve the conflict at PATH, or list conflicts.

    Without PATH, it lists the conflicts that merges kept, and those that stopped the last merge.  If a
    merge stopped, this makes the merge with your choice, and keeps both versions of each other
    conflict: PATH and PATH.theirs-BRANCH.  Deleting PATH.theirs-BRANCH, or moving it to PATH,
    resolves the conflict too.

    With --hunk, such as --hunk 1=ours --hunk 2=both, the file gets all changes without a conflict,
    and your choice for each hunk, in the order of the list.

    Example: covalt-git chat resolve c1 report.md --theirs
    """
    chosen = [
        name for name, given in (("ours", ours), ("theirs", theirs), ("union", union)) if given
    ]
    ways = [*chosen, *(name for name in (file, hunks, markers) if name)]
    if (path is None and ways) or len(ways) > 1:
        raise WrongCallError(
            "name one PATH, and one of --ours, --theirs, --union, --hunk, --markers and --with FILE"
        )
    if path is not None and not ways:
        raise WrongCallError(
            f"choose a version of {path!r}: --ours, --theirs, --union, --hunk N=CHOICE or --with FILE"
        )
    if markers:
        _print_text(chat_id, posixpath.normpath(path or ""))
        return
    if path is None:
        waits = ask_to_print(merges.list_conflicts, chat_id=chat_id)
        if waits.conflicts or waits.stopped is None:
            output.conflicts(waits.conflicts)
        if waits.stopped is not None:
            _print_merge(chat_id, waits.stopped, dry_run=False)
        return
    result = ask_to_print(
        merges.resolve_conflict,
        chat_id=chat_id,
        path=posixpath.normpath(path),
        **(_content(file) if file else _hunks(hunks) if hunks else {"decision": chosen[0]}),
    )
    output.changes(result.changes)
    output.conflicts(result.conflicts)
    output.say(f"{result.manifest_id[: output.SHORT]} on {result.branch}", dim=True)


def _print_text(chat_id: str, path: str) -> None:
    """Print the text of a conflict with its markers."""
    listed = ask_to_print(merges.list_conflicts, chat_id=chat_id, text_of=path)
    stopped = listed.stopped.conflicts if listed.stopped else ()
    unresolved: list[Conflict | WaitingConflict] = [*listed.conflicts, *stopped]
    conflicts = [conflict for conflict in unresolved if path in {conflict.path, conflict.saved_as}]
    if not conflicts:
        paths = [conflict.path for conflict in unresolved]
        raise UnknownNameError(
            "conflict", path, paths, list_with=f"covalt-git chat resolve {chat_id}"
        )
    if conflicts[0].text is None:
        raise CovaltError(
            f"{path!r} has no text with conflict markers: a side is deleted, not UTF-8 text, or larger than 512 KiB",
            hint="choose --ours or --theirs, or give the content --with FILE",
        )
    click.echo(conflicts[0].text, nl=False)


def _hunks(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Return the decision for choices such as ``2=theirs``, which must be about each hunk from 1."""
    chosen: dict[int, str] = {}
    for pair in pairs:
        number, _, how = pair.partition("=")
        if not number.isascii() or not number.isdecimal() or how not in _HUNK_CHOICES:
            raise WrongCallError(f"--hunk takes N=ours, N=theirs or N=both, not {pair!r}")
        if chosen.setdefault(int(number[:9]), how) != how:
            raise WrongCallError(f"--hunk names hunk {number} twice")
    missing = next(number for number in range(1, len(chosen) + 2) if number not in chosen)
    if missing <= len(chosen):
        raise WrongCallError(f"--hunk is missing for hunk {missing}; hunks are numbered from 1")
    return {"decision": "hunks", "hunks": [chosen[number] for number in sorted(chosen)]}


def _print_taken_back(chat_id: str, result: Merged) -> None:
    if result.taken_back_by is not None:
        output.say(
            f"{result.taken_back_by[: output.SHORT]} took back changes of {result.branch} that were merged before; "
            f"to merge them again: covalt-git chat merge {chat_id} {result.branch} --again"
        )


def _print_merge(chat_id: str, result: Merged, *, dry_run: bool) -> None:
    at = result.manifest_id[: output.SHORT] if result.manifest_id else ""
    match result.status:
        case "already_merged":
            output.say(f"already up to date: {result.into} has all commits of {result.branch}")
            _print_taken_back(chat_id, result)
            return
        case "conflicts":
            would = "would be" if dry_run else "was"
            output.say(f"nothing {would} merged: {result.branch} and {result.into} have conflicts")
        case "fast_forward":
            moves = "would move" if dry_run else "moves"
            output.say(f"fast-forward: {result.into} {moves} to {result.branch}")
        case "merged":
            merged = "would be merged" if dry_run else "merged"
            output.say(f"{result.branch} {merged} into {result.into}")
    output.changes(result.changes)
    _print_taken_back(chat_id, result)
    if result.status == "merged":
        output.notes(result.workspace, printed=result.notes)
    for conflict in result.conflicts:
        output.say(f"  ! {display.in_line(_about(conflict))}", fg="yellow")
        output.conflicting_lines(conflict.lines)
    resolve = f"covalt-git chat resolve {chat_id} PATH --ours|--theirs|--union|--hunk N=CHOICE|--with FILE"
    if result.status == "conflicts":
        again = f"covalt-git chat merge {chat_id} {result.branch}" + " --again" * result.again
        if not dry_run:
            output.say(f"resolve one, and keep both versions of the others:  {resolve}")
        output.say(f"resolve all:  {again} --prefer ours|theirs|union")
        output.say(f"keep both versions of all:  {again} --keep-both")
    elif any(conflict.saved_as for conflict in result.conflicts) and not dry_run:
        output.say(f"resolve them:  {resolve}")
    elif at and not dry_run:
        output.say(f"{at} on {result.into}", dim=True)


def _about(conflict: Conflict) -> str:
    about = f"{conflict.path}: {conflict.about}"
    if conflict.saved_as:
        return f"{about}; the other version is {conflict.saved_as}"
    return f"{about}; resolved: {conflict.decision}" if conflict.decision else about


def _resolution(pair: str) -> dict[str, Any]:
    # From the right, because a path may contain `=`.
    path, separator, how = pair.rpartition("=")
    if not separator or not path or not how:
        raise WrongCallError(f"--resolve takes PATH=CHOICE, not {pair!r}")
    decided = {"decision": how} if how in _CHOICES else _content(Path(how))
    return {"path": posixpath.normpath(path), **decided}


def _content(file: Path) -> dict[str, Any]:
    """Return the decision for the content of a file."""
    if not file.is_file():
        raise WrongCallError(f"{str(file)!r} does not exist")
    # Bytes, because the content may not be UTF-8.
    return {"decision": "content", "content_base64": base64.b64encode(file.read_bytes())}
