"""``covalt-git chat restore``."""

from __future__ import annotations

import click

from covalt_git.cli.context import ask, chat_argument, json_option
from covalt_git.cli.terminal import output
from covalt_git.operations.chats import workspace_edits


@click.command()
@chat_argument
@click.argument("manifest")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option(
    "--keep-files", is_flag=True, help="Go on from there on a new branch; leave the files alone."
)
@click.option("--branch", metavar="NAME", help="With --keep-files: the branch; restore-1, ...")
@json_option
def command(
    chat_id: str,
    manifest: str,
    paths: tuple[str, ...],
    branch: str | None,
    *,
    keep_files: bool,
    as_json: bool,
) -> None:
    """Bring the files, or the PATHs, back to what they were in a MANIFEST or after a message.

    A PATH is relative to the workspace; a folder comes back with all below it, and what was not
    there is removed.  It becomes a new state of the branch, so that nothing is lost: what you changed
    in the folder is saved first.
    """
    done = ask(
        workspace_edits.restore_workspace,
        chat_id=chat_id,
        manifest=manifest,
        paths=paths,
        keep_files=keep_files,
        branch=branch,
    )
    if as_json:
        output.as_json(done)
        return
    output.changes(done.changes)
    at = done.manifest_id[: output.SHORT] if done.manifest_id else "no manifest"
    if keep_files:
        output.say(f"on {done.branch}, at {at}, with the files as they were")
    elif done.made:
        output.say(f"{at} on {done.branch}", dim=True)
    else:
        output.say("nothing to bring back: the files are as they were there")
