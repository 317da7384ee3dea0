"""``covalt-git source``: listing, comparing and accepting the tools of MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli.call import reason_option
from covalt_git.cli.context import ask, ask_to_print, can_ask, check_user, print_json
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.errors import WrongCallError
from covalt_git.models.held_back import WHY_HELD_BACK
from covalt_git.models.tool_lock import PROGRAM
from covalt_git.operations import sources
from covalt_git.sources.definition_diff import definition_lines
from covalt_git.sources.refresh import TaskOnlyError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TITLES = ("SOURCE", "TOOLS", "ACCEPTED", "NEW", "CHANGED", "GONE", "ASKED")
_MARKS = {"new": ("+", "green"), "gone": ("-", "red"), "changed": ("~", "yellow")}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_NOT_KEPT = "the accepted definition is not stored; this is the complete new one"

sources_argument = click.argument("names", metavar="[SERVER...]", nargs=-1)
source_argument = click.argument("name", metavar="SERVER")


@click.group(cls=Group)
def command() -> None:
    """List, compare and accept the tools of MCP servers.

    A SERVER is TOOLSET/NAMESPACE, or a toolset for all of its servers.
    """


@command.command("list")
@sources_argument
def list_sources(names: tuple[str, ...]) -> None:
    """List MCP servers, and how many of their tools are accepted.

    Example: covalt-git source list
    """
    listing = _listed(names)
    print_json(listing)
    rows = [_line(source) for source in listing.sources]
    output.table(rows, titles=_TITLES, empty="no toolset declares an MCP server")


@command.command("refresh")
@sources_argument
@click.option("--accept", "accepts", is_flag=True, help="Accept all tools as they are now.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a list has changed.")
@reason_option
def refresh_sources(
    names: tuple[str, ...], *, accepts: bool, check: bool, reason: str | None
) -> None:
    """List the tools of MCP servers again, and print the changes.

    Packages of servers (npx, uvx) are resolved and installed first; a server starts from them once you accept
    them.  New and changed tools are disabled until you accept them: here at a terminal, with --accept, or with
    `source accept`.  The lists are stored in toolsets/locks.  Exits with 1 if a tool is not accepted or a
    server cannot be reached.

    Example: covalt-git source refresh files
    """
    if accepts and check:
        raise WrongCallError("--check writes nothing, so it cannot accept tools")
    if accepts:
        check_user(reason, "tools are accepted")
    result = ask(sources.refresh_sources, sources=names, check=check, accept=accepts, reason=reason)
    print_json(result, exit_code=int(any(outcome.failed for outcome in result.sources)))
    if not result.sources:
        output.say("no enabled toolset declares an MCP server")
    failed = [_failed(outcome, check=check) for outcome in result.sources]
    if any(failed):
        click.get_current_context().exit(1)


@command.command("diff")
@sources_argument
def diff(names: tuple[str, ...]) -> None:
    """Compare the last listed tools with the accepted ones, without a connection.

    Example: covalt-git source diff files
    """
    listing = _listed(names)
    print_json(listing)
    for source in listing.sources:
        _print_differences(source, source.to_accept)
        _print_tasks(source)
    if not any(source.to_accept for source in listing.sources):
        output.say("all tools are accepted", err=True)


@command.command("accept")
@source_argument
@click.argument("tools", metavar="[TOOL...]", nargs=-1)
@reason_option
def accept_tools(name: str, tools: tuple[str, ...], *, reason: str | None) -> None:
    """Accept tools of an MCP server as it listed them last.

    SERVER is TOOLSET/NAMESPACE, or the toolset if it has one server.  Without a TOOL, all are accepted.
    `source diff` shows what would be accepted.

    Example: covalt-git source accept files read_file
    """
    matches = _listed([name]).sources
    if len(matches) != 1:
        names = ", ".join(match.shown_id for match in matches) or "none"
        raise WrongCallError(f"name one MCP server of {name!r}: {names}")
    (source,) = matches
    toolset_id, namespace = source.toolset_id, source.namespace
    digests = {
        tool.name: tool.digest for tool in source.to_accept if not tools or tool.name in tools
    }
    # A tool that is accepted already stays so; the operation refuses one that does not exist.
    digests |= dict.fromkeys(set(tools) - set(source.tool_names) - digests.keys())
    for task in source.tasks:
        if task in tools:
            raise TaskOnlyError(f"{namespace}:{task}")
    if digests:
        check_user(reason, "tools are accepted")
    result = ask_to_print(
        sources.accept_tools,
        toolset_id=toolset_id,
        namespace=namespace,
        tools=digests,
        reason=reason,
    )
    for tool in result.changed:
        gone = tool not in result.tool_names
        what = f"{namespace}:{tool}" if tool != PROGRAM else f"the program of {source.shown_id}"
        output.say(f"accepted {what}{' as removed' if gone else ''}")
    if PROGRAM in result.changed:
        output.say(f"  hint: covalt-git source refresh {source.shown_id}", err=True)
    _print_renamed(result.renamed)
    if not result.changed:
        what = "all other tools" if result.tasks else "all tools"
        output.say(f"{what} of {source.shown_id} are already accepted")
    _print_tasks(result)


def _listed(names: Sequence[str]) -> sources.SourceList:
    if not names:
        return ask(sources.list_sources)
    parts = [name.partition("/") for name in names]
    listings = [
        ask(sources.list_sources, toolset_id=toolset_id, namespace=space)
        for toolset_id, _, space in parts
    ]
    return sources.SourceList(sources=tuple(row for listing in listings for row in listing.sources))


def _failed(outcome: sources.RefreshOutcome, *, check: bool) -> bool:
    """Print the outcome of a server, and offer to accept its tools; return whether it has failed."""
    if outcome.failure is not None:
        output.say(f"{outcome.source}:", bold=True)
        first, *others = outcome.failure.error_description.splitlines() or [""]
        output.fact(first, err=True)
        output.quote("\n".join(others), err=True)  # of the server, such as its stderr
        output.fact(f"  hint: {outcome.failure.hint}", err=True)
    if outcome.refreshed is None:
        return True
    source = outcome.refreshed.source
    _print_renamed(outcome.refreshed.renamed)
    differences = outcome.refreshed.drift if check else source.to_accept
    _print_differences(source, differences)
    _print_tasks(source)
    counted = f"{outcome.source}: {output.plural(source.tools, 'tool')}"
    if source.offers:
        counted += f", {source.offers} resources, templates and prompts"
    rest = "all others" if source.tasks else "all"
    if not differences:
        output.say(f"{counted}, {'unchanged' if check else f'{rest} accepted'}")
    elif not check and can_ask() and output.confirm("accept this?"):
        # Of what was shown: a definition that changes during the question is not accepted.
        digests = {tool.name: tool.digest for tool in differences}
        ids = {"toolset_id": source.toolset_id, "namespace": source.namespace}
        _print_renamed(ask(sources.accept_tools, **ids, tools=digests).renamed)
        if PROGRAM in digests:  # it was not started yet, so its tools are listed now
            again = ask(sources.refresh_sources, sources=(source.shown_id,), pinned=True)
            return _failed(again.sources[0], check=False)
        output.say(f"{counted}, {rest} accepted")
        return False
    elif not check:
        output.say(f"  hint: covalt-git source accept {outcome.source}", err=True)
    return outcome.failed


def _print_renamed(tools: Sequence[sources.RenamedTool]) -> None:
    for tool in tools:
        output.say(
            f"renamed {tool.tool_id} for MCP hosts that reject dots: {tool.old_name} -> {tool.new_name}; "
            "change their allow lists"
        )


def _print_tasks(source: sources.SourceRow) -> None:
    """Print the tools that cannot be accepted, and why."""
    for tool in source.tasks:
        output.fact(f"! {source.namespace}:{tool} is not accepted: {WHY_HELD_BACK['task']}")


def _print_differences(
    source: sources.SourceRow, differences: Sequence[sources.DifferingTool]
) -> None:
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
            for line in definition_lines(parts):
                text = f"    {line.text}:" if line.mark == "@" else f"    {line.mark} {line.text}"
                output.fact(text, fg=_COLOURS.get(line.mark))


def _line(source: sources.SourceRow) -> tuple[str, ...]:
    kinds = [tool.kind for tool in source.to_accept]
    counts = [kinds.count(kind) for kind in ("new", "changed", "gone")]
    cells = [str(count) if count else "-" for count in (source.tools, source.accepted, *counts)]
    off = "" if source.enabled else " (disabled)"
    return (source.shown_id + off, *cells, "yes" if source.asked else "never")
