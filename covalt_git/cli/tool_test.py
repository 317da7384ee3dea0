"""``covalt-git tool test``: the examples of tools, run in scratch chats."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.catalog.catalog import BrokenToolsetError
from covalt_git.cli import output
from covalt_git.cli.context import indexed, json_option, project, wrong_call
from covalt_git.errors import nearest_name
from covalt_git.names import matches
from covalt_git.workspaces.chats import Chats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.calls.tool_examples import ExampleRun
    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool
    from covalt_git.project import Project

_COLOURS = {"ok": "green", "failed": "red", "skipped": "yellow"}


@click.command("test")
@click.argument("patterns", metavar="[TOOL]...", nargs=-1)
@click.option("--keep", is_flag=True, help="Keep the chats among the project's, to look into.")
@json_option
def command(patterns: tuple[str, ...], *, keep: bool, as_json: bool) -> None:
    """Run the examples of tools and check what their `expected` says.

    TOOL is a tool (data-lab:summarize), a toolset (data-lab) or a pattern (data-lab:*); without one,
    all tools are tested that you may see.  Each example runs in a scratch chat of its own; a tool
    that lacks a grant, or would ask and may reach the network, is skipped.  Exits with 1 when an
    example failed.
    """
    # Here, because this module is loaded for every command of tools, and most make no calls.
    from covalt_git.calls.tool_examples import run_example  # noqa: PLC0415
    from covalt_git.runtime import python_tool  # noqa: PLC0415

    python_tool.prepare(Path(sys.executable))
    opened = project()
    tools = _chosen(opened, patterns)
    jobs = [(tool, number + 1) for tool in tools for number in range(len(tool.examples))]
    done: list[ExampleRun] = []
    wide = max([4, *(len(tool.tool_id) for tool, _ in jobs)])
    if jobs and not as_json:
        output.say(f"{'TOOL':{wide}}  EXAMPLE  RESULT    MS", dim=True)
    with _chats(opened, keep=keep) as chats:
        for tool, number in jobs:
            one = run_example(opened.engine(), chats, tool, number)
            done.append(one)
            if keep and one.chat_id is not None:
                with chats.open(one.chat_id) as chat:
                    indexed(opened, chat)
            if not as_json:
                _show(one, wide, keep=keep)
            if one.cancelled:
                raise SystemExit(130)
    untested = [tool.tool_id for tool in tools if not tool.examples]
    counts = {kind: sum(one.verdict == kind for one in done) for kind in _COLOURS}
    if as_json:
        examples = [_told(one, keep=keep) for one in done]
        output.as_json({"examples": examples, **counts, "without_examples": untested})
    else:
        _sum_up(counts, untested)
    if counts["failed"]:
        raise SystemExit(1)


def _chosen(opened: Project, patterns: Sequence[str]) -> list[Tool]:
    """Return the tools that the patterns name, sorted; all where there are none."""
    with opened.index() as index:
        index.sync_toolsets()
        visible = sorted(opened.catalog.visible(index.tools()), key=lambda tool: tool.tool_id)
    chosen: set[str] = set()
    for pattern in patterns:
        path = pattern.replace(":", ".", 1)
        path = path if "." in path else f"{path}.**"
        # The tools of a toolset's servers have namespaces of their own.
        found = {
            tool.tool_id
            for tool in visible
            if pattern in {"**", tool.toolset_id} or matches(path, tool.path)
        }
        if not found:
            known = {name for tool in visible for name in (tool.tool_id, tool.toolset_id)}
            near = nearest_name(pattern, known)
            meant = f"; did you mean {near!r}?" if near else ""
            raise wrong_call(f"{pattern!r} names no tool{meant}")
        chosen |= found
    return [_from_files(opened, tool) for tool in visible if not patterns or tool.tool_id in chosen]


def _from_files(opened: Project, tool: Tool) -> Tool:
    """Return a tool as its files say; as the index knew it where these are broken now."""
    try:
        return opened.catalog.find(tool.tool_id).tool
    except BrokenToolsetError:
        return tool


@contextmanager
def _chats(opened: Project, *, keep: bool) -> Iterator[Chats]:
    """Yield where the scratch chats are made: among the project's, or where nothing of them stays."""
    if keep:
        yield opened.chats
        return
    with tempfile.TemporaryDirectory(prefix="covalt-examples-") as folder:
        yield Chats(
            Path(folder) / "chats",
            opened.config.workspace.model_copy(update={"durability": "fast"}),
        )


def _show(one: ExampleRun, wide: int, *, keep: bool) -> None:
    line = f"{one.tool_id:{wide}}  {one.number:<7}  {one.verdict:7}  {one.took_ms:4.0f}"
    kept = f"  {one.chat_id}" if keep and one.chat_id else ""
    output.say(f"{line}{kept}", fg=_COLOURS[one.verdict])
    if one.reason:
        output.say(f"  {one.reason}")
    for difference in one.differences:
        now = "nothing" if difference.now is None else difference.now
        expected = "nothing" if difference.then is None else difference.then
        output.say(f"  {difference.path}: expected {expected}, was {now}")
    if one.hint:
        output.say(f"  hint: {one.hint}")


def _sum_up(counts: dict[str, int], untested: list[str]) -> None:
    said = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    colour = next((_COLOURS[kind] for kind in ("failed", "skipped", "ok") if counts[kind]), None)
    output.say(f"{output.plural(sum(counts.values()), 'example')}: {said or 'none'}", fg=colour)
    if untested:
        output.say(f"without examples: {', '.join(untested)}", dim=True)


def _told(one: ExampleRun, *, keep: bool) -> JsonObject:
    told = dataclasses.asdict(one) | {"took_ms": round(one.took_ms, 1)}
    told.pop("cancelled")
    # One that was removed is of no use to anybody.
    return told | {"chat_id": one.chat_id if keep else None}
