"""``covalt-git policy``: what the roles and rules of ``covalt.yaml`` decide, and why."""

from __future__ import annotations

from typing import Any

import click

from covalt_git.cli.context import ask_to_print, context
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.problem_text import print_problems
from covalt_git.errors import WrongCallError
from covalt_git.json_values import canonical_json
from covalt_git.operations import policy

_TITLES = ("ROLE", "SEES", "CALLS", "APPROVAL", "APPROVES")


@click.group(cls=Group)
def command() -> None:
    """Explain and test what the roles and rules of covalt.yaml decide."""


@command.command("explain")
@click.argument("tool")
@click.option("--role", "other", help="Explain a call of this role.")
@click.option(
    "--args", "text", help="Arguments of the call, as a JSON object; default: any arguments."
)
def explain(tool: str, other: str | None, text: str | None) -> None:
    """Explain what is decided about a call of TOOL; nothing runs.

    Prints each line of each file that took part, in the order of the decision.  The line that decides is marked with *.

    Example: covalt-git policy explain app-builder:read_file --args '{"path": "a.env"}'
    """
    args = None if text is None else _arguments(text)
    answer = ask_to_print(policy.explain_policy, tool_id=tool, role=other, args=args)
    role = f" of the role {answer.role!r}" if answer.role else ""
    reasons = f": {'; '.join(answer.reasons)}" if answer.reasons else ""
    output.say(f"a call{role} {_WORDS[answer.decision]}{reasons}")
    for line in answer.lines:
        output.say(f"{'*' if line.decides else ' '} {line}: {line.words}")


_WORDS = {
    "hidden": "is refused, because the tool is hidden",
    "invalid": "is refused, because its arguments are invalid",
    "denied": "is denied",
    "asks": "requires approval",
    "runs": "runs",
    "depends": "depends on its arguments",
}


@command.command("who")
@click.argument("tool")
def who(tool: str) -> None:
    """List the roles that see, call and approve TOOL, and whether their calls require approval.

    Example: covalt-git policy who app-builder:write_file
    """
    listing = ask_to_print(policy.list_tool_roles, tool_id=tool)
    output.table([_row(role) for role in listing.roles], titles=_TITLES, empty="")


@command.command("test")
@click.option(
    "--history",
    type=click.IntRange(min=1),
    help="List those of the last N recorded calls that a git revision decides otherwise.",
)
@click.option("--with", "revision", help="Revision for --history; default: HEAD.")
@click.option("--role", "other", help="Role of the recorded calls, which records do not have.")
def test(history: int | None, revision: str | None, other: str | None) -> None:
    """Run the cases of policy_tests.yaml; no tool runs.  Exits with 1 if one fails.

    With --history, list the recorded calls that the rules of a git revision and the current ones decide differently.

    Example: covalt-git policy test
    """
    if history is not None:
        _print_history(history, revision or "HEAD", other)
        return
    if revision is not None or other is not None:
        raise WrongCallError("--with and --role need --history N")
    answer = ask_to_print(policy.run_policy_tests)
    print_problems(answer.problems, context().root)
    for rule in answer.unreached:
        subject = "no case reaches"
        if answer.calls:
            recorded = output.plural(answer.calls, "recorded call")
            subject = f"no case and {rule.calls} of {recorded} reach"
        output.say(f"{rule}: {subject} this rule")
    failed = f", {len(answer.problems)} failed" if answer.problems else ""
    output.say(f"{output.plural(answer.cases, 'case')}{failed}")
    if answer.problems:
        raise SystemExit(1)


def _print_history(history: int, revision: str, role: str | None) -> None:
    answer = ask_to_print(policy.compare_policy, history=history, revision=revision, role=role)
    for call in answer.changed:
        reasons = f": {'; '.join(call.reasons)}" if call.reasons else ""
        output.say(
            f"{call.chat_id} {call.call_id} {call.tool_id}: {call.revision} at {revision},"
            f" now {call.files}{reasons}"
        )
    skipped = f"; {answer.skipped} of tools that do not exist any more" if answer.skipped else ""
    changed = len(answer.changed)
    output.say(f"{changed} of {output.plural(answer.calls, 'call')} decided otherwise{skipped}")


def _row(role: policy.RoleOfTool) -> tuple[str, ...]:
    calls = "no"
    if role.calls:
        calls = "some" if role.denied else "yes"
    return (
        role.role or "(no role)",
        "yes" if role.sees else "no",
        calls,
        role.asked if role.calls else "-",
        "yes" if role.approves else "no",
    )


def _arguments(text: str) -> dict[str, Any]:
    try:
        args = canonical_json.loads(text)
    except canonical_json.NotJsonError as error:
        raise WrongCallError(f"--args is not JSON: {error}") from None
    if not isinstance(args, dict):
        raise WrongCallError('--args must be a JSON object, such as \'{"path": "a.txt"}\'')
    return args
