"""``covalt-git call``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from covalt_git.calls.engine import Request
from covalt_git.cli import call_batch, output, result_text
from covalt_git.cli.context import given_text, indexed, json_option, project, waiting, wrong_call
from covalt_git.cli.progress import following
from covalt_git.json_values import canonical_json
from covalt_git.models.calls import RenderPlan
from covalt_git.runtime import python_tool
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import Approval
    from covalt_git.workspaces.chats import ChatStore


@click.command()
@click.argument("chat_id", metavar="[CHAT]", required=False)
@click.argument("tool_id", metavar="[TOOL]", required=False)
@click.argument("args", metavar="[ARGS]", default="")
@click.option(
    "--arg", "pairs", multiple=True, metavar="NAME=VALUE", help="One argument; repeatable."
)
@click.option(
    "--args-file",
    type=click.Path(path_type=Path),
    help="Read ARGS from a file, - for standard input.",
)
@click.option("--message", metavar="MESSAGE", help="The message of the chat that it is made for.")
@click.option(
    "--id",
    "call_id",
    metavar="ID",
    help="The call's id: made again under it, it does not run again.",
)
@click.option(
    "--follow/--no-follow",
    default=None,
    help="Show progress and logs while it runs; at a terminal it does so by itself, but for a batch.",
)
@click.option(
    "--batch",
    type=click.Path(path_type=Path),
    metavar="FILE.jsonl",
    help='Make the calls of a file, - for standard input: a line each, {"tool": ..., "args": ...}.',
)
@click.option(
    "--keep-going/--stop",
    default=False,
    help="In a batch, go on behind a call that failed or waits; it stops there by itself.",
)
@click.option("--yes", is_flag=True, help="Approve the call where a person has to be asked.")
@click.option(
    "--open", "opened", is_flag=True, help="Show the result as the tool's author meant it."
)
@json_option
def command(
    chat_id: str | None,
    tool_id: str | None,
    args: str,
    pairs: tuple[str, ...],
    args_file: Path | None,
    message: str | None,
    call_id: str | None,
    *,
    follow: bool | None,
    batch: Path | None,
    keep_going: bool,
    yes: bool,
    opened: bool,
    as_json: bool,
) -> None:
    """Call TOOL in CHAT with ARGS, a JSON object.

    A call that a person has to approve asks at a terminal; elsewhere it waits, see `covalt-git
    approval list`.  What the tool itself asks is asked at a terminal, too; elsewhere, and with --json,
    nobody answers it.  Ctrl-C cancels the call, which is recorded all the same.  Exits with 1 when the
    call failed or waits, and with 130 when Ctrl-C ended it.

    With --batch, the calls of a file are made in order, in CHAT where a line has no "chat"; a line may
    also have "id" and "message".  All lines are checked before anything runs: exits with 2 where
    one is wrong.  With ids, a batch that stopped goes on when it is started again.
    """
    if batch is not None:
        if tool_id or args or pairs or args_file or message or call_id or opened:
            raise wrong_call("with --batch the lines of the file say what is called")
        python_tool.prepare(Path(sys.executable))
        raise SystemExit(
            call_batch.run(
                project(),
                batch,
                chat_id=chat_id,
                yes=yes,
                keep_going=keep_going,
                follow=follow,
                as_json=as_json,
            )
        )
    if chat_id is None or tool_id is None:
        raise wrong_call("name a chat and a tool: covalt-git call CHAT TOOL")
    python_tool.prepare(Path(sys.executable))  # which takes as long as all up to the run
    here = project()
    with here.chats.open(chat_id) as chat:
        found = here.catalog.find(tool_id)
        given = _arguments(args, pairs, args_file, found.tool.input_schema)
        asked = Request(found.tool.tool_id, given, message, call_id)
        with following(wanted=follow, asks=not as_json) as followed:
            outcome = here.engine(waiting, followed.follower).call(chat, asked)
        if (approval := outcome.approval) is not None and not followed.is_cancelled:
            says = _says(approval, yes=yes, as_json=as_json)
            if says == "no":
                outcome = here.approvals(waiting).deny(approval.execution_id)
            if says == "yes":
                with following(wanted=follow, asks=not as_json) as followed:
                    approvals = here.approvals(waiting, followed.follower)
                    outcome = approvals.approve(approval.execution_id)
        indexed(here, chat)
        if as_json:
            output.as_json(outcome.as_json())
        else:
            show(chat, followed.rest(outcome), opened=opened)
    leave(outcome)


def leave(outcome: CallOutcome) -> None:
    """End with 1 where the call failed or waits, with 130 where a person stopped it."""
    if outcome.call.status != "success":
        stopped = outcome.error is not None and outcome.error.code == "cancelled"
        raise SystemExit(130 if stopped else 1)


def show(chat: ChatStore, outcome: CallOutcome, *, opened: bool) -> None:
    """Print a call for people."""
    call = outcome.call
    if outcome.repeated:
        output.say(f"the call {call.id} was made before, so nothing ran now", dim=True)
    if outcome.approval is not None:
        reasons = display.in_line(", ".join(outcome.approval.reasons))
        output.say(f"{call.tool_id} waits for a person: {reasons}")
        output.say(f"  covalt-git approval approve {outcome.approval.execution_id}")
        return
    output.say(f"{call.tool_id} {call.status}", fg="green" if call.status == "success" else "red")
    output.changes(outcome.changes)
    output.notes(outcome.notes)
    shows_plan = opened and call.render_plan is not None
    if outcome.output and call.status != "success" and not shows_plan:
        output.say(outcome.output.rstrip("\n"), prose=True, err=True)
    if outcome.error is not None:
        output.say(str(outcome.error), fg="red", err=True)
        for line in outcome.error.traceback.splitlines():
            output.say(f"  {line}", err=True, dim=True)
        if outcome.error.hint:
            output.say(f"  hint: {outcome.error.hint}", err=True)
    assert call.post_manifest_id is not None
    manifest = chat.manifest(call.post_manifest_id)
    if opened and call.render_plan is not None:
        if outcome.output:
            output.say(outcome.output.rstrip("\n"), prose=True)
        result_text.plan(chat.id, manifest.id, RenderPlan.model_validate(call.render_plan))
    elif call.status == "success":
        result_text.result(call.result, outcome.output)
    output.say(f"{call.post_manifest_id[: output.SHORT]} on {chat.active_branch()}", dim=True)


def _says(approval: Approval, *, yes: bool, as_json: bool) -> Literal["yes", "no", "nothing"]:
    """Return what the person at this terminal says to the call, if there is one."""
    if yes:
        return "yes"
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "nothing"
    arguments = canonical_json.dumps(approval.args).decode()
    output.say(display.in_line(f"{approval.tool_id} with {arguments}"), bold=True)
    output.say(display.in_line(", ".join(approval.reasons)))
    return "yes" if click.confirm("run it?") else "no"


def _arguments(
    text: str, pairs: tuple[str, ...], file: Path | None, schema: JsonObject
) -> JsonObject:
    if file is not None:
        if text:
            raise wrong_call("give the arguments once: as ARGS or with --args-file")
        text = given_text(file)
    try:
        given = canonical_json.loads(text) if text.strip() else {}
    except canonical_json.NotJsonError as error:
        raise wrong_call(
            f"the arguments are not JSON: {error.message}; "
            'write them as \'{"path": "index.html"}\' or with --arg path=index.html'
        ) from None
    if not isinstance(given, dict):
        raise wrong_call('the arguments are a JSON object, such as \'{"path": "index.html"}\'')
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found:
            raise wrong_call(f"--arg takes NAME=VALUE, not {pair!r}")
        given[name] = _value(value, schema.get("properties", {}).get(name, {}))
    return given


def _value(text: str, schema: Any) -> Any:
    """Return an argument from the command line: JSON, unless its schema wants a text."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "string":
        return text
    try:
        return canonical_json.loads(text)
    except canonical_json.NotJsonError:
        return text
