"""``covalt-git chat replay``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from covalt_git.cli import output
from covalt_git.cli.context import chat_argument, indexed, json_option, project, waiting, wrong_call
from covalt_git.text import display
from covalt_git.workspaces import commit_names

if TYPE_CHECKING:
    from covalt_git.calls.replay import Keep, Ran, Replay
    from covalt_git.json_values import JsonObject
    from covalt_git.project import Project
    from covalt_git.workspaces.chats import ChatStore


@click.command()
@chat_argument
@click.argument("call")
@click.option("--keep", "kept", is_flag=True, help="Keep the branch, though nothing differs.")
@click.option("--discard", is_flag=True, help="Keep no branch, whatever differs.")
@click.option("--yes", is_flag=True, help="Approve the call where a person has to be asked.")
@json_option
def command(
    chat_id: str, call: str, *, kept: bool, discard: bool, yes: bool, as_json: bool
) -> None:
    """Make a recorded CALL again on the files that it ran on, and tell what comes out differently.

    It runs in a folder of its own, so that yours stays as it is.  Where something differs, a branch
    replay-N keeps it.  CALL is the id of a call, or of the manifest that it made.

    Exits with 1 when the result or the files differ, or when the call has to be approved first.
    """
    if kept and discard:
        raise wrong_call("give one of --keep and --discard")
    keep: Keep = "always" if kept else "never" if discard else "different"
    here = project()
    with here.chats.open(chat_id) as chat:
        try:
            done = _replay(here, chat, call, keep, yes=yes, as_json=as_json)
        finally:
            indexed(here, chat)
        original = chat.manifest(commit_names.resolve(chat, call)).id
    if as_json:
        output.as_json(_json(done))
    else:
        _say(chat_id, original, done)
    if not done.same:
        raise SystemExit(1)


def _replay(
    here: Project, chat: ChatStore, call: str, keep: Keep, *, yes: bool, as_json: bool
) -> Replay:
    """Replay a call; where a person has to be asked, ask the one at this terminal."""
    from covalt_git.calls import replay  # noqa: PLC0415 - other commands of chats make no calls

    engine = here.engine(waiting)
    try:
        return replay.replay(engine, chat, call, approve=yes, keep=keep)
    except replay.AsksFirstError as error:
        if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        output.say(error.message, bold=True)
        if not click.confirm("run it again?"):
            raise
    return replay.replay(engine, chat, call, approve=True, keep=keep)


def _say(chat_id: str, original: str, done: Replay) -> None:
    result = "another answer" if done.differences else "the same answer"
    others = bool(done.changes or done.empty_folders)
    files = "other files" if others else "the same files"
    output.say(f"{done.tool_id}: {result}, {files}", fg="green" if done.same else "red")
    for one in done.differences:
        output.say(
            f"  {display.in_line(one.path)}: {one.then or 'nothing'} then, {one.now or 'nothing'} now"
        )
    output.changes(done.changes)
    for path in done.empty_folders:
        output.say(f"  the empty folder {display.in_line(path)} is there only once")
    if not done.printed_the_same:
        output.say("it printed something else", dim=True)
    if done.then.toolset.digest != done.now.toolset.digest:
        output.say(f"the toolset has changed: {_code(done.then)} then, {_code(done.now)} now")
    if done.then.sandbox != done.now.sandbox:
        output.say(f"the sandbox was {done.then.sandbox} then, {done.now.sandbox} now")
    for note in done.missing:
        output.say(
            f"  ! {display.in_line(note.path)} was there and not stored: {note.reason}", fg="yellow"
        )
    if done.branch is not None:
        short = original[: output.SHORT]
        output.say(f"{done.branch} keeps it: covalt-git chat diff {chat_id} {short} {done.branch}")


def _code(ran: Ran) -> str:
    return f"{ran.toolset.version} {ran.toolset.digest[:19]}"


def _json(done: Replay) -> JsonObject:
    return {
        "call_id": done.call_id,
        "tool_id": done.tool_id,
        "same": done.same,
        "differences": [asdict(one) for one in done.differences],
        "changes": [output.change_json(change) for change in done.changes],
        "empty_folders": list(done.empty_folders),
        "printed_the_same": done.printed_the_same,
        "toolset_changed": done.then.toolset.digest != done.now.toolset.digest,
        "then": _ran_json(done.then),
        "now": _ran_json(done.now),
        "missing": [note.model_dump() for note in done.missing],
        "branch": done.branch,
        "manifest_id": done.manifest_id,
    }


def _ran_json(ran: Ran) -> JsonObject:
    return {"toolset": ran.toolset.model_dump(), "sandbox": ran.sandbox}
