"""What would run, as a user reads it on the command line before approving it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from covalt_git.cli.terminal import output
from covalt_git.json_values import canonical_json
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.operations.calls.approvals import ApprovalDetail


def print_approval(approval: ApprovalDetail) -> None:
    """Print exactly what would run: the tool, its arguments, its declared effects, and where."""
    # Facts and quotes only: the author of a toolset must not be able to add a line that looks like ours to what is
    # decided (tests/security/test_what_a_reviewer_sees.py).
    where = f"{approval.tool_id} in {approval.chat_id} on {approval.branch}"
    output.fact(where, bold=True)
    if approval.alias_of is not None:
        output.fact(f"it forwards the call to {approval.alias_of}")
    if approval.description:
        output.quote(approval.description)
    if approval.annotations.effects:
        output.say(f"declared effects: {', '.join(approval.annotations.effects)}")
    message = approval.message
    if message is not None:
        output.fact(f"for the message {message.id} of {message.role}:")
        output.quote(message.text if message.text is not None else message.ref or "")
    if approval.code is not None:
        line = f":{approval.code.line}" if approval.code.line else ""
        output.fact(f"code: toolsets/{approval.code.toolset_id}/{approval.code.path}{line}")
    arguments = canonical_json.dumps(approval.args).decode()
    output.fact(f"arguments: {display.arguments(arguments)}")
    _print_script(approval)
    for argument, commit in approval.commits.items():
        output.fact(f"{argument} means the commit {commit}")
    for question in approval.questions.values():
        # The toolset wrote it: the quote marks each of its lines.
        output.say("it asks:")
        output.quote(question.message)
    output.changes(approval.changes)
    if approval.changes or approval.tool_changed:
        changed = "the files above have" if approval.changes else "the tool or its toolset has"
        output.say(f"{changed} changed since the request, so approving it requests a new approval")
    if approval.replaces is not None and approval.replaces.changes:
        output.say(f"it replaces {approval.replaces.execution_id}; changed in between:")
        output.changes(approval.replaces.changes)
    why = f"requested by {approval.by} at {approval.created_at}: {', '.join(approval.reasons)}"
    output.fact(why)


def _print_script(approval: ApprovalDetail) -> None:
    """Print where in which script the call waits, and which arguments differ from those of its earlier calls."""
    if approval.script_id is None:
        return
    earlier = approval.earlier_calls
    after = ""
    if earlier is not None and earlier.total is not None:
        after = f", after {output.plural(earlier.total, 'call')}"
    output.fact(f"line {approval.script_line or '?'} of the script {approval.script_id}{after}")
    if earlier is None:
        return
    if not earlier.of_tool:
        output.fact(f"its first call of {approval.tool_id}")
        return
    same = f"same in {output.plural(earlier.of_tool, 'earlier call')}"
    for argument in earlier.arguments:
        # The script chose the name, which must not look like more of this line.
        name = argument.name
        quoted = name if name.isascii() and name.isidentifier() else json.dumps(name)
        output.fact(f"  {quoted}: {same if argument.same else 'differs'}")
