"""``covalt-git chat fork | export | import | gc | delete``: commands for a complete chat."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import ask, ask_to_print, chat_argument, context, print_json
from covalt_git.cli.groups import JsonCommand, wants_json
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.progress_bar import Bar
from covalt_git.errors import WrongCallError
from covalt_git.manifests.machine_folders import check_output
from covalt_git.operations.chats import chats, conversation_export
from covalt_git.system import atomic_write
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.operations.chats.chats import ChatDeleted, GarbageCollected

_MOST_NOTES = 20


@click.command(cls=JsonCommand)
@chat_argument
@click.option("--at", "from_manifest", metavar="COMMIT", help="Only the history of this commit.")
@click.option("--id", "new_chat_id", help="The new chat's id; default: c1, c2, ...")
@click.option("--title", help="Its title; default: the same.")
def fork(chat_id: str, **fields: str | None) -> None:
    """Create an independent chat with the same history.

    Both chats share the stored objects, so a fork takes no space.  Later changes of one do not affect
    the other.  Pending calls stay in CHAT.

    Example: covalt-git chat fork c1 --title "Another way"
    """
    chat = ask_to_print(chats.fork_chat, chat_id=chat_id, **fields)
    start = chat.forked_from.manifest_id if chat.forked_from else None
    where = f" at {start[: output.SHORT]}" if start else ""
    output.say(f"{chat.id}: forked from {chat_id}{where}")
    _print_not_copied(chat.lacks)
    output.say(f"work in {os.path.relpath(chat.workspace)}", dim=True)


@click.command(cls=JsonCommand)
@chat_argument
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The file to write, or - for standard output; default: CHAT.bundle, or CHAT.cjson.json.",
)
@click.option("--branch", help="Only this branch.")
@click.option(
    "--conversation",
    "of_conversation",
    is_flag=True,
    help="Write a CJSON conversation (experimental), without files of the workspace.",
)
def export(chat_id: str, path: Path | None, branch: str | None, *, of_conversation: bool) -> None:
    """Write a chat to a git bundle.

    `git clone FILE` and `chat import FILE` read it.  Uncommitted changes are committed first.
    Pending calls and approvals are not exported.

    With --conversation, the command writes the messages, calls, approvals and results as JSON instead.

    Example: covalt-git chat export c1 -o c1.bundle
    """
    if of_conversation:
        _export_conversation(chat_id, path, branch)
        return
    if str(path) == "-":
        with tempfile.TemporaryDirectory(prefix="covalt-git-") as folder:
            file = Path(folder, "chat.bundle")
            ask(chats.export_chat_to, chat_id=chat_id, path=file, branch=branch)
            with file.open("rb") as stream:
                shutil.copyfileobj(stream, sys.stdout.buffer)
        return
    path = Path(f"{chat_id}.bundle") if path is None else path
    context(progress=Bar("objects"))
    bundle = ask_to_print(chats.export_chat_to, chat_id=chat_id, path=path, branch=branch)
    output.say(f"{path}: {', '.join(bundle.branches)}, {output.size(bundle.size)}")
    _print_not_copied(bundle.lacks)
    output.say(f"elsewhere: covalt-git chat import {path}, or git clone {path}", dim=True)


def _export_conversation(chat_id: str, path: Path | None, branch: str | None) -> None:
    path = Path(f"{chat_id}.cjson.json") if path is None else path
    conversation = ask_to_print(
        conversation_export.export_conversation, chat_id=chat_id, branch=branch
    )
    text = json.dumps(conversation.conversation, indent=2, ensure_ascii=False)
    if str(path) == "-":
        click.echo(text)
        return
    # A clone may have a link here, which leads outside of the project.
    check_output(path)
    atomic_write.replace(path, f"{text}\n")
    messages = output.plural(conversation.messages, "message")
    output.say(f"{path}: {messages}, {output.plural(conversation.calls, 'call')}")


@click.command("import", cls=JsonCommand)
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--id", "chat_id", help="Its id; default: the one it had, or c1, c2, ...")
@click.option("--title", help="Its title; default: the one it had.")
def import_chat(source: Path, chat_id: str | None, title: str | None) -> None:
    """Import an exported chat or a git repository.

    FILE is a bundle (covalt-git chat export, or git bundle create FILE --all), or the folder of a git
    repository.  Every object, path and link is checked first, and no code runs.  Its commits count
    as made elsewhere: they are never read as calls, messages or approvals of the new chat.

    Example: covalt-git chat import c1.bundle
    """
    result = ask_to_print(chats.import_chat_from, path=source, chat_id=chat_id, title=title)
    chat = result.chat
    # With --id the user has chosen another id than that of the export.
    is_renamed = chat_id is None and result.was not in {None, chat.id}
    taken = f" (the id {result.was} is in use)" if is_renamed else ""
    commits = output.plural(chat.manifests, "commit")
    output.say(f"{chat.id}{taken}: {commits} on {', '.join(result.branches)}")
    for note in result.unportable[:_MOST_NOTES]:
        output.say(f"  ! {display.in_line(note.path)} is not portable: {note.reason}", fg="yellow")
    for note in result.ignored[:_MOST_NOTES]:
        output.say(
            f"  ! {display.in_line(note.path)} will not be in later commits: {note.reason}",
            fg="yellow",
        )
    if result.left_out:
        output.say(f"left out: {', '.join(result.left_out[:_MOST_NOTES])}", dim=True)
    output.say(f"work in {os.path.relpath(chat.workspace)}", dim=True)


@click.command(cls=JsonCommand)
@click.argument("chat_id", metavar="[CHAT]", required=False)
@click.option("--all", "everything", is_flag=True, help="All chats.")
@click.option(
    "--now", is_flag=True, help="Also what is younger: objects of the last hour, deleted branches."
)
def gc(chat_id: str | None, *, everything: bool, now: bool) -> None:
    """Delete unreachable objects, and repack the store.

    Deleted branches are kept for 30 days, and objects of the last hour, unless --now is given.  --all also removes
    installed packages of MCP servers that no lock of the project has, and that did not run for 30 days.

    Example: covalt-git chat gc c1
    """
    if (chat_id is None) != everything:
        raise WrongCallError("name a chat, or use --all")
    context(report=_report)
    if chat_id is not None:
        _print_collected(ask_to_print(chats.collect_garbage, chat_id=chat_id, now=now))
        return
    every = ask(chats.collect_all_garbage, now=now)
    print_json(every, exit_code=int(bool(every.failed)))
    for result in every.collected:
        _print_collected(result)
    if every.removed_installations:
        count = output.plural(every.removed_installations, "unused installation")
        output.say(f"removed {count} of MCP servers: {output.size(every.removed_size)} freed")
    for failed in every.failed:
        hint = f"\n  hint: {failed.hint}" if failed.hint else ""
        output.say(f"{failed.message}{hint}", err=True)
    if every.failed:
        raise click.exceptions.Exit(1)


@click.command(cls=JsonCommand)
@chat_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete(chat_id: str, *, yes: bool) -> None:
    """Delete a chat with its history and its folder for good.

    Example: covalt-git chat delete c1 --yes
    """
    if not yes:
        lost = _lost(ask(chats.delete_chat, chat_id=chat_id, dry_run=True))
        # The input of a script is not the answer of a user (test_deleting_a_chat_asks_for_confirmation).
        if wants_json() or not sys.stdin.isatty():
            raise WrongCallError(
                f"{chat_id} would be deleted for good: {lost}",
                hint=f"covalt-git chat delete {chat_id} --yes",
            )
        output.confirm(f"Delete {chat_id} for good: {lost}?", abort=True)
    gone = ask_to_print(chats.delete_chat, chat_id=chat_id)
    output.say(f"deleted {chat_id}: {_lost(gone)}")


def _print_not_copied(paths: Sequence[str]) -> None:
    """Print the paths of the workspace that a copy of a chat does not contain, if any."""
    if paths:
        named = ", ".join(map(display.in_line, paths[:_MOST_NOTES]))
        more = f" and {len(paths) - _MOST_NOTES} more" if len(paths) > _MOST_NOTES else ""
        output.say(
            f"not copied, because no commit has them: {named}{more}",
            fg="yellow",
            err=True,
        )


def _report(step: str) -> None:
    if output.is_watched():
        output.say(step, err=True, dim=True)


def _print_collected(result: GarbageCollected) -> None:
    old_usage, new_usage = result.before, result.after
    freed = max(0, old_usage.size - new_usage.size)
    output.say(
        f"{result.chat_id}: {output.size(freed)} freed, {output.size(new_usage.size)} left; "
        f"objects {old_usage.objects} → {new_usage.objects}, packs {old_usage.packs} → {new_usage.packs}"
    )
    if result.forgotten:
        output.say(
            f"  deleted branches that were removed for good: {', '.join(result.forgotten)}",
            dim=True,
        )


def _lost(loss: ChatDeleted) -> str:
    if loss.manifests is None:
        return f"its history, which cannot be read, and {output.size(loss.size)}"
    parts = [output.plural(loss.manifests, "commit")]
    if loss.waiting:
        parts.append(output.plural(loss.waiting, "pending call"))
    return f"{', '.join(parts)}, {output.size(loss.size)}"
