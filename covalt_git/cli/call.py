"""``covalt-git call``: the command line; :mod:`covalt_git.cli.calls` makes the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from covalt_git.cli.groups import JsonCommand
from covalt_git.errors import UnknownNameError, WrongCallError
from covalt_git.runtime import sandbox_levels

reason_option = click.option(
    "--no-terminal",
    "reason",
    metavar="REASON",
    help="Decide without a terminal; REASON is recorded.",
)


@click.command(cls=JsonCommand)
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
@click.option(
    "--message",
    "message_id",
    metavar="MESSAGE",
    help="The message of the chat that the call belongs to.",
)
@click.option(
    "--id",
    "call_id",
    metavar="ID",
    help="Idempotency key, a UUID: a call with the same id does not run again.",
)
@click.option(
    "--follow/--no-follow",
    default=None,
    help="Show progress and logs while it runs; the default at a terminal, except for a batch.",
)
@click.option(
    "--batch",
    type=click.Path(path_type=Path),
    metavar="FILE.jsonl",
    help='Make the calls of a file, - for standard input; each line is {"tool": ..., "args": ...}.',
)
@click.option(
    "--keep-going/--stop",
    default=False,
    help="Continue a batch after a call that failed or is pending; by default it stops there.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file with an access token of an issuer, for tools that require one.",
)
@click.option("--yes", is_flag=True, help="At a terminal, approve the call without asking.")
@reason_option
@click.option("--open", "opened", is_flag=True, help="Show the result with the tool's renderer.")
def command(
    chat_id: str | None,
    tool_id: str | None,
    *,
    batch: Path | None,
    keep_going: bool,
    follow: bool | None,
    yes: bool,
    reason: str | None,
    opened: bool,
    token_file: Path | None,
    **arguments: Any,
) -> None:
    """Call TOOL in CHAT with ARGS, a JSON object.

    If the call needs approval, the command prompts at a terminal; otherwise the call is pending, see
    `covalt-git approval list`.  A script approves it with --no-terminal and a reason.  Questions of the
    tool are also prompted at a terminal; otherwise, and with --json, they are not answered.  Ctrl-C
    cancels the call, which is still recorded.  Exits with 1 if the call failed, with 4 if it is pending,
    and with 130 after Ctrl-C.

    With --batch, the calls of a file are made in order, in CHAT if a line has no "chat"; a line may
    also have "id" and "message".  All lines are checked before the first call: exits with 2 if one is
    invalid.  With ids, a stopped batch continues when it is started again.  Exits with 4 if calls are
    pending and none failed.

    Example: covalt-git call c1 data-lab:summarize --arg path=weather.csv
    """
    if batch is not None:
        if tool_id or opened or any(arguments.values()):
            raise WrongCallError("--batch cannot be combined with TOOL or arguments")
    elif chat_id is None or tool_id is None:
        raise WrongCallError("name a chat and a tool: covalt-git call CHAT TOOL")
    sandbox_levels.begin()
    # The fork server starts in parallel, and takes as long as these imports.
    from covalt_git.cli import call_batch, calls, context  # noqa: PLC0415

    if token_file is not None:
        context.use_token(token_file)
    # Before the call is made: after it, a refused --yes would leave a pending call.
    if yes:
        context.check_user(
            reason, "a call is approved or denied", elsewhere="open /approvals of the server"
        )
    if batch is not None:
        code = call_batch.run(
            batch,
            chat_id=chat_id,
            yes=yes,
            reason=reason,
            keep_going=keep_going,
            follow=follow or False,
        )
        raise SystemExit(code)
    assert chat_id is not None
    assert tool_id is not None
    try:
        calls.make(
            tool_id,
            chat_id=chat_id,
            follow=follow,
            yes=yes,
            reason=reason,
            opened=opened,
            **arguments,
        )
    except UnknownNameError as error:
        if ":" in chat_id:  # only the id of a tool has one
            error.hint = f"the order is CHAT TOOL: covalt-git call {tool_id} {chat_id}"
        raise
