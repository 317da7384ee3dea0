"""``covalt-git role``: the roles of ``covalt.yaml``."""

from __future__ import annotations

import click

from covalt_git.cli.context import ask_to_print
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.operations import roles

_TITLES = ("ROLE", "CALLS", "EXCEPT", "APPROVES", "")


@click.group(cls=Group)
def command() -> None:
    """List the roles of covalt.yaml.

    A command uses the default role, or that of `covalt-git --role ROLE`.
    """


@command.command("list")
def list_roles() -> None:
    """List roles, and the tools that each may call and approve.

    Tools are patterns, as in covalt.yaml.  The last column marks the default role and the current one.

    Example: covalt-git role list
    """
    listing = ask_to_print(roles.list_roles)
    rows = [_line(role) for role in listing.roles]
    output.table(
        rows, titles=_TITLES, empty="covalt.yaml defines no roles, so you may do everything"
    )


def _line(role: roles.RoleRow) -> tuple[str, ...]:
    marks = {
        "manages chats": role.chats == "manage",
        "default": role.default,
        "acting": role.acting,
    }
    everything = ("everything",) if role.admin else ()
    return (
        role.id,
        ", ".join(everything or role.allow) or "-",
        ", ".join(role.deny) or "-",
        ", ".join(everything or role.approve) or "-",
        ", ".join(name for name, holds in marks.items() if holds),
    )
