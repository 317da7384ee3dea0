"""``covalt-git chat branch`` and ``chat checkout``."""

from __future__ import annotations

import click

from covalt_git.cli.context import ask_to_print, chat_argument
from covalt_git.cli.groups import Group, JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.operations.chats import branches


class _Branches(Group):
    """A group in which a chat's id can take the place of a command.

    ``branch c1`` is ``branch list c1``, and ``branch c1 idea`` is ``branch new c1 idea``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the command."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            words = [arg for arg in args if not arg.startswith("-")]
            new = len(words) > 1 or any(arg.startswith("--from") for arg in args)
            args = ["new" if new else "list", *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return ["CHAT [NAME] | COMMAND CHAT ..."]


@click.group(cls=_Branches)
def command() -> None:
    """List, create, rename and delete branches.

    `chat branch CHAT` lists the branches, `chat branch CHAT NAME` creates one.  If the chat has the
    name of a command, write the command too: `chat branch list new`.
    """


@command.command("list")
@chat_argument
@click.option(
    "--deleted", is_flag=True, help="List deleted branches with commits that no branch has."
)
def list_branches(chat_id: str, *, deleted: bool) -> None:
    """List the branches; `*` marks the active one.

    Example: covalt-git chat branch list c1
    """
    if deleted:
        _list_deleted(chat_id)
        return
    listing = ask_to_print(branches.list_branches, chat_id=chat_id)
    for branch in listing.branches:
        at = branch.manifest_id[: output.SHORT] if branch.manifest_id else "no commit yet"
        output.say(f"{'*' if branch.active else ' '} {branch.name}  {at}", bold=branch.active)


@command.command("new")
@chat_argument
@click.argument("name")
@click.option(
    "--from",
    "start",
    metavar="COMMIT",
    help="Start at this commit; default: the current workspace.",
)
def new_branch(chat_id: str, name: str, start: str | None) -> None:
    """Create a branch, without checking it out.

    Example: covalt-git chat branch c1 idea
    """
    branch = ask_to_print(branches.create_branch, chat_id=chat_id, name=name, from_manifest=start)
    output.say(f"{name} is at {branch.manifest_id[: output.SHORT]}")
    output.say(f"switch to it: covalt-git chat checkout {chat_id} {name}", dim=True)


@command.command("rename")
@chat_argument
@click.argument("old")
@click.argument("new")
def rename_branch(chat_id: str, old: str, new: str) -> None:
    """Rename a branch.

    Example: covalt-git chat branch rename c1 idea better
    """
    renamed = ask_to_print(branches.rename_branch, chat_id=chat_id, branch=old, name=new)
    output.say(f"renamed {old} to {renamed.branch.name}")


@command.command("delete")
@chat_argument
@click.argument("name")
@click.option(
    "--force",
    is_flag=True,
    help="Even if it has commits that no other branch has, or a pending call.",
)
def delete_branch(chat_id: str, name: str, *, force: bool) -> None:
    """Delete a branch.

    --force is needed when it has commits that no other branch has, or a pending call, which is then
    cancelled.  Its commits are kept for 30 days: `chat branch list CHAT --deleted`.

    Example: covalt-git chat branch delete c1 idea --force
    """
    gone = ask_to_print(branches.delete_branch, chat_id=chat_id, branch=name, force=force)
    lost = f", with {output.plural(gone.manifests, 'commit')} that no other branch has"
    at = gone.manifest_id[: output.SHORT]
    output.say(f"deleted {name}, which was at {at}{lost if gone.manifests else ''}")
    output.say(f"restore it: {gone.back}", dim=True)


@click.command(cls=JsonCommand)
@chat_argument
@click.argument("name", metavar="BRANCH")
def checkout(chat_id: str, name: str) -> None:
    """Switch to a BRANCH.

    Uncommitted changes are committed on the active branch first.  To go back to a commit, use `chat
    restore`, or `chat branch --from` and check out the new branch.

    Example: covalt-git chat checkout c1 idea
    """
    switch = ask_to_print(branches.switch_branch, chat_id=chat_id, branch=name)
    output.say(f"on {name}")
    output.changes(switch.changes)


def _list_deleted(chat_id: str) -> None:
    listing = ask_to_print(branches.list_deleted_branches, chat_id=chat_id)
    for branch in listing.branches:
        output.say(f"{branch.name}  {branch.manifest_id[: output.SHORT]}")
        output.say(f"    restore it: {branch.back}", dim=True)
    if not listing.branches:
        output.say("no deleted branch has commits that no branch has")
