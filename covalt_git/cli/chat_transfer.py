"""``covalt-git chat fork | export | import | gc | delete``: a chat as a whole."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli import output
from covalt_git.cli.context import (
    chat_argument,
    json_option,
    notes_json,
    project,
    synced,
    waiting,
    written,
    wrong_call,
)
from covalt_git.errors import CovaltError
from covalt_git.text import display
from covalt_git.workspaces import collecting, commit_names, deleting, exporting, forking, importing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.project import Project
    from covalt_git.workspaces.collecting import Collected
    from covalt_git.workspaces.deleting import Loss

_MOST_NOTES = 20


@click.command()
@chat_argument
@click.option("--at", "manifest", metavar="MANIFEST", help="Only the history of this state.")
@click.option("--id", "new_id", help="Its id; c1, c2, ... by default.")
@click.option("--title", help="What it is about; by default the same.")
@json_option
def fork(
    chat_id: str, manifest: str | None, new_id: str | None, title: str | None, *, as_json: bool
) -> None:
    """Make a chat with the same history, which goes its own way.

    It shares what is stored with CHAT and needs no room for it; nothing that becomes of one of them
    is anything to the other.  Calls that wait for a person stay where they are.
    """
    opened = project()
    with opened.chats.open(chat_id) as chat:
        with written(opened, chat) as writer:
            at = None if manifest is None else commit_names.resolve(chat, manifest)
            made = forking.fork(writer, opened.chats, at=at, chat_id=new_id, title=title)
            lacking = writer.left_in_place()
        with made:
            with written(opened, made):  # brings its folder there, while the other chat is free
                pass
            about = made.about()
            if as_json:
                told = about.model_dump() | {"workspace": str(made.workspace)}
                output.as_json(told | {"lacks": list(lacking)} | notes_json(writer))
                return
            start = about.forked_from.manifest_id if about.forked_from else None
            where = f" at {start[: output.SHORT]}" if start else ""
            output.say(f"{made.id}: forked from {chat.id}{where}")
            _say_lacking(lacking)
            output.say(f"work in {os.path.relpath(made.workspace)}", dim=True)


@click.command()
@chat_argument
@click.option("-o", "--output", "path", type=click.Path(path_type=Path), help="CHAT.bundle.")
@click.option("--branch", help="Only this branch.")
@json_option
def export(chat_id: str, path: Path | None, branch: str | None, *, as_json: bool) -> None:
    """Write a chat to one file, which stock git reads: git clone FILE.

    Edits in the folder are saved first.  Calls that wait and approvals stay here.
    """
    opened = project()
    with opened.chats.open(chat_id) as chat:
        path = Path(f"{chat.id}.bundle") if path is None else path
        with written(opened, chat) as writer:
            writer.save_edits()
            of_folder = branch is None or branch == chat.active_branch()
            lacking = writer.left_in_place() if of_folder else ()
        with _bar() as progress:
            done = exporting.export_to(chat, path, branch=branch, progress=progress)
        if as_json:
            told = {"file": str(path)} | asdict(done)
            output.as_json(told | {"lacks": list(lacking)} | notes_json(writer))
            return
        output.say(f"{path}: {', '.join(done.branches)}, {_size(done.size)}")
        _say_lacking(lacking)
        output.say(f"elsewhere: covalt-git chat import {path}, or git clone {path}", dim=True)


@click.command("import")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--id", "chat_id", help="Its id; by default the one it had, or c1, c2, ...")
@click.option("--title", help="What it is about; by default as it was.")
@json_option
def import_chat(source: Path, chat_id: str | None, title: str | None, *, as_json: bool) -> None:
    """Take in a chat that was exported, or any history of git's.

    FILE is a bundle (covalt-git chat export, or git bundle create FILE --all), or the folder of a git
    repository.  Every object, path and link is checked first; nothing of it is run.  Its
    commits count as made elsewhere: the chat begins with no calls or messages of its own.
    """
    opened = project()
    found = importing.import_path(opened.chats, source, chat_id=chat_id, title=title)
    with opened.chats.open(found.chat_id) as chat:
        with written(opened, chat) as writer:
            left_out = importing.left_out(writer)
        if as_json:
            told = {"workspace": str(chat.workspace)} | _json(found)
            output.as_json(told | {"ignored": [note.model_dump() for note in left_out]})
            return
        taken = f" ({found.was} was taken)" if found.was not in {None, found.chat_id} else ""
        states = output.plural(found.commits, "state")
        output.say(f"{found.chat_id}{taken}: {states} on {', '.join(found.branches)}")
        for note in found.unportable[:_MOST_NOTES]:
            output.say(
                f"  ! {display.in_line(note.path)} is not for every system: {note.reason}",
                fg="yellow",
            )
        for note in left_out[:_MOST_NOTES]:
            output.say(
                f"  ! {display.in_line(note.path)} will not be in later states: {note.reason}",
                fg="yellow",
            )
        if found.left_out:
            output.say(f"left out: {', '.join(found.left_out[:_MOST_NOTES])}", dim=True)
        output.say(f"work in {os.path.relpath(chat.workspace)}", dim=True)


@click.command()
@click.argument("chat_id", metavar="[CHAT]", required=False)
@click.option("--all", "everything", is_flag=True, help="All chats.")
@click.option("--now", is_flag=True, help="Forget deleted branches, and keep nothing for an hour.")
@json_option
def gc(chat_id: str | None, *, everything: bool, now: bool, as_json: bool) -> None:
    """Free what no branch of a chat leads to, and pack up the rest.

    A deleted branch is kept for 30 days, and what was stored in the last hour.
    """
    if (chat_id is None) != everything:
        raise wrong_call("name a chat, or say --all")
    opened = project()
    results, problems = [], []
    for one in opened.chats.ids() if chat_id is None else [chat_id]:
        try:
            done = _collect(opened, one, now=now)
        except CovaltError as error:
            if chat_id is not None:
                raise
            problems.append(error)
            output.error(error, as_json=False)
            continue
        results.append({"chat_id": one, **asdict(done)})
        if not as_json:
            _say_collected(one, done)
    if as_json:
        output.as_json(results if everything else results[0])
    if problems:
        raise click.exceptions.Exit(1)


@click.command()
@chat_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(chat_id: str, *, yes: bool, as_json: bool) -> None:
    """Delete a chat with its history and its folder, for good."""
    opened = project()
    lost = deleting.loss(opened.chats, chat_id)
    if not yes:
        if as_json or not sys.stdin.isatty():
            error = wrong_call(f"{chat_id} would be gone for good: {_lost(lost)}")
            error.hint = f"covalt-git chat delete {chat_id} --yes"
            raise error
        click.confirm(f"Delete {chat_id} for good: {_lost(lost)}?", abort=True)
    gone = deleting.delete(opened.chats, chat_id, waiting=waiting)
    with opened.index() as index:
        synced(index)
    if as_json:
        output.as_json({"chat_id": chat_id, **asdict(gone)})
        return
    output.say(f"deleted {chat_id}: {_lost(gone)}")


COMMANDS = (fork, export, import_chat, gc, delete)


def _say_lacking(paths: Sequence[str]) -> None:
    """Say what a copy of a chat lacks of the folder, if anything."""
    if paths:
        named = ", ".join(map(display.in_line, paths[:_MOST_NOTES]))
        more = f" and {len(paths) - _MOST_NOTES} more" if len(paths) > _MOST_NOTES else ""
        output.say(f"the copy lacks what no state holds: {named}{more}", fg="yellow", err=True)


def _collect(opened: Project, chat_id: str, *, now: bool) -> Collected:
    def told(text: str) -> None:
        if output.is_watched():
            output.say(f"{chat_id}: {text}", err=True, dim=True)

    with opened.chats.open(chat_id) as chat, written(opened, chat) as writer:
        return collecting.collect(writer, everything=now, told=told)


def _say_collected(chat_id: str, done: Collected) -> None:
    before, after = done.before, done.after
    freed = max(0, before.size - after.size)
    output.say(
        f"{chat_id}: {_size(freed)} freed, {_size(after.size)} left; "
        f"objects {before.objects} → {after.objects}, packs {before.packs} → {after.packs}"
    )
    if done.forgotten:
        output.say(f"  forgot the deleted {', '.join(done.forgotten)}", dim=True)


def _lost(loss: Loss) -> str:
    if loss.manifests is None:
        return f"its history, which cannot be read, and {_size(loss.size)}"
    parts = [output.plural(loss.manifests, "state")]
    if loss.waiting:
        parts.append(output.plural(loss.waiting, "waiting call"))
    return f"{', '.join(parts)}, {_size(loss.size)}"


def _json(found: importing.Imported) -> JsonObject:
    told = {name: getattr(found, name) for name in ("chat_id", "was", "commits")}
    notes = [note.model_dump() for note in found.unportable]
    return told | {
        "branches": list(found.branches),
        "unportable": notes,
        "left_out": list(found.left_out),
    }


def _size(size: int) -> str:
    """Return a number of bytes as people read it."""
    value, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:  # noqa: PLR2004 - the next unit
            break
        value, unit = value / 1024, larger
    return f"{size} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None] | None]:
    """Yield what draws a bar on a terminal, and nothing elsewhere."""
    if not output.is_watched():
        yield None
        return

    def draw(number: int, count: int) -> None:
        click.echo(f"\r{number} of {count} objects", nl=False, err=True)

    yield draw
    click.echo("\r\x1b[K", nl=False, err=True)
