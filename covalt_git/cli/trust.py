"""``covalt-git trust``: the permissions of a project that act on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli.call import reason_option
from covalt_git.cli.context import ask, check_user, print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.cli.trust_question import confirm_trust, print_permissions
from covalt_git.errors import WrongCallError
from covalt_git.operations import trust

if TYPE_CHECKING:
    from covalt_git.operations.trust import TrustList


@click.command(cls=JsonCommand)
@click.option("--list", "lists", is_flag=True, help="List all permissions and change nothing.")
@click.option("--withdraw", is_flag=True, help="Withdraw the trust in this project.")
@click.option(
    "--below",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Trust all projects below FOLDER, whatever they contain: for containers and CI.",
)
@reason_option
def command(*, lists: bool, withdraw: bool, below: Path | None, reason: str | None) -> None:
    """Trust the permissions of this project on this machine.

    Grants, accepted tools of MCP servers and waived approvals are files of the project, so a clone brings
    those of its author.  They act on your machine only after you trust them here.  The command prints those
    that you have not trusted yet, and asks at a terminal.  What you grant on this machine is trusted at once.

    A script states a reason with --no-terminal.  The trust is for this folder and ends for each permission
    that changes.

    Example: covalt-git trust
    """
    if sum((lists, withdraw, below is not None)) > 1:
        raise WrongCallError("--list, --withdraw and --below cannot be combined")
    if lists:
        _print_list(ask(trust.list_permissions))
    elif withdraw:
        after = ask(trust.distrust_project)
        print_json(after)
        output.say("this project is no longer trusted on this machine")
        remaining = [permission.permits for permission in after.permissions if permission.trusted]
        if remaining:
            output.say("still trusted, as a folder above is trusted or you made the project here:")
            for text in remaining:
                output.say(f"  {text}")
    elif below is not None:
        check_user(reason)
        # Resolved here, because it is relative to the current folder, not to the project.
        result = ask(trust.trust_projects_below, folder=str(below.resolve()), reason=reason)
        print_json(result)
        output.say(f"trusted: every project in {result.folder}")
    else:
        _trust(reason)


def _trust(reason: str | None) -> None:
    listing = ask(trust.list_permissions)
    new = [permission for permission in listing.permissions if not permission.trusted]
    if not new:
        print_json(listing)
        output.say("every permission of this project is trusted on this machine")
        return
    check_user(reason)
    if reason is None and not confirm_trust(new):
        raise SystemExit(1)
    digests = tuple(permission.digest for permission in new)
    result = ask(trust.trust_project, permissions=digests, reason=reason)
    if reason is not None:
        # The output of a script has what it trusted; after the operation, whose error is all that --json prints.
        print_permissions(new)
    print_json(result)
    output.say(f"trusted: {output.plural(len(new), 'permission')} of {result.project}")


def _print_list(listing: TrustList) -> None:
    print_json(listing)
    rows = [
        (("no", "yes")[permission.trusted], line)
        for permission in listing.permissions
        for line in permission.lines
    ]
    output.table(rows, titles=("TRUSTED", "PERMISSION"), empty="this project has no permissions")
