"""``covalt-git approval``: calls that need a user's approval."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from covalt_git.calls.approvals import ApprovalRenewedError
from covalt_git.calls.script_place import OtherBranchError
from covalt_git.cli.approving import print_approval
from covalt_git.cli.call import reason_option
from covalt_git.cli.calls import exit_code
from covalt_git.cli.calls import show as show_call
from covalt_git.cli.context import ask, ask_to_print, check_user, context, print_json
from covalt_git.cli.groups import Group, wants_json
from covalt_git.cli.terminal import keys, output
from covalt_git.cli.terminal.progress import following
from covalt_git.errors import NEEDS_APPROVAL, CovaltError, WrongCallError
from covalt_git.json_values import canonical_json
from covalt_git.models.scripts import MOST_ALLOWED
from covalt_git.operations.calls import approvals
from covalt_git.operations.chats import branches
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.operations.calls.approvals import ApprovalRow


@click.group(cls=Group)
def command() -> None:
    """List, approve and deny calls that need approval."""


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also decided and expired calls.")
def list_approvals(*, everything: bool) -> None:
    """List pending calls, oldest first.

    Example: covalt-git approval list
    """
    listing = ask_to_print(approvals.list_approvals, state="all" if everything else "pending")
    for damaged in listing.damaged:
        output.damaged(damaged.chat_id, damaged.message, damaged.hint)
    rows = [_line(approval) for approval in listing.approvals]
    output.table(rows, titles=_TITLES, empty="no call is pending approval")


@command.command("show")
@click.argument("execution_id")
def show(execution_id: str) -> None:
    """Show exactly what would run: the tool, its arguments, and what has changed since.

    The end of an id is enough.

    Example: covalt-git approval show 9c11d0e2
    """
    approval = ask_to_print(approvals.get_approval, execution_id=execution_id)
    print_approval(approval)
    decided = f" by {approval.decided_by} at {approval.decided_at}" if approval.decided_by else ""
    output.say(f"{approval.state}{decided}, expires {approval.expires_at}")
    if approval.decision_reason:
        output.say(display.in_line(f"reason: {approval.decision_reason}"))


@command.command("approve")
@click.argument("execution_id")
@reason_option
@click.option("--yes", is_flag=True, help="At a terminal, do not ask.")
@click.option(
    "--next",
    "next_calls",
    type=click.IntRange(1, MOST_ALLOWED),
    metavar="N",
    help="Allow the next N calls of this tool in the same script too.",
)
@click.option(
    "--same",
    multiple=True,
    metavar="NAME",
    help="With --next: this argument must stay as it is; repeatable.",
)
def approve(
    execution_id: str,
    *,
    reason: str | None,
    yes: bool,
    next_calls: int | None,
    same: tuple[str, ...],
) -> None:
    """Approve a call and run it.

    Prints what would run, and asks you to confirm.  The end of an id is enough.  A script without a
    terminal states the reason with --no-terminal.  Exits as `call`: with 4 if the call is still pending.

    If a script made the call, the script continues in this process.  The user that runs a script cannot
    allow its next calls; another role can.

    Example: covalt-git approval approve 9c11d0e2
    """
    if same and next_calls is None:
        raise WrongCallError("--same needs --next")
    followed = following(wanted=None, asks=not wants_json())
    # Before the first operation, which fixes the options of the context.
    context(follower=followed.follower)
    if reason is None:
        # Before the terminal is missed: a script that misspelt the id has to correct that first.
        approval = ask(approvals.get_approval, execution_id=execution_id)
        check_user(
            reason, "a call is approved or denied", elsewhere="open /approvals of the server"
        )
        if not yes:
            print_approval(approval)
            other = approval.state == "pending" and approval.active_branch != approval.branch
            switch = f"the branch {approval.active_branch!r} is active; switch to {approval.branch!r} and approve it?"
            if not output.confirm(switch if other else "approve it?"):
                output.say("it is still pending")
                raise SystemExit(NEEDS_APPROVAL)
            if other:
                # A call runs on its own branch only, so the approval would be refused.
                ask(branches.switch_branch, chat_id=approval.chat_id, branch=approval.branch)
    try:
        with followed.running():
            answer = ask(
                approvals.approve_call,
                execution_id=execution_id,
                reason=reason,
                next_calls=next_calls,
                same=same,
            )
    except ApprovalRenewedError as error:
        if not wants_json():
            output.changes(error.outcome.changes)
        raise
    except OtherBranchError as error:
        error.hint += f" && covalt-git approval approve {execution_id}"
        raise
    print_json(answer, exit_code=exit_code(answer))
    show_call(followed.rest(answer), opened=False)
    raise SystemExit(exit_code(answer))


@command.command("deny")
@click.argument("execution_id")
@reason_option
def deny(execution_id: str, *, reason: str | None) -> None:
    """Deny a call, which then never runs.

    The end of an id is enough.  A script without a terminal states the reason with --no-terminal.

    Example: covalt-git approval deny 9c11d0e2
    """
    if reason is None:
        # Before the terminal is missed: a script that misspelt the id has to correct that first.
        ask(approvals.get_approval, execution_id=execution_id)
        check_user(
            reason, "a call is approved or denied", elsewhere="open /approvals of the server"
        )
    show_call(
        ask_to_print(approvals.deny_call, execution_id=execution_id, reason=reason), opened=False
    )


@command.command("watch")
@click.option("--once", is_flag=True, help="End when no call is pending.")
def watch(*, once: bool) -> None:
    """Wait for pending calls, and approve or deny each with one key.

    Shows what would run, with all arguments.  Keys: a approves and runs the call, d denies it and asks for a reason that
    the caller gets, s skips it, q ends the command.  Keys that you type before the line with the keys appears are discarded.

    Example: covalt-git approval watch
    """
    check_user(None, "a call is approved or denied", elsewhere="open /approvals of the server")
    skipped: set[str] = set()
    while True:
        pending = [
            approval.execution_id
            for approval in ask(approvals.list_approvals, state="pending").approvals
            if approval.execution_id not in skipped
        ]
        for execution_id in pending:
            skipped.add(execution_id)
            try:
                if not _decide_by_key(execution_id):
                    return
            except (
                CovaltError
            ) as error:  # such as of a call that another user has just decided about
                output.error(error, as_json=False)
        if not pending and once:
            output.say("no call is pending approval")
            return
        if not pending:
            output.move("waiting for calls; Ctrl-C ends")
            time.sleep(_POLL_S)
            output.move()


def _decide_by_key(execution_id: str) -> bool:
    """Show a pending call, and do what the next key says; return False if the user ends the command."""
    print_approval(ask(approvals.get_approval, execution_id=execution_id))
    # A key that was typed before the call appeared, or as it did, must not decide about it.
    with keys.single_keys():
        keys.discard_until_quiet()
        output.say("a: approve   d: deny   s: skip   q: quit")
        key = ""
        while key not in {"a", "d", "s", "q"}:
            key = keys.read_key().lower()
    if key == "a":
        show_call(ask(approvals.approve_call, execution_id=execution_id), opened=False)
    elif key == "d":
        reason = click.prompt(
            "reason for the caller (may be empty)", default="", show_default=False
        )
        denied = ask(approvals.deny_call, execution_id=execution_id, reason=reason or None)
        show_call(denied, opened=False)
    return key != "q"


_POLL_S = 1.0
"""Seconds between two readings of the pending calls."""

_TITLES = ("APPROVAL", "CHAT", "TOOL", "STATE", "ASKED", "ARGUMENTS")


def _line(approval: ApprovalRow) -> tuple[str, ...]:
    return (
        approval.execution_id,
        approval.chat_id,
        approval.tool_id,
        approval.state,
        approval.created_at,
        display.arguments(canonical_json.dumps(approval.args).decode()),
    )
