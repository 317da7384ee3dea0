"""``covalt-git script``: scripts that call tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli.approving import print_approval
from covalt_git.cli.context import (
    ask,
    ask_to_print,
    can_ask,
    context,
    print_json,
    read_argument_file,
)
from covalt_git.cli.groups import Group, wants_json
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.progress import following
from covalt_git.errors import NEEDS_APPROVAL, WrongCallError
from covalt_git.json_values import canonical_json
from covalt_git.models.scripts import lines_of
from covalt_git.operations import scripts
from covalt_git.operations.calls import approvals, calls
from covalt_git.serving.server_registry import approval_url
from covalt_git.text import display
from covalt_git.toolsets.builtin_tools import RUN_SCRIPT

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.operations.scripts import ScriptDetail, ScriptRow

script_argument = click.argument("script_id", metavar="SCRIPT")
_TITLES = ("SCRIPT", "CHAT", "STATE", "CALLS", "WAITS FOR", "APPROVAL")
_MARKS = {
    "success": "ok",
    "pending": "waits",
    "running": "runs",
    "begun": "unknown",
}


@click.group(cls=Group)
def command() -> None:
    """Run scripts that call tools, and continue those that wait."""


@command.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--chat", "chat_id", required=True, metavar="CHAT", help="The chat of its calls.")
@click.option(
    "--arg",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="One key of its variable args; repeatable. A value that is JSON is read as JSON.",
)
@click.option(
    "--language",
    type=click.Choice(["python", "javascript"]),
    help="Default: javascript for a file that ends with .js or .mjs, otherwise python.",
)
@click.option("--message", "message_id", metavar="MESSAGE", help="The message it belongs to.")
@click.option(
    "--id", "call_id", metavar="ID", help="Idempotency key, a UUID: it does not start again."
)
def run(
    file: Path,
    *,
    chat_id: str,
    pairs: tuple[str, ...],
    language: str | None,
    **fields: str | None,
) -> None:
    """Run the script FILE, - for standard input, in a sandbox; its calls are checked one by one.

    If a call needs approval, the command prompts at a terminal; otherwise the script waits, also after this
    command has ended, and continues when the call is approved or denied.  Exits with 1 if the script failed,
    and with 4 if it waits.

    Example: covalt-git script run report.py --chat c1 --arg month=may
    """
    followed = following(wanted=None, asks=not wants_json())
    # Before the first operation, which fixes the options of the context.
    context(follower=followed.follower, page=_page)
    args = {
        "script": read_argument_file(file),
        "language": language or _language(file),
        "args": dict(map(_pair, pairs)),
    }
    with followed.running():
        answer = ask(calls.call_tool, chat_id=chat_id, tool_id=RUN_SCRIPT, args=args, **fields)
    detail = ask(scripts.get_script, script_id=answer.id)
    if not wants_json() and can_ask():
        detail = _decide(detail)
    print_json(detail, exit_code=_exit_code(detail))
    _show(detail)
    raise SystemExit(_exit_code(detail))


@command.command("list")
@click.option("--chat", "chat_id", metavar="CHAT", help="Only those of this chat.")
@click.option("--all", "ended", is_flag=True, help="Also the newest ones that have ended.")
def list_scripts(*, chat_id: str | None, ended: bool) -> None:
    """List the scripts that have not ended, oldest first.

    Example: covalt-git script list --all
    """
    listing = ask_to_print(scripts.list_scripts, chat_id=chat_id, ended=ended)
    for damaged in listing.damaged:
        output.damaged(damaged.chat_id, damaged.message, damaged.hint)
    output.table(
        [_line(script) for script in listing.scripts],
        titles=_TITLES,
        empty="no script has run" if ended else "no script waits or runs",
    )


@command.command("show")
@script_argument
def show(script_id: str) -> None:
    """Show a script: its source with its calls, its logs, and its result or what it waits for.

    The beginning or the end of its id is enough, here and for the other commands.

    Example: covalt-git script show 9c11d0e2
    """
    _show(ask_to_print(scripts.get_script, script_id=script_id), source=True)


@command.command("continue")
@script_argument
def continue_script(script_id: str) -> None:
    """Continue a script whose process has ended, such as after a power cut.

    A script that waits for an approval continues by itself after the decision.  Calls that have ended do not
    run again.  Exits as `script run`.

    Example: covalt-git script continue 9c11d0e2
    """
    followed = following(wanted=None, asks=False)
    context(follower=followed.follower)
    with followed.running():
        detail = ask(scripts.continue_script, script_id=script_id)
    print_json(detail, exit_code=_exit_code(detail))
    _show(detail)
    raise SystemExit(_exit_code(detail))


@command.command("cancel")
@script_argument
def cancel(script_id: str) -> None:
    """End a script; the call for which it waits never runs.

    Example: covalt-git script cancel 9c11d0e2
    """
    _show(ask_to_print(scripts.cancel_script, script_id=script_id))


@command.command("replay")
@script_argument
def replay(script_id: str) -> None:
    """Run an ended script against its records, and print the first difference; no call is executed.

    Exits with 1 if something differs.

    Example: covalt-git script replay 9c11d0e2
    """
    replayed = ask(scripts.replay_script, script_id=script_id)
    print_json(replayed, exit_code=int(replayed.divergence is not None))
    if replayed.divergence is None:
        output.say(f"the same: {replayed.calls} calls and the end", fg="green")
        return
    place = f" (line {replayed.line})" if replayed.line is not None else ""
    output.fact(f"differs after {replayed.calls} equal calls{place}: {replayed.divergence}")
    raise SystemExit(1)


@command.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--language",
    type=click.Choice(["python", "javascript"]),
    help="Default: javascript for a file that ends with .js or .mjs, otherwise python.",
)
def check(file: Path, language: str | None) -> None:
    """Check the script FILE, - for standard input, without running it; print what is certainly wrong.

    That is its syntax, Python that scripts cannot use, and unknown paths and names of arguments of calls.
    Exits with 1 if there is a problem.

    Example: covalt-git script check report.py
    """
    text, language = read_argument_file(file), language or _language(file)
    checked = ask(scripts.check_script, script=text, language=language)
    exit_code = int(bool(checked.problems))
    print_json(checked, exit_code=exit_code)
    for problem in checked.problems:
        place = ":".join(str(part) for part in (problem.line, problem.col) if part is not None)
        output.fact(f"{file}:{place} {problem.code}: {problem.message}")
    if not exit_code:
        output.say("no problems", fg="green")
    raise SystemExit(exit_code)


@command.command("stubs")
@click.option("--role", help="The tools of this role; default: the --role of covalt-git.")
@click.option(
    "--language",
    type=click.Choice(["python", "typescript"]),
    default="python",
    show_default=True,
    help="python: a tools.pyi; typescript: declarations for scripts in JavaScript.",
)
def stubs(role: str | None, language: str) -> None:
    """Print declarations of the tools that scripts can call, for editors and type checkers.

    Example: covalt-git script stubs --language typescript
    """
    if role is not None:
        click.get_current_context().find_root().obj["role"] = role
    written = ask_to_print(scripts.get_script_stubs, language=language)
    click.echo(written.text, nl=False)


def _language(file: Path) -> str:
    return "javascript" if file.suffix in {".js", ".mjs"} else "python"


def _page(execution_id: str) -> str | None:
    return approval_url(context().root, execution_id)


def _decide(detail: ScriptDetail) -> ScriptDetail:
    """Ask the user at the terminal about each call for which a script waits."""
    while detail.execution_id is not None:
        approval = ask(approvals.get_approval, execution_id=detail.execution_id)
        if not approval.may_settle:
            break
        print_approval(approval)
        if output.confirm("run it?"):
            ask(approvals.approve_call, execution_id=detail.execution_id)
        else:
            ask(approvals.deny_call, execution_id=detail.execution_id)
        detail = ask(scripts.get_script, script_id=detail.id)
    return detail


def _exit_code(detail: ScriptDetail) -> int:
    if detail.state in {"paused", "running", "interrupted"}:
        return NEEDS_APPROVAL
    return 0 if detail.state == "success" else 1


def _show(detail: ScriptDetail, *, source: bool = False) -> None:
    """Print a script; the source and the texts of the script are quoted, because an agent wrote them."""
    output.fact(
        f"script {detail.id} in {detail.chat_id} on {detail.branch}: {detail.state}", bold=True
    )
    if source:
        marks: dict[int, list[str]] = {}
        for call in detail.lines:
            marks.setdefault(call.line or 0, []).append(_MARKS.get(call.status, call.status))
        for number, line in enumerate(lines_of(detail.source), 1):
            states = ", ".join(dict.fromkeys(marks.get(number, ())))
            output.fact(f"{number:4} {states:8} {display.in_line(line)}")
    for log in detail.result["logs"]:
        output.quote(f"{log['level']}: {log['message']}")
    for call in detail.lines:
        place = f" (line {call.line})" if call.line is not None else ""
        waived = f", allowed by {call.waived_by}" if call.waived_by else ""
        output.fact(f"{_MARKS.get(call.status, call.status)}: {call.path}{place}{waived}")
    for allowance in detail.allowances:
        same = f" with the same {', '.join(allowance.same)}" if allowance.same else ""
        output.fact(
            f"{allowance.decided_by} allowed {allowance.left} more calls of {allowance.tool_id}{same}"
        )
    if detail.execution_id is not None:
        # In one line, escaped: a toolset wrote the question.
        output.fact(detail.result["paused"]["message"])
        output.say(
            "  a user approves or denies it at a terminal or in the browser: "
            f"covalt-git approval approve {detail.execution_id}"
        )
    elif detail.state == "interrupted":
        output.say(f"its process has ended: covalt-git script continue {detail.id}")
    if (error := detail.result.get("error")) is not None:
        place = f" (line {error['line']})" if error.get("line") else ""
        output.say(display.in_line(f"{error['code']}{place}: {error['message']}"), fg="red")
    elif detail.state == "success":
        output.as_json(detail.result["value"])


def _line(script: ScriptRow) -> tuple[str, ...]:
    return (
        script.id,
        script.chat_id,
        script.state,
        str(script.calls),
        script.waits_for or "-",
        script.execution_id or "-",
    )


def _pair(pair: str) -> tuple[str, JsonObject | str]:
    name, separator, value = pair.partition("=")
    if not separator:
        raise WrongCallError(f"--arg takes NAME=VALUE, not {pair!r}")
    try:
        return name, canonical_json.loads(value)
    except canonical_json.NotJsonError:
        return name, value
