"""``covalt-git approval``: the calls that wait for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.calls.approvals import ApprovalRenewedError
from covalt_git.cli.calls import leave
from covalt_git.cli.calls import show as show_call
from covalt_git.cli.context import ask, context, json_option
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.progress import following
from covalt_git.json_values import canonical_json
from covalt_git.operations import approvals
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.operations.approvals import ApprovalRow


@click.group()
def command() -> None:
    """Settle the calls that wait for a person."""


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="List the settled ones as well.")
@json_option
def list_approvals(*, everything: bool, as_json: bool) -> None:
    """List what waits to be approved, oldest first."""
    found = ask(approvals.list_approvals, state="all" if everything else "pending")
    if as_json:
        output.as_json(found)
        return
    for damaged in found.damaged:
        output.damaged(damaged.chat_id, damaged.message, damaged.hint)
    if not found.approvals:
        output.say("nothing waits for approval")
        return
    output.table([_line(one) for one in found.approvals], titles=_TITLES)


@command.command("show")
@click.argument("execution_id")
@json_option
def show(execution_id: str, *, as_json: bool) -> None:
    """Show exactly what would run."""
    approval = ask(approvals.get_approval, execution_id=execution_id)
    if as_json:
        output.as_json(approval)
        return
    where = f"{approval.tool_id} in {approval.chat_id} on {approval.branch}"
    arguments = f"arguments: {canonical_json.dumps(approval.args).decode()}"
    why = f"asked by {approval.by} at {approval.created_at}: {', '.join(approval.reasons)}"
    output.say(display.in_line(where), bold=True)
    output.say(display.in_line(arguments))
    output.say(display.in_line(why))
    decided = f" by {approval.decided_by} at {approval.decided_at}" if approval.decided_by else ""
    output.say(f"{approval.state}{decided}, expires {approval.expires_at}")


@command.command("approve")
@click.argument("execution_id")
@json_option
def approve(execution_id: str, *, as_json: bool) -> None:
    """Approve a call and run it.  The end of its id is enough."""
    followed = following(wanted=None, asks=not as_json)
    context(follower=followed.follower)
    try:
        with followed.running():
            answer = ask(approvals.approve_call, execution_id=execution_id)
    except ApprovalRenewedError as error:
        if not as_json:
            output.changes(error.outcome.changes)
        raise
    output.as_json(answer) if as_json else show_call(followed.rest(answer), opened=False)
    leave(answer)


@command.command("deny")
@click.argument("execution_id")
@json_option
def deny(execution_id: str, *, as_json: bool) -> None:
    """Deny a call; it never runs.  The end of its id is enough."""
    answer = ask(approvals.deny_call, execution_id=execution_id)
    output.as_json(answer) if as_json else show_call(answer, opened=False)


_TITLES = ("APPROVAL", "CHAT", "TOOL", "STATE", "ASKED", "ARGUMENTS")


def _line(approval: ApprovalRow) -> tuple[str, ...]:
    return (
        approval.execution_id,
        approval.chat_id,
        approval.tool_id,
        approval.state,
        approval.created_at,
        canonical_json.dumps(approval.args).decode(),
    )
