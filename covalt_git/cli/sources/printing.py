"""What ``covalt-git source`` prints of sources: their tools, differences, faults, and what cannot be called or accepted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from covalt_git.cli.terminal import output
from covalt_git.models.held_back import CORRECTS_SCHEMA, WHY_HELD_BACK
from covalt_git.models.sources.tool_lock import PROGRAM
from covalt_git.operations import source_documents as documents
from covalt_git.sources.definition_diff import definition_lines
from covalt_git.templating.references import AUTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from covalt_git.operations import sources

MOST_LINES = 20
_MOST_NAMED = 3
_MOST_ARGUMENTS = 5
_MARKS = {"new": ("+", "green"), "gone": ("-", "red"), "changed": ("~", "yellow")}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_NOT_KEPT = "the accepted definition is not stored; this is the complete new one"


def print_detail(
    source: documents.SourceDetail, *, every: bool = False, is_new: bool = False
) -> None:
    """Print what a document gives: its tools, what they reach and send, and what is no tool.

    Without ``every``, long lists are cut and say so.  A source that ``is_new`` has no tool that could be accepted yet.
    """
    output.say(f"{source.shown_id}: {source.title or source.reference}", bold=True)
    for document in source.documents:
        output.fact(f"  document: {document}")
    writing = [tool for tool in source.tools if tool.writes]
    accepted = sum(tool.state == "accepted" for tool in source.tools)
    counted = f"{output.plural(len(source.tools), 'tool')}, {len(writing)} of them writing"
    output.say(f"  {counted}{'' if is_new else f', {accepted} accepted'}")
    for host in source.hosts:
        output.fact(f"  host: {host}")
    if source.lacks_server:
        output.fact(
            "  no host: the document names no server; give its URL with --base-url URL of `source add`, or as base_url"
            " of the source in toolset.yaml",
            fg="yellow",
        )
    for name, hosts in source.secrets.items():
        receivers = f" to {', '.join(hosts)}" if hosts else ""
        if name.startswith(AUTH):
            sign_in = f"{source.toolset_id}/{name.removeprefix(AUTH)}"
            output.fact(f"  sign-in{receivers}: covalt-git auth login {sign_in}")
            continue
        if source.lacks_server and name.endswith("_BASE_URL"):
            receivers = ", the URL of the API, which the document lacks"
        output.fact(f"  secret: {name}{receivers}")
    _print_withheld(source)
    if listed := source.tools if every else writing:
        output.say("  tools:" if every else "  writing tools, which require approval:", dim=True)
    for tool in listed[: None if every else MOST_LINES]:
        output.fact(
            f"    {tool.name}  {tool.upstream}{'' if is_new or tool.state == 'accepted' else f' ({tool.state})'}"
        )
    if not every and len(listed) > MOST_LINES:
        output.say(
            f"    and {len(listed) - MOST_LINES} more: covalt-git source show {source.shown_id} --all",
            dim=True,
        )
    if source.left_out:
        output.say(f"  {output.plural(len(source.left_out), 'part')} left out:", dim=True)
    for reason, parts in _by_reason(source.left_out).items():
        if not every and len(parts) > _MOST_NAMED:
            names = ", ".join(part.upstream for part in parts[:_MOST_NAMED])
            output.fact(f"    {names} and {len(parts) - _MOST_NAMED} more: {reason}")
            continue
        for part in parts:
            place = f" (line {part.line})" if part.line else ""
            output.fact(f"    {part.upstream}{place}: {reason}")
    print_faults(source.faults[: None if every else MOST_LINES])


def print_faults(faults: Sequence[sources.SourceFault]) -> None:
    for fault in faults:
        output.fact(f"  {fault.path}:{fault.line}:{fault.column}: {fault.message}", fg="yellow")


def print_findings(findings: Sequence[documents.DocumentFinding]) -> None:
    """Print the findings of a document; of an operation, the first arguments without a description."""
    silent = Counter(
        finding.upstream for finding in findings if finding.kind == "argument_without_description"
    )
    printed: Counter[str] = Counter()
    for finding in findings:
        message = finding.message
        if finding.kind == "argument_without_description":
            printed[finding.upstream] += 1
            more = silent[finding.upstream] - _MOST_ARGUMENTS
            if printed[finding.upstream] > _MOST_ARGUMENTS:
                continue
            if printed[finding.upstream] == _MOST_ARGUMENTS and more > 0:
                message += f", and {more} more have none (--json names them)"
        what = f"{finding.upstream}: " if finding.upstream else ""
        output.fact(f"{finding.path}:{finding.line}:{finding.column}: {what}{message}")


def _by_reason(
    left_out: Sequence[documents.LeftOutOperation],
) -> dict[str, list[documents.LeftOutOperation]]:
    by_reason: dict[str, list[documents.LeftOutOperation]] = {}
    for part in left_out:
        by_reason.setdefault(part.reason, []).append(part)
    return by_reason


def print_renamed(tools: Sequence[sources.RenamedTool]) -> None:
    for tool in tools:
        output.say(
            f"renamed {tool.tool_id} for MCP hosts that reject dots: {tool.old_name} -> {tool.new_name}; "
            "change their allow lists"
        )


def print_ended(toolset_id: str, ended: Mapping[str, Sequence[str]]) -> None:
    """Print the grants that have ended: tools that were accepted later, or have changed, cannot be called with them."""
    for grant, changed in ended.items():
        output.fact(f"{toolset_id} {grant} has ended: {'; '.join(changed)}", fg="yellow")
    if ended:
        output.say(f"  hint: covalt-git grant add {toolset_id} --again", fg="yellow")


def print_unusable(source: sources.SourceRow) -> None:
    """Print the tools that cannot be accepted or called, and what agents cannot read, and why."""
    for tool in source.tasks:
        output.fact(f"! {source.namespace}:{tool} is not accepted: {WHY_HELD_BACK['task']}")
    for tool, why in source.unusable.items():
        output.fact(f"! {source.namespace}:{tool} cannot be called: {why}")
    if source.unusable:
        output.say(f"  hint: {CORRECTS_SCHEMA}", err=True)
    _print_withheld(source)


def _print_withheld(source: sources.SourceRow | documents.SourceDetail) -> None:
    for offer, why in source.withheld.items():
        output.fact(
            f"! {offer} is not given to agents: {why}, and reading cannot wait for approval"
        )


def print_differences(
    source: sources.SourceRow, differences: Sequence[sources.DifferingTool]
) -> None:
    """Print how the definitions of tools differ from the accepted ones, which is what a user decides about."""
    for tool in differences:
        mark, colour = _MARKS[tool.kind]
        what = f"{source.namespace}:{tool.name}"
        if tool.name == PROGRAM:
            what = f"the program of {source.shown_id}"
        output.fact(f"{mark} {what} is {tool.kind}", fg=colour, bold=True)
        if tool.kind == "changed" and not tool.kept:
            output.say(f"  {_NOT_KEPT}", dim=True)
        if tool.kind != "gone":
            parts = {part.name: (part.before, part.after) for part in tool.parts}
            _print_lines(parts)
        _print_breaking(tool)
    if differences and source.definitions:
        output.fact("~ definitions that these tools share", fg="yellow", bold=True)
        _print_lines({part.name: (part.before, part.after) for part in source.definitions})


def _print_lines(parts: Mapping[str, tuple[object, object]]) -> None:
    for line in definition_lines(parts):
        text = f"    {line.text}:" if line.mark == "@" else f"    {line.mark} {line.text}"
        output.fact(text, fg=_COLOURS.get(line.mark))


def _print_breaking(tool: sources.DifferingTool) -> None:
    if isinstance(tool, documents.ComparedTool):
        for reason in tool.breaking:
            output.fact(f"  breaks callers: {reason}", fg="red")
        if not tool.breaking:
            output.say("  does not break callers", dim=True)
        if tool.recorded_calls:
            output.say(
                f"  {tool.refused_calls} of the last {output.plural(tool.recorded_calls, 'call')} would be refused"
            )
