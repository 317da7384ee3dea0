"""``covalt-git source``: the tools that MCP servers give, asked for again, compared and accepted."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from covalt_git.cli import output
from covalt_git.cli.context import as_admin, json_option, toolsets_indexed, wrong_call
from covalt_git.errors import CovaltError
from covalt_git.sources.definition_diff import definition_lines
from covalt_git.sources.refresh import (
    ToolDifference,
    ToolSource,
    accept,
    find_source,
    refresh,
    sources,
)
from covalt_git.toolsets.toolset import toolset_ids

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.project import Project
    from covalt_git.sources.refresh import Listed, Refreshed

_as_admin = partial(as_admin, "look at sources")
_TITLES = ("SOURCE", "TOOLS", "ACCEPTED", "NEW", "CHANGED", "GONE", "ASKED")
_MARKS = {"new": ("+", "green"), "gone": ("-", "red"), "changed": ("~", "yellow")}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_NOT_KEPT = "what was accepted before is not kept; this is all of what it is now"

sources_argument = click.argument("names", metavar="[TOOLSET[/NAMESPACE]...]", nargs=-1)
source_argument = click.argument("name", metavar="TOOLSET/NAMESPACE")


@click.group()
def command() -> None:
    """See what MCP servers give, ask them again, and accept what they changed."""


@command.command("list")
@sources_argument
@json_option
def list_sources(names: tuple[str, ...], *, as_json: bool) -> None:
    """List the MCP servers of toolsets, and how many of their tools are accepted."""
    found = _named(_as_admin().root, names)
    if as_json:
        output.as_json([one.as_json() for one in found])
    elif found:
        output.table([_line(one) for one in found], titles=_TITLES)
    else:
        output.say("no toolset declares an MCP server")


@command.command("refresh")
@sources_argument
@click.option("--accept", "accepts", is_flag=True, help="Accept all that they give now.")
@click.option(
    "--check", is_flag=True, help="Write nothing; exit 1 where a lock is not what they give."
)
@json_option
def refresh_sources(names: tuple[str, ...], *, accepts: bool, check: bool, as_json: bool) -> None:
    """Ask MCP servers for their tools, write them into their locks, and show what differs.

    What is new or changed is off until it is accepted: here on a terminal, with --accept, or by
    `source accept`.  Exits with 1 where something is not accepted, or a server could not be asked.
    """
    if accepts and check:
        raise wrong_call("--check writes nothing, so that it cannot accept")
    opened = _as_admin()
    chosen = [one for one in _named(opened.root, names) if names or _is_on(one)]
    told: list[JsonObject] = []
    for source in chosen:
        try:
            found = refresh(opened.root, source, _asked_by(opened), write=not check)
        except CovaltError as error:
            told.append({"source": source.shown_id, "failed": True, **error.as_json()})
            if not as_json:
                output.say(f"{source.shown_id}:", bold=True)
                output.error(error, as_json=False)
            continue
        told.append(_settled(opened, found, accepts=accepts, check=check, as_json=as_json))
    toolsets_indexed(opened)
    if as_json:
        output.as_json(told)
    elif not chosen:
        output.say("no toolset that is on declares an MCP server")
    if any(one["failed"] for one in told):
        click.get_current_context().exit(1)


@command.command("diff")
@sources_argument
@json_option
def diff(names: tuple[str, ...], *, as_json: bool) -> None:
    """Show how what MCP servers gave last differs from what was accepted; connects to none."""
    found = _named(_as_admin().root, names)
    if as_json:
        output.as_json([one.as_json() for one in found])
        return
    for source in found:
        _say_differences(source, source.to_accept)
    if not any(one.to_accept for one in found):
        output.say("everything that was given is accepted", err=True)


@command.command("accept")
@source_argument
@click.argument("tools", metavar="[TOOL...]", nargs=-1)
@json_option
def accept_tools(name: str, tools: tuple[str, ...], *, as_json: bool) -> None:
    """Accept what an MCP server gave last, of each TOOL or of all; `source diff` shows what that is."""
    opened = _as_admin()
    toolset_id, slash, namespace = name.partition("/")
    if not slash:
        meant = _meant(opened.root, toolset_id) or f"{toolset_id}/NAMESPACE"
        raise wrong_call(f"say which server: {meant}")
    source = find_source(opened.root, toolset_id, namespace)
    shown = {one.name: one.digest for one in source.to_accept}
    wanted = {one: shown[one] for one in shown if not tools or one in tools}
    # One that is as it was accepted stays so; one that is none is told by whoever accepts.
    wanted |= {one: None for one in tools if source.lock is None or one not in source.lock.tools}
    done = accept(opened.root, toolset_id, namespace, wanted)
    toolsets_indexed(opened)
    if as_json:
        output.as_json(done.as_json() | {"changed": sorted(wanted)})
        return
    for tool, digest in sorted(wanted.items()):
        output.say(f"accepted {namespace}:{tool}{' as gone' if digest is None else ''}")
    if not wanted:
        output.say(f"all of {name} was accepted already")


def _settled(
    opened: Project, found: Refreshed, *, accepts: bool, check: bool, as_json: bool
) -> JsonObject:
    """Tell what a server gave, and accept it where that is wanted; return it as JSON."""
    source = found.source
    shown = found.drift if check else source.to_accept
    if not as_json:
        _say_differences(source, shown)
        if not shown:
            what = "as its lock says" if check else "all accepted"
            output.say(f"{source.shown_id}: {_counted(source)}, {what}")
    told = source.as_json() | {"drift": [one.as_json() for one in found.drift]}
    if not shown or check:
        return {"source": source.shown_id, "failed": bool(shown), **told}
    if accepts or (not as_json and _is_terminal() and click.confirm("accept this?")):
        digests = {one.name: one.digest for one in shown}
        source = accept(opened.root, source.toolset.id, source.namespace, digests)
        told |= source.as_json()
        if not as_json:
            output.say(f"{source.shown_id}: {_counted(source)}, all accepted")
    elif not as_json:
        output.say(f"  hint: covalt-git source accept {source.shown_id}", err=True)
    return {"source": source.shown_id, "failed": bool(source.to_accept), **told}


def _say_differences(source: ToolSource, found: Sequence[ToolDifference]) -> None:
    for one in found:
        mark, colour = _MARKS[one.kind]
        output.say(f"{mark} {source.namespace}:{one.name} is {one.kind}", fg=colour, bold=True)
        if one.kind == "changed" and one.before is None:
            output.say(f"  {_NOT_KEPT}", dim=True)
        if one.kind != "gone":
            for line in definition_lines(one):
                said = f"    {line.text}:" if line.mark == "@" else f"    {line.mark} {line.text}"
                output.say(said, fg=_COLOURS.get(line.mark))


def _asked_by(opened: Project) -> Listed:
    """Return what asks a server."""
    from covalt_git.calls.mcp_calls import listed  # noqa: PLC0415 - most commands need no server
    from covalt_git.credentials.command import SecretCommand  # noqa: PLC0415

    command = SecretCommand.of(opened.root, opened.config.secret_command)
    return partial(listed, root=opened.root, command=command, tell=_progress)


def _progress(what: str) -> None:
    output.say(what, err=True, dim=True)


def _named(root: Path, names: Sequence[str]) -> list[ToolSource]:
    if not names:
        return sources(root)
    found = []
    for name in names:
        toolset_id, slash, namespace = name.partition("/")
        if slash:
            found.append(find_source(root, toolset_id, namespace))
        elif name not in toolset_ids(root / "toolsets") and (meant := _meant(root, name)):
            raise wrong_call(f"say which server: {meant}")
        else:
            found += sources(root, toolset_id)
    return found


def _meant(root: Path, text: str) -> str:
    """Return the source that somebody meant who named a toolset, or a server, alone; or nothing."""
    every = sources(root)
    return next((one.shown_id for one in every if text in (one.namespace, one.toolset.id)), "")


def _is_on(source: ToolSource) -> bool:
    return source.toolset.enabled and source.server.enabled


def _line(source: ToolSource) -> tuple[str, ...]:
    kinds = [one.kind for one in source.to_accept]
    counts = [kinds.count(kind) for kind in ("new", "changed", "gone")]
    tools = len(source.lock.tools) if source.lock else 0
    shown = [str(one) if one else "-" for one in (tools, source.accepted, *counts)]
    off = "" if _is_on(source) else " (off)"
    return (source.shown_id + off, *shown, "yes" if source.lock else "never")


def _counted(source: ToolSource) -> str:
    return output.plural(len(source.lock.tools) if source.lock else 0, "tool")


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
