"""``covalt-git chat``: chats and their workspaces."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli import output, render_text
from covalt_git.cli.session import indexed, json_option, project, synced, written, wrong_call
from covalt_git.workspaces.uploads import Upload

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from covalt_git.models.base import JsonObject
    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.workspaces.chats import ChatStore

chat_argument = click.argument("chat_id", metavar="CHAT")


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
                    row["title"],
                )
                for row in rows
            ],
            titles=("CHAT", "BRANCH", "STATES", "CALLS", "MADE", "TITLE"),
        )


@command.command("show")
@chat_argument
@click.argument("manifest", default="HEAD")
@json_option
def show(chat_id: str, manifest: str, *, as_json: bool) -> None:
    """Show what a MANIFEST is: what was done, which files it changed, and its result as it is shown."""
    opened = project()
    with opened.chats.open(chat_id) as chat:
        if manifest == "HEAD" and chat.head() is None:
            output.as_json(chat.about().model_dump()) if as_json else _say_empty(chat)
            return
        shown = chat.manifest(chat.resolve(manifest))
        changes = chat.changes(shown.parent_id, shown.id)
        if as_json:
            output.as_json(_manifest_json(shown, changes) | {"record": _record(shown)})
            return
        output.say(f"{shown.id}", bold=True)
        output.say(f"{shown.title}, {shown.created_at}, by {shown.record.by}")
        output.changes(changes)
        output.notes(shown.record.workspace)
        if shown.record.call is not None:
            render_text.call(chat, shown)


@command.command("status")
@chat_argument
@json_option
def status(chat_id: str, *, as_json: bool) -> None:
    """Show the branch, the edits that no manifest holds yet, and what is left out of them."""
    opened = project()
    with opened.chats.open(chat_id) as chat, chat.looking() as seen:
        changes = chat.tree_changes(chat.state(chat.head()).tree, seen.tree)
        calls = chat.calls()
        if as_json:
            output.as_json(
                {
                    "branch": chat.active_branch(),
                    "manifest_id": chat.head(),
                    "changes": [_change_json(change) for change in changes],
                    "ignored": list(seen.ignored),
                    "workspace": seen.notes.model_dump(),
                    "waiting": [call.id for call in calls],
                }
            )
            return
        at = chat.head()
        output.say(
            f"on {chat.active_branch()}, at {at[: output.SHORT] if at else 'no manifest yet'}"
        )
        output.say("edits that the next step saves:" if changes else "no unsaved edits")
        output.changes(changes)
        output.notes(seen.notes)
        if seen.ignored:
            output.say(
                f"ignored, and kept through every switch: {', '.join(seen.ignored)}", dim=True
            )
        for call in calls:
            output.say(f"waiting: {call.tool_id}, see covalt-git approval list", fg="yellow")


@command.command("log")
@chat_argument
@click.argument("manifest", default="HEAD")
@click.option("-n", "--max-count", type=click.IntRange(1), help="Show at most this many.")
@click.option("--all", "everything", is_flag=True, help="Show the manifests of all branches.")
@json_option
def log(
    chat_id: str, manifest: str, max_count: int | None, *, everything: bool, as_json: bool
) -> None:
    """List the states of a chat's files, newest first, with what made each of them."""
    opened = project()
    with opened.chats.open(chat_id) as chat:
        if chat.head() is None and manifest == "HEAD" and not everything:
            output.as_json([]) if as_json else _say_empty(chat)
            return
        if everything:
            found = sorted(
                (chat.manifest(oid) for oid in chat.reachable()),
                key=lambda one: (one.created_at, one.record.id),
                reverse=True,
            )
        else:
            found = list(chat.log(chat.resolve(manifest)))
        found = found[:max_count]
        heads = _heads(chat)
        if as_json:
            output.as_json(
                [
                    _manifest_json(one, chat.changes(one.parent_id, one.id))
                    | {"branches": heads.get(one.id, [])}
                    for one in found
                ]
            )
            return
        for one in found:
            names = f" ({', '.join(heads[one.id])})" if one.id in heads else ""
            failed = one.record.call is not None and one.record.call.status == "error"
            line = f"{one.id[: output.SHORT]}{names}  {one.title}"
            output.say(line, fg="red" if failed else None)
            output.say(
                f"    {one.created_at}  {_summary(chat.changes(one.parent_id, one.id))}", dim=True
            )


@command.command("files")
@chat_argument
@click.argument("manifest", default="HEAD")
@json_option
def files(chat_id: str, manifest: str, *, as_json: bool) -> None:
    """List the files of a MANIFEST with the sha256 of each."""
    opened = project()
    with opened.chats.open(chat_id) as chat:
        oid = None if manifest == "HEAD" and chat.head() is None else chat.resolve(manifest)
        found: dict[str, str] = {}
        if oid is not None:
            with opened.index() as index:
                index.sync_chat(chat)
                found = index.manifest_files(chat, oid)
        if as_json:
            output.as_json({"manifest_id": oid, "files": found})
        for path, digest in found.items() if not as_json else ():
            output.say(f"{digest[: output.SHORT]}  {path}")


@command.command("diff")
@chat_argument
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--stat", is_flag=True, help="Only name the files.")
@json_option
def diff(chat_id: str, old: str | None, new: str | None, *, stat: bool, as_json: bool) -> None:
    """Show what differs between two MANIFESTs.

    With one, from it to the folder as it is now; with none, from the last manifest to the folder.
    """
    opened = project()
    with opened.chats.open(chat_id) as chat:
        before = chat.state(chat.resolve(old) if old is not None else chat.head())
        after = chat.state(chat.resolve(new)).tree if new is not None else None
        with chat.looking() if new is None else nullcontext() as seen:
            changes = chat.tree_changes(before.tree, seen.tree if seen else after)
            if as_json:
                output.as_json([_change_json(one) | {"patch": chat.patch(one)} for one in changes])
            elif stat:
                output.changes(changes)
            else:
                for change in changes:
                    render_text.patch(chat.patch(change))


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
    uploads = [Upload(path.name, _read(path), _is_executable(path)) for path in paths]
    with opened.chats.open(chat_id) as chat:
        before = chat.head()
        with written(opened, chat) as writer:
            placed = writer.upload(uploads, folder=folder)
        if as_json:
            output.as_json(
                {"manifest_id": chat.head(), "files": [one.model_dump() for one in placed]}
            )
            return
        for one in placed:
            taken = f" ({one.renamed_from} was taken)" if one.renamed_from else ""
            output.say(f"  + {one.path}{taken}", fg="green")
        if chat.head() == before:
            output.say("nothing new: the workspace has these files already")


@command.command("branch")
@chat_argument
@click.argument("name", required=False)
@click.option("--from", "start", metavar="MANIFEST", help="Where it starts; the active branch.")
@json_option
def branch(chat_id: str, name: str | None, start: str | None, *, as_json: bool) -> None:
    """Make a branch NAME; without one, list the branches."""
    opened = project()
    with opened.chats.open(chat_id) as chat:
        if name is None:
            if start is not None:
                raise wrong_call("--from goes with the name of a new branch")
            _list_branches(chat, as_json=as_json)
            return
        with written(opened, chat) as writer:
            oid = chat.resolve(start) if start is not None else writer.save_edits()
            writer.create_branch(name, oid)
        if as_json:
            output.as_json({"name": name, "manifest_id": oid})
            return
        output.say(f"{name} is at {oid and oid[: output.SHORT]}")
        output.say(f"go there: covalt-git chat checkout {chat.id} {name}", dim=True)


@command.command("checkout")
@chat_argument
@click.argument("name", metavar="BRANCH")
@json_option
def checkout(chat_id: str, name: str, *, as_json: bool) -> None:
    """Bring the folder to a BRANCH; edits are saved on the branch they were made on."""
    opened = project()
    with opened.chats.open(chat_id) as chat:
        with written(opened, chat) as writer:
            changes = writer.checkout(name)
        if as_json:
            output.as_json(
                {
                    "branch": name,
                    "manifest_id": chat.head(),
                    "changes": [_change_json(change) for change in changes],
                }
            )
            return
        output.say(f"on {name}")
        output.changes(changes)


def _list_branches(chat: ChatStore, *, as_json: bool) -> None:
    branches = chat.branches()
    if as_json:
        output.as_json([one.model_dump() for one in branches])
        return
    for one in branches:
        at = one.manifest_id[: output.SHORT] if one.manifest_id else "nothing yet"
        output.say(f"{'*' if one.active else ' '} {one.name}  {at}", bold=one.active)


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise wrong_call(f"there is no file {str(path)!r}")
    return path.read_bytes()


def _is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)


def _say_empty(chat: ChatStore) -> None:
    output.say(f"nothing has happened in {chat.id} yet")
    output.say(
        f"next: covalt-git chat upload {chat.id} FILE, or covalt-git call {chat.id} TOOL", dim=True
    )


def _heads(chat: ChatStore) -> dict[str, list[str]]:
    heads: dict[str, list[str]] = {}
    for one in chat.branches():
        if one.manifest_id is not None:
            heads.setdefault(one.manifest_id, []).append(f"*{one.name}" if one.active else one.name)
    return heads


def _summary(changes: Iterable[FileChange]) -> str:
    named = [f"{output.MARKS[change.kind][0]}{change.path}" for change in changes]
    more = f" and {len(named) - 4} more" if len(named) > 4 else ""  # noqa: PLR2004 - one line
    return ", ".join(named[:4]) + more or "no file changed"


def _change_json(change: FileChange) -> JsonObject:
    return {"path": change.path, "kind": change.kind} | change.model_dump(exclude={"path"})


def _manifest_json(manifest: WorkspaceManifest, changes: Sequence[FileChange]) -> JsonObject:
    return {
        "id": manifest.id,
        "chat_id": manifest.chat_id,
        "parent_id": manifest.parent_id,
        "tree_id": manifest.tree_id,
        "created_at": manifest.created_at,
        "source": manifest.source,
        "source_ref": manifest.source_ref,
        "message_id": manifest.message_id,
        "changes": [_change_json(change) for change in changes],
    }


def _record(manifest: WorkspaceManifest) -> JsonObject:
    return manifest.record.model_dump(mode="json", exclude_defaults=True)
