"""``covalt-git approval``: the calls that wait for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from covalt_git.calls.approvals import ApprovalRenewedError
from covalt_git.cli import output
from covalt_git.cli.call import leave
from covalt_git.cli.call import show as show_call
from covalt_git.cli.context import indexed, json_option, project, synced, waiting
from covalt_git.cli.progress import following
from covalt_git.json_values import canonical_json
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.project import Project


@click.group()
def command() -> None:
    """Settle the calls that wait for a person."""


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="List the settled ones as well.")
@json_option
def list_approvals(*, everything: bool, as_json: bool) -> None:
    """List what waits to be approved, oldest first."""
    opened = project()
    with opened.index() as index:
        synced(index)
        rows = index.approvals(None if everything else "pending")
    rows = [row for row in rows if opened.approvals().exists(row["tool_id"])]
    if as_json:
        output.as_json(rows)
    elif not rows:
        output.say("nothing waits for approval")
    else:
        output.table([_line(row) for row in rows], titles=_TITLES)


@command.command("show")
@click.argument("execution_id")
@json_option
def show(execution_id: str, *, as_json: bool) -> None:
    """Show exactly what would run."""
    approval = project().approvals().find(execution_id)
    if as_json:
        output.as_json(approval.model_dump(mode="json"))
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
    opened = project()
    try:
        with following(wanted=None, asks=not as_json) as followed:
            outcome = opened.approvals(waiting, followed.follower).approve(execution_id)
    except ApprovalRenewedError as error:
        if not as_json:
            output.changes(error.outcome.changes)
        raise
    _print(opened, followed.rest(outcome), as_json=as_json)
    leave(outcome)


@command.command("deny")
@click.argument("execution_id")
@json_option
def deny(execution_id: str, *, as_json: bool) -> None:
    """Deny a call; it never runs.  The end of its id is enough."""
    opened = project()
    outcome = opened.approvals(waiting).deny(execution_id)
    _print(opened, outcome, as_json=as_json)


def _print(opened: Project, outcome: CallOutcome, *, as_json: bool) -> None:
    with opened.chats.open(outcome.call.chat_id) as chat:
        indexed(opened, chat)
        if as_json:
            output.as_json(outcome.as_json())
        else:
            show_call(chat, outcome, opened=False)


_TITLES = ("APPROVAL", "CHAT", "TOOL", "STATE", "ASKED", "ARGUMENTS")


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["execution_id"],
        row["chat_id"],
        row["tool_id"],
        row["state"],
        row["created_at"],
        canonical_json.dumps(row["args"]).decode(),
    )
