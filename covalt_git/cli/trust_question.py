"""Question at a terminal whether to trust the permissions of a project on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.cli.groups import wants_json
from covalt_git.cli.terminal import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from covalt_git.operations.context import Context
    from covalt_git.operations.toolsets import ToolsetDetail
    from covalt_git.operations.trust import PermissionRow


def confirm_trust(permissions: Sequence[PermissionRow]) -> bool:
    """Print permissions that are not trusted, and return whether the user trusts them."""
    # With --json, stdout has the result only.
    output.say("Not trusted on this machine:", err=wants_json())
    print_permissions(permissions)
    if output.confirm("trust them?", err=wants_json()):
        return True
    output.say("they still do not act on this machine", err=wants_json())
    return False


def print_permissions(permissions: Iterable[PermissionRow]) -> None:
    """Print the lines of permissions, as every question about them does."""
    for permission in permissions:
        for line in permission.lines:
            output.fact(f"  {line}", err=wants_json())


def print_not_trusted(toolset: ToolsetDetail) -> None:
    """Print what is not trusted on this machine: the grants of a clone are valid, and nothing acts by them."""
    for grant in toolset.left_over:
        output.fact(
            f"a grant of a server that it no longer has, which permits nothing: {grant.words}"
        )
        output.say(f"  hint: {grant.command}")
    for words in toolset.not_trusted:
        output.fact(f"not trusted on this machine: {words}", fg="yellow")
    if toolset.not_trusted:
        output.say("  hint: covalt-git trust", fg="yellow")


def offer_trust(context: Context) -> bool:
    """Ask the user at a terminal to trust the project's permissions; return whether they are trusted now."""
    from covalt_git.operations import trust  # noqa: PLC0415 - most projects are trusted

    permissions = trust.list_permissions(context).permissions
    new = [permission for permission in permissions if not permission.trusted]
    if not new or not confirm_trust(new):
        return False
    trust.trust_project(context, permissions=tuple(permission.digest for permission in new))
    return True
