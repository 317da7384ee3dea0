"""``covalt-git chat merge`` and ``covalt-git chat resolve``."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from covalt_git.cli import output
from covalt_git.cli.context import chat_argument, json_option, project, written, wrong_call
from covalt_git.models.commit_record import WorkspaceNotes
from covalt_git.text import display
from covalt_git.workspaces import merging, resolving
from covalt_git.workspaces.merge_conflicts import Choice, Choices, Rest, told

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.json_values import JsonObject
    from covalt_git.models.commit_record import MergeConflict
    from covalt_git.workspaces.merging import Merge
    from covalt_git.workspaces.resolving import Waiting

_CHOICES = {name: Choice(name) for name in get_args(Rest)}


@click.command()
@chat_argument
@click.argument("branch", metavar="BRANCH")
@click.option("--message", default="", metavar="TEXT", help="The subject of the merge.")
@click.option(
    "--keep-both", is_flag=True, help="Merge in spite of conflicts, and keep both versions."
)
@click.option(
    "--prefer",
    type=click.Choice(["ours", "theirs", "union"]),
    help="Decide all conflicts: the active branch, BRANCH, or the lines of both.",
)
@click.option(
    "--resolve",
    "pairs",
    multiple=True,
    metavar="PATH=CHOICE",
    help="Decide one: ours, theirs, union, both, or the FILE it is to be; repeatable.",
)
@click.option("--no-ff", is_flag=True, help="Make a manifest where the branch could just move on.")
@click.option("--dry-run", is_flag=True, help="Tell what would happen, and do nothing.")
@json_option
def merge(
    chat_id: str,
    branch: str,
    message: str,
    prefer: Rest | None,
    pairs: tuple[str, ...],
    *,
    keep_both: bool,
    no_ff: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Merge BRANCH into the active branch, with edits in the folder saved first.

    Where both changed the same in different ways, nothing is merged and the conflicts are told, unless
    you decide them.  With --keep-both the file stays as it is on the active branch, BRANCH's version
    stands beside it as NAME.theirs-BRANCH, and `covalt-git chat resolve` decides it later.

    Exits with 1 when nothing was merged because of conflicts.
    """
    if keep_both and prefer:
        raise wrong_call("give one of --keep-both and --prefer")
    choices = Choices(dict(map(_resolution, pairs)), "both" if keep_both else prefer)
    opened = project()
    fresh = WorkspaceNotes()
    with opened.chats.open(chat_id) as chat:
        if dry_run:
            done = merging.preview(chat, branch, choices, fast_forward=not no_ff)
        else:
            with written(opened, chat) as writer:
                done = merging.merge(
                    writer, branch, choices, message=message, fast_forward=not no_ff
                )
                fresh = writer.fresh_notes()
    if as_json:
        output.as_json(_merge_json(done) | {"notes": fresh.model_dump(mode="json")})
    else:
        _say(chat_id, done, dry_run=dry_run, fresh=fresh)
    if done.status == "conflicts":
        raise SystemExit(1)


@click.command()
@chat_argument
@click.argument("path", required=False)
@click.option("--ours", is_flag=True, help="Keep what stands at PATH now.")
@click.option("--theirs", is_flag=True, help="Take the version of the branch that was merged.")
@click.option("--union", is_flag=True, help="Take the lines of both.")
@click.option(
    "--with", "file", metavar="FILE", type=click.Path(path_type=Path), help="Take what FILE holds."
)
@json_option
def resolve(
    chat_id: str,
    path: str | None,
    file: Path | None,
    *,
    ours: bool,
    theirs: bool,
    union: bool,
    as_json: bool,
) -> None:
    """Decide the conflict at PATH that a merge left; without one, list those that wait.

    To look at both versions, open them in the workspace: the other one stands beside PATH.  Removing
    that one by hand, or moving it over PATH, decides it as well.
    """
    chosen = [
        name for name, given in (("ours", ours), ("theirs", theirs), ("union", union)) if given
    ]
    if (path is None and (chosen or file)) or len(chosen) + bool(file) > 1:
        raise wrong_call("name one PATH, and one of --ours, --theirs, --union and --with FILE")
    if path is not None and not chosen and file is None:
        raise wrong_call(f"say what {path!r} is to be: --ours, --theirs, --union or --with FILE")
    opened = project()
    with opened.chats.open(chat_id) as chat:
        changes, fresh = [], WorkspaceNotes()
        if path is not None:
            choice = Choice("content", _read(file)) if file else _CHOICES[chosen[0]]
            with written(opened, chat) as writer:
                changes = resolving.resolve(writer, posixpath.normpath(path), choice)
                fresh = writer.fresh_notes()
        with chat.looking() as seen:
            waiting = resolving.waiting(chat, chat.head(), seen.tree)
        if as_json:
            output.as_json(
                {
                    "branch": chat.active_branch(),
                    "manifest_id": chat.head(),
                    "changes": [output.change_json(change) for change in changes],
                    "waiting": [one.model_dump() for one in waiting],
                    "notes": fresh.model_dump(mode="json"),
                }
            )
            return
        output.changes(changes)
        say_waiting(waiting, chat.active_branch())
        if not waiting:
            output.say("no conflict waits")


def say_waiting(waiting: Iterable[Waiting], ours: str) -> None:
    """Print the conflicts that wait to be decided."""
    for one in waiting:
        about = told(one, ours=ours, theirs=one.branch)
        output.say(
            f"  ! {display.in_line(f'{one.path}: {about}; the other version is {one.saved_as}')}",
            fg="yellow",
        )


def _say(chat_id: str, done: Merge, *, dry_run: bool, fresh: WorkspaceNotes) -> None:
    at = done.manifest_id[: output.SHORT] if done.manifest_id else ""
    match done.status:
        case "already_merged":
            output.say(f"{done.into} has all of {done.branch} already")
            return
        case "conflicts":
            would = "would be" if dry_run else "was"
            output.say(f"nothing {would} merged: {done.branch} and {done.into} are in conflict")
        case "fast_forward":
            moves = "would move" if dry_run else "moves"
            output.say(f"{done.into} {moves} on to {done.branch}, having nothing of its own")
        case "merged":
            merged = "would be merged" if dry_run else "merged"
            output.say(f"{done.branch} {merged} into {done.into}")
    output.changes(done.changes)
    if done.status == "merged":
        output.notes(done.notes.beyond(fresh))
    for conflict in done.conflicts:
        output.say(f"  ! {display.in_line(_about(conflict, done))}", fg="yellow")
    if done.status == "conflicts":
        again = f"covalt-git chat merge {chat_id} {done.branch}"
        output.say(f"keep both versions, to decide later:  {again} --keep-both")
        output.say(
            f"or decide them now:  {again} --prefer ours|theirs|union, --resolve PATH=CHOICE"
        )
    elif any(conflict.saved_as for conflict in done.conflicts) and not dry_run:
        output.say(
            f"decide them: covalt-git chat resolve {chat_id} PATH --ours|--theirs|--with FILE"
        )
    elif at and not dry_run:
        output.say(f"{at} on {done.into}", dim=True)


def _about(conflict: MergeConflict, done: Merge) -> str:
    about = f"{conflict.path}: {told(conflict, ours=done.into, theirs=done.branch)}"
    if conflict.saved_as:
        return f"{about}; the other version is {conflict.saved_as}"
    return f"{about}; decided: {conflict.decision}" if conflict.decision else about


def _merge_json(done: Merge) -> JsonObject:
    return {
        "status": done.status,
        "branch": done.branch,
        "into": done.into,
        "base_id": done.base_id,
        "manifest_id": done.manifest_id,
        "changes": [output.change_json(change) for change in done.changes],
        "conflicts": [
            one.model_dump() | {"about": told(one, ours=done.into, theirs=done.branch)}
            for one in done.conflicts
        ],
        "workspace": done.notes.model_dump(),
    }


def _resolution(pair: str) -> tuple[str, Choice]:
    path, found, how = pair.rpartition("=")
    if not found or not path or not how:
        raise wrong_call(f"--resolve takes PATH=CHOICE, not {pair!r}")
    choice = _CHOICES.get(how) or Choice("content", _read(Path(how)))
    return posixpath.normpath(path), choice


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise wrong_call(f"there is no file {str(path)!r}")
    return path.read_bytes()
