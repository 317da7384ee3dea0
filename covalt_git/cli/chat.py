"""``covalt-git chat``: chats and their workspaces."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
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
from covalt_git.cli.context import ask, chat_argument, json_option, wrong_call
from covalt_git.operations import chats, workspace_files
from covalt_git.operations.registry import Upload
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.operations.chats import ChatRow


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
    made = ask(chats.create_chat, chat_id=chat_id, title=title)
    if as_json:
        output.as_json(made)
        return
    output.say(f"{made.id}: work in {os.path.relpath(made.workspace)}")


@command.command("list")
@json_option
def list_chats(*, as_json: bool) -> None:
    """List the chats, newest first."""
    found = ask(chats.list_chats)
    if as_json:
        output.as_json(found)
        return
    for damaged in found.damaged:
        output.damaged(damaged.chat_id, damaged.message, damaged.hint)
    if not found.chats:
        output.say("no chats yet; make one: covalt-git chat new")
        return
    output.table(
        [
            (
                one.id,
                one.active_branch,
                str(one.manifests),
                str(one.tool_calls),
                one.created_at,
                _title(one),
            )
            for one in found.chats
        ],
        titles=("CHAT", "BRANCH", "STATES", "CALLS", "MADE", "TITLE"),
    )


@command.command("status")
@chat_argument
@json_option
def status(chat_id: str, *, as_json: bool) -> None:
    """Show the branch, the edits that no manifest holds yet, and what is left out of them."""
    chat = ask(chats.get_chat, chat_id=chat_id)
    if as_json:
        output.as_json(chat)
        return
    heads = {one.name: one.manifest_id for one in chat.branches}
    at = chat.active_manifest_id
    output.say(f"on {chat.active_branch}, at {at[: output.SHORT] if at else 'no manifest yet'}")
    now = chat.status
    if now.switching_to is not None:
        to = (heads.get(now.switching_to) or "nothing")[: output.SHORT]
        output.say(
            f"a switch to {now.switching_to}, at {to}, was interrupted: the next step finishes it",
            fg="yellow",
        )
    output.say("edits that the next step saves:" if now.changes else "no unsaved edits")
    output.changes(now.changes)
    output.notes(now.workspace)
    if now.ignored:
        ignored = ", ".join(map(display.in_line, now.ignored))
        output.say(f"ignored, and kept through every switch: {ignored}", dim=True)
    if now.conflicts:
        output.say(f"conflicts to decide with covalt-git chat resolve {chat.id} PATH:")
        chat_merge.say_waiting(now.conflicts)
    for call in now.waiting:
        if call.status == "running":
            output.say(f"running: {call.tool_id} (call {call.call_id}, since {call.started_at})")
        else:
            output.say(
                f"waiting for approval: {call.tool_id}, see covalt-git approval list", fg="yellow"
            )


@command.command("files")
@chat_argument
@click.argument("manifest", default="HEAD")
@json_option
def files(chat_id: str, manifest: str, *, as_json: bool) -> None:
    """List the files of a MANIFEST with the sha256 of each."""
    found = ask(workspace_files.get_workspace_files, chat_id=chat_id, manifest=manifest)
    if as_json:
        output.as_json(found)
        return
    for one in found.files:
        output.say(f"{one.sha256[: output.SHORT]}  {display.in_line(one.path)}")


@command.command("diff")
@chat_argument
@click.argument("old", default="HEAD")
@click.argument("new", default="")
@click.option("--stat", "only_names", is_flag=True, help="Only name the files.")
@json_option
def diff(chat_id: str, old: str, new: str, *, only_names: bool, as_json: bool) -> None:
    """Show what differs between two MANIFESTs.

    With one, from it to the folder as it is now; with none, from the last manifest to the folder.
    """
    found = ask(
        workspace_files.get_whole_diff, chat_id=chat_id, old=old, new=new, patches=not only_names
    )
    if as_json:
        output.as_json(found)
    elif only_names:
        output.changes(found.changes)
    else:
        for one in found.changes:
            result_text.patch(one.patch or "")


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
    with ExitStack() as opened:
        done = ask(
            workspace_files.upload_files,
            chat_id=chat_id,
            folder=folder,
            files=[_upload(opened, path) for path in paths],
            portable=False,
        )
    if as_json:
        output.as_json(done)
        return
    for one in done.files:
        path = display.in_line(one.path)
        taken = f" ({display.in_line(one.renamed_from)} was taken)" if one.renamed_from else ""
        if one.was_there:
            output.say(f"  = {path} was there already{taken}", dim=True)
        else:
            output.say(f"  + {path}{taken}", fg="green")
    if not done.changed:
        output.say("nothing new: the workspace has these files already")


def _upload(opened: ExitStack, path: Path) -> Upload:
    """Open a file that the command line names, unless it is another kind of file."""
    shown = str(path)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # before it is opened: a named pipe would wait for its writer
            raise wrong_call(f"{shown!r} is {_kind(mode)}; only files are uploaded")
        return Upload(path.name, opened.enter_context(path.open("rb")), bool(mode & stat.S_IXUSR))
    except FileNotFoundError:
        raise wrong_call(f"there is no file {shown!r}") from None
    except OSError as error:
        raise wrong_call(f"{shown!r} cannot be read: {(error.strerror or '').lower()}") from None


def _title(chat: ChatRow) -> str:
    """Return what a list says a chat is about, and where it comes from."""
    where = f"(made by {chat.made_by})" if chat.made_by else ""
    if chat.forked_from is not None:
        where = f"(forked from {chat.forked_from.chat_id})"
    return " ".join(filter(None, (chat.title, where)))


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
