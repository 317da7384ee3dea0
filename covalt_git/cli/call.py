"""``covalt-git call``: the command line; :mod:`covalt_git.cli.calls` makes the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from covalt_git.errors import WrongCallError
from covalt_git.runtime import pool

reason_option = click.option(
    "--no-terminal",
    "reason",
    metavar="REASON",
    help="Decide without a terminal; REASON is recorded.",
)


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
@click.option("--yes", is_flag=True, help="At a terminal, approve the call without asking.")
@reason_option
@click.option(
    "--open", "opened", is_flag=True, help="Show the result as the tool's author meant it."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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
    as_json: bool,
    **given: Any,
) -> None:
    """Call TOOL in CHAT with ARGS, a JSON object.

    A call that needs approval asks at a terminal; elsewhere it waits, see `covalt-git approval list`.
    A script approves it with --no-terminal and a reason.  What the tool itself asks is asked at a
    terminal, too; elsewhere, and with --json, nobody answers it.  Ctrl-C cancels the call, which is
    recorded all the same.  Exits with 1 when the call failed or waits, and with 130 when Ctrl-C ended
    it.

    With --batch, the calls of a file are made in order, in CHAT where a line has no "chat"; a line may
    also have "id" and "message".  All lines are checked before anything runs: exits with 2 where
    one is wrong.  With ids, a batch that stopped goes on when it is started again.
    """
    if batch is not None:
        if tool_id or opened or any(given.values()):
            raise WrongCallError("with --batch the lines of the file say what is called")
    elif chat_id is None or tool_id is None:
        raise WrongCallError("name a chat and a tool: covalt-git call CHAT TOOL")
    pool.shared().start()
    # The process that tools are forked from takes as long to start as these imports.
    from covalt_git.cli import approving, call_batch, calls  # noqa: PLC0415

    if yes:
        approving.check_user(reason)
    if batch is not None:
        code = call_batch.run(
            batch,
            chat_id=chat_id,
            yes=yes,
            reason=reason,
            keep_going=keep_going,
            follow=follow or False,
            as_json=as_json,
        )
        raise SystemExit(code)
    assert chat_id is not None
    assert tool_id is not None
    calls.make(
        chat_id,
        tool_id,
        follow=follow,
        yes=yes,
        reason=reason,
        opened=opened,
        as_json=as_json,
        **given,
    )
