"""``covalt-git chat replay``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.calls.replay import ReplayNeedsApprovalError
from covalt_git.cli.call import reason_option
from covalt_git.cli.context import ask, can_ask, chat_argument, check_user, print_json
from covalt_git.cli.groups import JsonCommand, wants_json
from covalt_git.cli.terminal import output
from covalt_git.errors import WrongCallError
from covalt_git.json_values import canonical_json
from covalt_git.operations.chats import replays
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.calls.replay import RanAs
    from covalt_git.operations.chats.replays import Replayed


@click.command(cls=JsonCommand)
@chat_argument
@click.argument("call")
@click.option("--keep", "always", is_flag=True, help="Keep the branch, even if nothing differs.")
@click.option("--discard", is_flag=True, help="Keep no branch, even if something differs.")
@click.option("--yes", is_flag=True, help="Approve the call if it needs approval, at a terminal.")
@reason_option
def command(
    chat_id: str,
    call: str,
    *,
    always: bool,
    discard: bool,
    yes: bool,
    reason: str | None,
) -> None:
    """Run a recorded CALL again, and compare the results.

    It runs on the same files, in a separate folder.  If the result or the files differ, the branch
    replay-N has them.  CALL is the id of a call, or of its commit.

    Exits with 1 when something differs, and with 4 when the call needs approval, so that it did not run.

    Example: covalt-git chat replay c1 HEAD
    """
    if always and discard:
        raise WrongCallError("--keep and --discard cannot be combined")
    keep = "always" if always else "never" if discard else "different"
    if yes:
        check_user(
            reason, "a call is approved or denied", elsewhere="open /approvals of the server"
        )
    approve = yes or reason is not None
    replay = _replay(approve=approve, chat_id=chat_id, call_id=call, keep=keep, reason=reason)
    print_json(replay, exit_code=int(not replay.same))
    _print_replay(chat_id, replay)
    if not replay.same:
        raise SystemExit(1)


def _replay(*, approve: bool, **which: str | None) -> Replayed:
    """Replay a call; if it needs approval, ask the user at the terminal.

    If the call or its code changes while the user reads, ask about the new ones.
    """
    approved = None
    while True:
        try:
            return ask(replays.replay_call, **which, approve=approve, approved=approved)
        except ReplayNeedsApprovalError as error:
            # stdout has the JSON only, so a question would be a part of it
            # (test_a_replay_that_needs_approval_asks_only_without_json).
            if wants_json() or not can_ask():
                raise
            if approved is not None:
                output.say("the call or the code has changed since the question", fg="yellow")
            output.fact(error.message, bold=True)
            arguments = canonical_json.dumps(error.arguments).decode()
            output.fact(f"arguments: {display.arguments(arguments)}")
            if not output.confirm("run it again?"):
                raise
            # What HEAD means, or the code, may change while the user reads, so the answer repeats what was shown
            # (test_a_replay_asks_again_if_another_call_is_named_meanwhile).
            approve, approved = True, error.digest


def _print_replay(chat_id: str, replay: Replayed) -> None:
    result = "another result" if replay.differences else "the same result"
    others = bool(replay.changes or replay.empty_folders)
    files = "other files" if others else "the same files"
    output.say(f"{replay.tool_id}: {result}, {files}", fg="green" if replay.same else "red")
    for difference in replay.differences:
        output.say(
            f"  {display.in_line(difference.path)}: {difference.then or 'nothing'} before, {difference.now or 'nothing'} now"
        )
    output.changes(replay.changes)
    for path in replay.empty_folders:
        output.say(f"  only one of the two has the empty folder {display.in_line(path)}")
    if not replay.printed_the_same:
        output.say("its output differs", dim=True)
    if replay.toolset_changed:
        output.say(f"the toolset has changed: {_code(replay.then)} before, {_code(replay.now)} now")
    if replay.then.sandbox != replay.now.sandbox:
        output.say(f"the sandbox level was {replay.then.sandbox} before, {replay.now.sandbox} now")
    for note in replay.missing:
        output.say(
            f"  ! {display.in_line(note.path)} is missing, because no commit contains it: {note.reason}",
            fg="yellow",
        )
    if replay.branch is not None:
        short = replay.original_manifest_id[: output.SHORT]
        output.say(
            f"{replay.branch} keeps it: covalt-git chat diff {chat_id} {short} {replay.branch}"
        )


def _code(ran: RanAs) -> str:
    return f"{ran.toolset.version} {ran.toolset.digest[:19]}"
