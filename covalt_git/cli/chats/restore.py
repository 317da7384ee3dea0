"""``covalt-git chat restore``, ``undo`` and ``redo``."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

import click

from covalt_git.cli.context import ask, ask_to_print, chat_argument, print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.errors import WrongCallError
from covalt_git.operations.chats import call_undos, workspace_edits
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.operations.chats.call_undos import CallUndone
    from covalt_git.operations.chats.workspace_edits import WorkspaceRestored

_KEPT = {
    False: "nothing was changed: you kept the later lines",
    True: "nothing would change: the later lines would be kept",
}


@click.command(cls=JsonCommand)
@chat_argument
@click.argument("manifest", metavar="COMMIT")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option(
    "--keep-files", is_flag=True, help="Create a branch at COMMIT, and keep the present files."
)
@click.option(
    "--branch", metavar="NAME", help="With --keep-files: its name; default: restore-1, ..."
)
def restore(*, keep_files: bool, **fields: Any) -> None:
    """Restore all files, or the PATHs, from a COMMIT.

    A PATH is relative to the workspace.  A folder is restored with everything in it; files that
    COMMIT does not have are removed.  The restore is a new commit, and uncommitted changes are
    committed first, so nothing is lost.

    Example: covalt-git chat restore c1 HEAD~2 report.md
    """
    result = ask_to_print(workspace_edits.restore_workspace, keep_files=keep_files, **fields)
    if keep_files:
        output.changes(result.changes)
        output.say(f"on {result.branch}, at {_at(result)}, with the files as they were")
    else:
        _print(result)


@click.command(cls=JsonCommand)
@chat_argument
@click.argument("call", required=False)
@click.option(
    "--branch", metavar="NAME", help="With CALL: the branch to change; default: the active."
)
@click.option(
    "--prefer",
    type=click.Choice(["ours", "theirs", "union"]),
    help="With CALL: resolve all conflicts: the present version, the one before CALL, or the lines of both.",
)
@click.option(
    "--resolve",
    "pairs",
    multiple=True,
    metavar="PATH=CHOICE",
    help="With CALL: resolve one: ours, theirs or union; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="With CALL: only show what would happen.")
def undo(
    chat_id: str,
    call: str | None,
    branch: str | None,
    prefer: str | None,
    pairs: tuple[str, ...],
    *,
    dry_run: bool,
) -> None:
    """Undo the last change of the files, or one CALL, in a new commit.

    Without CALL, uncommitted changes are committed and undone first.  Another undo goes one change further back.
    `chat redo` reverts the last undo.

    With CALL, undoes all changes of the workspace while the call ran, also those that you made meanwhile.  Later
    changes in other lines are kept.  If a later change is in the same lines, the command shows it, changes nothing, and
    exits with 1.

    Example: covalt-git chat undo c1
    """
    if call is None:
        if branch or prefer or pairs or dry_run:
            raise WrongCallError("--branch, --prefer, --resolve and --dry-run need a CALL")
        _print(ask_to_print(workspace_edits.undo_change, chat_id=chat_id))
        return
    result = ask(
        call_undos.undo_call,
        chat_id=chat_id,
        call=call,
        branch=branch,
        conflicts=prefer,
        resolutions=[_resolution(pair) for pair in pairs],
        dry_run=dry_run,
    )
    has_conflicts = result.status == "conflicts"
    print_json(result, exit_code=int(has_conflicts))
    _print_undone(chat_id, result, dry_run=dry_run)
    if has_conflicts:
        raise SystemExit(1)


@click.command(cls=JsonCommand)
@chat_argument
def redo(chat_id: str) -> None:
    """Revert the last undo, in a new commit.

    This is refused if files have changed since the undo.

    Example: covalt-git chat redo c1
    """
    _print(ask_to_print(workspace_edits.redo_change, chat_id=chat_id))


def _print(result: WorkspaceRestored) -> None:
    output.changes(result.changes)
    if result.made:
        output.say(f"{_at(result)} on {result.branch}", dim=True)
        if result.hint:
            output.say(f"  hint: {result.hint}")
    else:
        output.say("nothing to restore: the files are as in that commit")


def _resolution(pair: str) -> dict[str, str]:
    # From the right, because a path may contain `=`.
    path, separator, decision = pair.rpartition("=")
    if not separator or not path or not decision:
        raise WrongCallError(f"--resolve takes PATH=CHOICE, not {pair!r}")
    return {"path": posixpath.normpath(path), "decision": decision}


def _print_undone(chat_id: str, result: CallUndone, *, dry_run: bool) -> None:
    for conflict in result.conflicts:
        about = f"{conflict.path}: {conflict.about}"
        if conflict.decision is not None:
            about += f"; resolved: {conflict.decision}"
        output.say(f"  ! {display.in_line(about)}", fg="yellow")
        output.conflicting_lines(conflict.lines)
    if dry_run:
        for change in result.changes:
            output.say((change.patch or f"{change.path}: {change.kind}").rstrip("\n"))
    else:
        output.changes(result.changes)
    for note in result.unstored:
        output.say(f"  ! {display.in_line(note.path)} {note.reason}", fg="yellow", err=True)
    if result.status == "nothing_to_undo":
        output.say(f"nothing to undo: {result.branch} no longer has the changes of this call")
    elif result.status == "kept":
        output.say(_KEPT[dry_run])
    elif result.status == "conflicts":
        what = "would be" if dry_run else "was"
        output.say(f"nothing {what} undone: {result.branch} has later changes in the same lines")
        again = f"covalt-git chat undo {chat_id} {result.call_id} --branch {result.branch}"
        output.say(f"resolve all:  {again} --prefer ours|theirs|union")
        output.say(f"resolve one:  {again} --resolve PATH=ours|theirs|union")
    elif dry_run:
        output.say(f"the call would be undone on {result.branch}", dim=True)
        output.say("with everything that changed in the workspace while the call ran", dim=True)
    else:
        output.say(f"{_at(result)} on {result.branch}", dim=True)


def _at(result: WorkspaceRestored | CallUndone) -> str:
    return result.manifest_id[: output.SHORT] if result.manifest_id else "no commit"
