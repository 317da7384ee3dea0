"""``covalt-git chat``: chats and their workspaces."""

from __future__ import annotations

import os
import stat
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli import (
    chat_branch,
    chat_log,
    chat_merge,
    chat_message,
    chat_replay,
    chat_restore,
    chat_transfer,
    output,
    result_text,
)
from covalt_git.cli.context import (
    chat_argument,
    indexed,
    json_option,
    notes_json,
    project,
    synced,
    written,
    wrong_call,
)
from covalt_git.text import display
from covalt_git.workspaces import commit_names, resolving, unsaved
from covalt_git.workspaces.uploads import Upload, check_size

if TYPE_CHECKING:
    from covalt_git.models.project_config import WorkspaceConfig


@click.group()
def command() -> None:
    """Make chats; look at, branch and change their workspaces.

    A MANIFEST is a state of a chat's files: a branch, HEAD, a manifest's id or its beginning, or the
    id of a call.
    """


@command.command("new")
@click.option("--id", "chat_id", help="Its id; c1, c2, ... by default.")
@click.option("--title", default="", help="What it is about.")
@json_option
def new_chat(chat_id: str | None, title: str, *, as_json: bool) -> None:
    """Make a chat with an empty workspace."""
    opened = project()
    with opened.chats.new(chat_id, title=title) as chat:
        indexed(opened, chat)
        about = chat.about()
        if as_json:
            output.as_json(about.model_dump() | {"workspace": str(chat.workspace)})
            return
        output.say(f"{chat.id}: work in {os.path.relpath(chat.workspace)}")


@command.command("list")
@json_option
def list_chats(*, as_json: bool) -> None:
    """List the chats, newest first."""
    with project().index() as index:
        synced(index)
        rows = index.chat_rows()
    if as_json:
        output.as_json(rows)
    elif not rows:
        output.say("no chats yet; make one: covalt-git chat new")
    else:
        output.table(
            [
                (
                    row["id"],
                    row["active_branch"],
                    str(row["manifests"]),
                    str(row["tool_calls"]),
                    row["created_at"],
                    chat_transfer.title_of(row),
                )
                for row in rows
            ],
            titles=("CHAT", "BRANCH", "STATES", "CALLS", "MADE", "TITLE"),
        )


@command.command("status")
@chat_argument
@json_option
def status(chat_id: str, *, as_json: bool) -> None:
    """Show the branch, the edits that no manifest holds yet, and what is left out of them."""
    opened = project()
    with opened.chats.open(chat_id) as chat, chat.looking() as seen:
        begun = unsaved.begun_switch(chat)
        changes = unsaved.changes(chat, seen.tree, begun)
        calls = chat.calls()
        running = [call for call in calls if call.status == "running"]
        waits = [call for call in calls if call.status == "pending"]
        conflicts = resolving.waiting(chat, chat.head(), seen.tree)
        if as_json:
            output.as_json(
                {
                    "branch": chat.active_branch(),
                    "manifest_id": chat.head(),
                    "changes": [output.change_json(change) for change in changes],
                    "ignored": list(seen.ignored),
                    "workspace": seen.notes.model_dump(),
                    "switching_to": None if begun is None else begun.branch,
                    "running": [call.id for call in running],
                    "waiting": [call.id for call in waits],
                    "conflicts": [one.model_dump() for one in conflicts],
                }
            )
            return
        at = chat.head()
        output.say(
            f"on {chat.active_branch()}, at {at[: output.SHORT] if at else 'no manifest yet'}"
        )
        if begun is not None:
            to = begun.new[: output.SHORT] if begun.new else "nothing"
            output.say(
                f"a switch to {begun.branch}, at {to}, was interrupted: the next step finishes it",
                fg="yellow",
            )
        output.say("edits that the next step saves:" if changes else "no unsaved edits")
        output.changes(changes)
        output.notes(seen.notes)
        if seen.ignored:
            ignored = ", ".join(map(display.in_line, seen.ignored))
            output.say(f"ignored, and kept through every switch: {ignored}", dim=True)
        if conflicts:
            output.say(f"conflicts to decide with covalt-git chat resolve {chat.id} PATH:")
            chat_merge.say_waiting(conflicts, chat.active_branch())
        for call in running:
            output.say(f"running: {call.tool_id} (call {call.id}, since {call.started_at})")
        for call in waits:
            output.say(
                f"waiting for approval: {call.tool_id}, see covalt-git approval list", fg="yellow"
            )


@command.command("files")
@chat_argument
@click.argument("manifest", default="HEAD")
@json_option
def files(chat_id: str, manifest: str, *, as_json: bool) -> None:
    """List the files of a MANIFEST with the sha256 of each."""
    opened = project()
    with opened.chats.open(chat_id) as chat:
        oid = (
            None
            if manifest == "HEAD" and chat.head() is None
            else commit_names.resolve(chat, manifest)
        )
        found: dict[str, str] = {}
        if oid is not None:
            with opened.index() as index:
                index.sync_chat(chat)
                found = index.manifest_files(chat, oid)
        if as_json:
            output.as_json({"manifest_id": oid, "files": found})
        for path, digest in found.items() if not as_json else ():
            output.say(f"{digest[: output.SHORT]}  {display.in_line(path)}")


@command.command("diff")
@chat_argument
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--stat", "only_names", is_flag=True, help="Only name the files.")
@json_option
def diff(
    chat_id: str, old: str | None, new: str | None, *, only_names: bool, as_json: bool
) -> None:
    """Show what differs between two MANIFESTs.

    With one, from it to the folder as it is now; with none, from the last manifest to the folder.
    """
    opened = project()
    with opened.chats.open(chat_id) as chat:
        before = chat.state(commit_names.resolve(chat, old) if old is not None else chat.head())
        after = chat.state(commit_names.resolve(chat, new)).tree if new is not None else None
        with chat.looking() if new is None else nullcontext() as seen:
            changes = chat.tree_changes(before.tree, seen.tree if seen else after)
            if as_json:
                output.as_json(
                    [output.change_json(one) | {"patch": chat.patch(one)} for one in changes]
                )
            elif only_names:
                output.changes(changes)
            else:
                for change in changes:
                    result_text.patch(chat.patch(change))


@command.command("upload")
@chat_argument
@click.argument(
    "paths", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@click.option("--to", "folder", default="", help="Folder of the workspace to put them in.")
@json_option
def upload(chat_id: str, paths: tuple[Path, ...], folder: str, *, as_json: bool) -> None:
    """Add FILEs to a chat's workspace.

    A name that is taken gets a number, unless the content is the same.
    """
    opened = project()
    uploads = [_upload(path, opened.config.workspace) for path in paths]
    with opened.chats.open(chat_id) as chat:
        before = chat.head()
        with written(opened, chat) as writer:
            placed = writer.upload(uploads, folder=folder)
        if as_json:
            files = [one.model_dump() for one in placed]
            output.as_json({"manifest_id": chat.head(), "files": files} | notes_json(writer))
            return
        for one in placed:
            path = display.in_line(one.path)
            taken = f" ({display.in_line(one.renamed_from)} was taken)" if one.renamed_from else ""
            if one.was_there:
                output.say(f"  = {path} was there already{taken}", dim=True)
            else:
                output.say(f"  + {path}{taken}", fg="green")
        if chat.head() == before:
            output.say("nothing new: the workspace has these files already")


def _upload(path: Path, config: WorkspaceConfig) -> Upload:
    """Read a file that the command line names, unless it is none or too large."""
    shown = str(path)
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise wrong_call(f"{shown!r} is {_kind(found.st_mode)}; only files are uploaded")
        check_size(shown, found.st_size, config)
        return Upload(path.name, path.read_bytes(), executable=bool(found.st_mode & 0o100))
    except FileNotFoundError:
        raise wrong_call(f"there is no file {shown!r}") from None
    except OSError as error:
        raise wrong_call(f"{shown!r} cannot be read: {(error.strerror or '').lower()}") from None


def _kind(mode: int) -> str:
    """Return what it is that is no file."""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


command.add_command(chat_branch.command, "branch")
command.add_command(chat_branch.checkout, "checkout")
command.add_command(chat_log.log, "log")
command.add_command(chat_log.show, "show")
command.add_command(chat_merge.merge, "merge")
command.add_command(chat_merge.resolve, "resolve")
command.add_command(chat_message.command, "message")
command.add_command(chat_replay.command, "replay")
command.add_command(chat_restore.command, "restore")
for whole in chat_transfer.COMMANDS:
    command.add_command(whole)
