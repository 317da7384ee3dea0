"""``covalt-git chat files``, ``diff`` and ``upload``."""

from __future__ import annotations

import stat
import sys
from contextlib import ExitStack
from pathlib import Path

import click

from covalt_git.cli.context import ask, ask_to_print, chat_argument, print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output, result_text
from covalt_git.errors import WrongCallError, listed
from covalt_git.operations.chats import workspace_edits, workspace_files
from covalt_git.operations.registry import RequestFile
from covalt_git.text import display

_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
"""Kinds of files that cannot be uploaded; every other one is a device."""


@click.command("files", cls=JsonCommand)
@chat_argument
@click.argument("commit", default="HEAD")
def files(chat_id: str, commit: str) -> None:
    """List the files of a COMMIT; default: HEAD.

    Example: covalt-git chat files c1 HEAD~1
    """
    listing = ask_to_print(workspace_files.get_workspace_files, chat_id=chat_id, manifest=commit)
    for file in listing.files:
        output.say(f"{file.sha256[: output.SHORT]}  {display.in_line(file.path)}")


@click.command("diff", cls=JsonCommand)
@chat_argument
@click.argument("old", metavar="[COMMIT]", default="HEAD")
@click.argument("new", metavar="[COMMIT]", default="")
@click.option("--stat", "only_names", is_flag=True, help="List only the paths.")
@click.option(
    "--binary", is_flag=True, help="Include files that are not UTF-8 text, as binary patches."
)
def diff(chat_id: str, old: str, new: str, *, only_names: bool, binary: bool) -> None:
    """Show changes between two COMMITs, or since one.

    With one COMMIT, show the changes from it to the current workspace; the default is HEAD.
    As in git, main..idea is the same as main idea.  In a file or pipe, the output is a patch for
    `git apply`, or for `patch -p1` without --binary.

    Example: covalt-git chat diff c1 HEAD~2 HEAD
    """
    if not new and ".." in old and "..." not in old:
        old, new = (end or "HEAD" for end in old.split("..", 1))
    difference = ask(
        workspace_files.get_commit_diff,
        chat_id=chat_id,
        old=old,
        new=new,
        patches=not only_names,
        binary=binary,
    )
    print_json(difference)
    if only_names:
        output.changes(difference.changes)
        return
    inexact = [display.in_line(change.path) for change in difference.changes if not change.exact]
    if sys.stdout.isatty():
        result_text.patch("".join(change.patch or "" for change in difference.changes))
    else:
        # For programs: an escaped character, or a patch that git refuses, would make all of it useless
        # (test_a_diff_in_a_pipe_is_a_patch_for_git).
        patch = "".join(change.patch or "" for change in difference.changes if change.exact)
        click.echo(patch.encode(), nl=False)
    if inexact:
        left_out = "git cannot apply" if sys.stdout.isatty() else "left out"
        output.say(
            f"{left_out}, because not UTF-8 text: {listed(inexact)}; include it with --binary",
            err=True,
            fg="yellow",
        )


@click.command("upload", cls=JsonCommand)
@chat_argument
@click.argument(
    "paths", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@click.option("--to", "folder", default="", help="Folder of the workspace to add them to.")
def upload(chat_id: str, paths: tuple[Path, ...], folder: str) -> None:
    """Add FILEs to a chat's workspace, in a new commit.

    If a file with another content has the name, the new file gets a number: report_1.csv.

    Example: covalt-git chat upload c1 report.md
    """
    with ExitStack() as opened:
        result = ask(
            workspace_edits.upload_files,
            chat_id=chat_id,
            folder=folder,
            files=[_upload(opened, path) for path in paths],
            portable=False,
        )
    print_json(result)
    for file in result.files:
        path = display.in_line(file.path)
        taken = f" ({display.in_line(file.renamed_from)} exists)" if file.renamed_from else ""
        if file.was_there:
            output.say(f"  = {path} exists already{taken}", dim=True)
        else:
            output.say(f"  + {path}{taken}", fg="green")
    if not result.changed:
        output.say("nothing new: the workspace has these files already")


def _upload(opened: ExitStack, path: Path) -> RequestFile:
    """Open a file that the command line names, unless it is another kind of file."""
    name = str(path)
    try:
        mode = path.stat().st_mode
        # Before it is opened, because opening a named pipe blocks until there is a writer.
        if not stat.S_ISREG(mode):
            raise WrongCallError(
                f"{name!r} is {_KINDS.get(stat.S_IFMT(mode), 'a device')}; only files are uploaded"
            )
        return RequestFile(
            path.name, opened.enter_context(path.open("rb")), bool(mode & stat.S_IXUSR)
        )
    except FileNotFoundError:
        raise WrongCallError(f"{name!r} does not exist") from None
    except OSError as error:
        raise WrongCallError(f"{name!r} cannot be read: {(error.strerror or '').lower()}") from None
