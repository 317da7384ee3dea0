"""Call by a command: its arguments, the prompt for an approval, and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from covalt_git.cli.approving import print_approval
from covalt_git.cli.context import ask, can_ask, context, print_json, read_argument_file
from covalt_git.cli.groups import wants_json
from covalt_git.cli.terminal import output, result_text
from covalt_git.cli.terminal.progress import following
from covalt_git.errors import NEEDS_APPROVAL, WrongCallError
from covalt_git.json_values import canonical_json
from covalt_git.operations.calls import approvals, calls
from covalt_git.text import display

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.operations.calls.calls import CallAnswer


def make(
    tool_id: str,
    *,
    args: str,
    pairs: tuple[str, ...],
    args_file: Path | None,
    follow: bool | None,
    yes: bool,
    reason: str | None,
    opened: bool,
    **fields: str | None,
) -> None:
    """Make a call and print its result; exits with :func:`exit_code`.

    ``fields`` are the chat, the message and the id of the call.  A call that needs approval is approved with ``yes`` or for a ``reason``.
    """
    followed = following(wanted=follow, asks=not wants_json())
    # Before the first operation, which fixes the options of the context.
    context(follower=followed.follower)
    given = _arguments(tool_id, args, pairs, args_file)
    with followed.running():
        answer = ask(calls.call_tool, tool_id=tool_id, args=given, **fields)
    if answer.status == "pending" and not followed.is_cancelled:
        says = "yes" if yes or reason is not None else _ask_user(answer)
        if says == "no":
            answer = ask(approvals.deny_call, execution_id=answer.execution_id)
        if says == "yes":
            with followed.running():
                answer = ask(
                    approvals.approve_call, execution_id=answer.execution_id, reason=reason
                )
    print_json(answer, exit_code=exit_code(answer))
    show(followed.rest(answer), opened=opened)
    raise SystemExit(exit_code(answer))


def exit_code(answer: CallAnswer) -> int:
    """Return 0 after success, 4 if the call is pending, 130 if the user cancelled it, otherwise 1."""
    if answer.status == "success":
        return 0
    if answer.status == "pending":
        return NEEDS_APPROVAL
    return 130 if answer.error_detail and answer.error_detail.code == "cancelled" else 1


def show(answer: CallAnswer, *, opened: bool) -> None:
    """Print a call as text."""
    if answer.repeated:
        output.say(f"the call {answer.id} was made before, so nothing ran now", dim=True)
    if answer.status == "pending":
        reasons = display.in_line(", ".join(answer.reasons))
        output.say(f"{answer.tool_id} needs approval: {reasons}")
        output.say(
            "  a user approves or denies it at a terminal or in the browser: "
            f"covalt-git approval approve {answer.execution_id}"
        )
        return
    colour = "green" if answer.status == "success" else "red"
    output.say(f"{answer.tool_id} {answer.status}", fg=colour)
    if answer.sandbox == "process":
        output.say("  it ran without a sandbox", fg="yellow")
    output.changes(answer.changes)
    output.notes(answer.notes)
    if answer.store_warning:
        output.say(answer.store_warning, fg="yellow", err=True)
    plan = answer.render_plan if opened else None
    commit = answer.post_manifest_id or ""
    rest = result_text.show_command(answer.chat_id, commit) if commit else "add --json"
    has_failed = answer.status != "success"
    # Before the output, which may fill the terminal
    # (test_the_error_comes_before_the_first_and_last_lines_that_were_printed).
    if answer.error_detail is not None:
        result_text.error(answer.error_detail, rest, err=True)
    if has_failed:
        result_text.answered(answer.result, rest, err=True)
        result_text.printed(answer.output, rest, err=True)
    # A built-in tool, whose calls are not recorded, so no commit has the rest of the result.
    if answer.post_manifest_id is None:
        output.as_json(answer.result)
        return
    if plan is not None:
        result_text.plan(answer.chat_id, answer.post_manifest_id, plan)
    elif answer.status == "success":
        result_text.result(answer.chat_id, answer.post_manifest_id, answer.result)
    if not has_failed:
        result_text.printed(answer.output, rest)
    output.say(f"{answer.post_manifest_id[: output.SHORT]} on {answer.active_branch}", dim=True)


def _ask_user(answer: CallAnswer) -> Literal["yes", "no", "nothing"]:
    """Return the user's decision about a call; ``nothing`` if no user is at a terminal."""
    # stdout has the JSON only, so a question would be a part of it.
    if wants_json() or not can_ask():
        return "nothing"
    print_approval(ask(approvals.get_approval, execution_id=answer.execution_id))
    return "yes" if output.confirm("run it?") else "no"


def _arguments(tool_id: str, text: str, pairs: tuple[str, ...], file: Path | None) -> JsonObject:
    if file is not None:
        if text:
            raise WrongCallError("use either ARGS or --args-file, not both")
        text = read_argument_file(file)
    try:
        given = canonical_json.loads(text) if text.strip() else {}
    except canonical_json.NotJsonError as error:
        if error.hint:
            raise WrongCallError(
                f"the arguments are not JSON: {error.message}", hint=error.hint
            ) from None
        raise WrongCallError(
            f"the arguments are not JSON: {error.message}; "
            'write them as \'{"path": "index.html"}\' or with --arg path=index.html'
        ) from None
    if not isinstance(given, dict):
        raise WrongCallError('the arguments are a JSON object, such as \'{"path": "index.html"}\'')
    texts = dict(map(_pair, pairs))
    if texts:
        given |= ask(calls.convert_arguments, tool_id=tool_id, texts=texts).args
    return given


def _pair(pair: str) -> tuple[str, str]:
    name, separator, value = pair.partition("=")
    if not separator:
        raise WrongCallError(f"--arg takes NAME=VALUE, not {pair!r}")
    return name, value
