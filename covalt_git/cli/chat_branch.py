"""``covalt-git chat branch`` and ``chat checkout``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli import output
from covalt_git.cli.context import chat_argument, json_option, notes_json, project, written
from covalt_git.workspaces import branches, commit_names

if TYPE_CHECKING:
    from covalt_git.workspaces.chats import ChatStore


class _Branches(click.Group):
    """A group in which a chat's name may stand in the place of a command's.

    ``branch c1`` is ``branch list c1``, and ``branch c1 idea`` is ``branch new c1 idea``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in the command that is meant."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            words = [arg for arg in args if not arg.startswith("-")]
            new = len(words) > 1 or any(arg.startswith("--from") for arg in args)
            args = ["new" if new else "list", *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return how it is called."""
        return ["CHAT [NAME] | COMMAND CHAT ..."]


@click.group(cls=_Branches)
def command() -> None:
    """List, make, rename and delete branches.

    `branch CHAT` lists them, `branch CHAT NAME` makes one.  A chat that has the name of a command is
    written behind one: `branch list new`.
    """


@command.command("list")
@chat_argument
@click.option("--deleted", is_flag=True, help="List deleted ones whose work no branch has.")
@json_option
def list_branches(chat_id: str, *, deleted: bool, as_json: bool) -> None:
    """List the branches; the folder is on the one with the star."""
    with project().chats.open(chat_id) as chat:
        _list_deleted(chat, as_json=as_json) if deleted else _list(chat, as_json=as_json)


@command.command("new")
@chat_argument
@click.argument("name")
@click.option("--from", "start", metavar="MANIFEST", help="Where it starts; the active branch.")
@json_option
def new_branch(chat_id: str, name: str, start: str | None, *, as_json: bool) -> None:
    """Make a branch; the folder stays where it is."""
    opened = project()
    with opened.chats.open(chat_id) as chat:
        with written(opened, chat) as writer:
            oid = commit_names.resolve(chat, start) if start is not None else writer.save_edits()
            writer.create_branch(name, oid)
        if as_json:
            output.as_json({"name": name, "manifest_id": oid} | notes_json(writer))
            return
        output.say(f"{name} is at {oid and oid[: output.SHORT]}")
        output.say(f"go there: covalt-git chat checkout {chat.id} {name}", dim=True)


@command.command("rename")
@chat_argument
@click.argument("old")
@click.argument("new")
@json_option
def rename_branch(chat_id: str, old: str, new: str, *, as_json: bool) -> None:
    """Give a branch another name; the folder stays on it."""
    opened = project()
    with opened.chats.open(chat_id) as chat:
        with written(opened, chat) as writer:
            renamed = branches.rename(writer, old, new)
        if as_json:
            output.as_json(renamed.model_dump())
            return
        output.say(f"{old} is {renamed.name} now")


@command.command("delete")
@chat_argument
@click.argument("name")
@click.option("--force", is_flag=True, help="Also where work is lost from sight, or a call waits.")
@json_option
def delete_branch(chat_id: str, name: str, *, force: bool, as_json: bool) -> None:
    """Delete a branch.

    One that has manifests which no other branch has, or on which a call waits for a person, needs
    --force.  The call then ends as cancelled.
    """
    opened = project()
    with opened.chats.open(chat_id) as chat:
        with written(opened, chat) as writer:
            gone = branches.delete(writer, name, force=force)
        if as_json:
            output.as_json(gone.model_dump() | {"back": branches.way_back(chat, gone)})
            return
        lost = f", with {output.plural(gone.manifests, 'manifest')} that no other branch has"
        at = gone.manifest_id[: output.SHORT]
        output.say(f"deleted {name}, which was at {at}{lost if gone.manifests else ''}")
        output.say(f"get it back: {branches.way_back(chat, gone)}", dim=True)


@click.command()
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
                    "changes": [output.change_json(change) for change in changes],
                }
                | notes_json(writer)
            )
            return
        output.say(f"on {name}")
        output.changes(changes)


def _list(chat: ChatStore, *, as_json: bool) -> None:
    found = chat.branches()
    if as_json:
        output.as_json([one.model_dump() for one in found])
        return
    for one in found:
        at = one.manifest_id[: output.SHORT] if one.manifest_id else "nothing yet"
        output.say(f"{'*' if one.active else ' '} {one.name}  {at}", bold=one.active)


def _list_deleted(chat: ChatStore, *, as_json: bool) -> None:
    found = branches.deleted(chat)
    if as_json:
        output.as_json([one.model_dump() | {"back": branches.way_back(chat, one)} for one in found])
        return
    for one in found:
        output.say(f"{one.name}  {one.manifest_id[: output.SHORT]}")
        output.say(f"    get it back: {branches.way_back(chat, one)}", dim=True)
    if not found:
        output.say("no deleted branch has anything that the others lack")
