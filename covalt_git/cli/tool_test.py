"""``covalt-git tool test``: the examples of tools, run in scratch chats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.calls import schema_warnings
from covalt_git.cli.context import ask, context, print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.progress_bar import Bar
from covalt_git.errors import hint_text
from covalt_git.operations import examples

if TYPE_CHECKING:
    from covalt_git.calls.tool_examples import ExampleRun

_COLOURS = {"ok": "green", "failed": "red", "skipped": "yellow"}


@click.command("test", cls=JsonCommand)
@click.argument("patterns", metavar="[TOOL]...", nargs=-1)
@click.option("--keep", is_flag=True, help="Keep the scratch chats in the project.")
@click.option("--strict", is_flag=True, help="Also exit with 1 when an example was skipped.")
def command(patterns: tuple[str, ...], *, keep: bool, strict: bool) -> None:
    """Run the examples of tools and compare the results with `expected`.

    TOOL is a tool (data-lab:summarize), a toolset (data-lab) or a pattern (data-lab:*); without one, all
    tools that you may see are tested.  Each example runs in its own scratch chat.  A tool that lacks a
    grant, or that needs approval and may reach the network, is skipped.  Exits with 1 if an example
    failed, or if a toolset has errors, so that its examples cannot run.

    Example: covalt-git tool test data-lab:summarize
    """
    context(progress=Bar("examples"))
    with schema_warnings.reported(output.warn):
        result = ask(examples.test_tools, patterns=patterns, keep=keep)
    print_json(result)
    wide = max([4, *(len(run.tool_id) for run in result.examples)])
    if result.examples:
        output.say(f"{'TOOL':{wide}}  EXAMPLE  RESULT    MS", dim=True)
    for run in result.examples:
        _show(run, wide)
    for toolset_id in result.broken:
        output.say(f"the toolset {toolset_id!r} has errors, so its examples did not run", fg="red")
        output.say(f"  hint: covalt-git validate toolsets/{toolset_id}")
    counts = {"ok": result.ok, "failed": result.failed, "skipped": result.skipped}
    _sum_up(counts, result.without_examples)
    if result.cancelled:
        raise SystemExit(130)
    if result.failed or result.broken or (strict and result.skipped):
        raise SystemExit(1)


def _show(run: ExampleRun, wide: int) -> None:
    line = f"{run.tool_id:{wide}}  {run.number:<7}  {run.verdict:7}  {run.took_ms:4.0f}"
    kept = f"  {run.chat_id}" if run.chat_id else ""
    output.say(f"{line}{kept}", fg=_COLOURS[run.verdict])
    if run.reason:
        output.say(f"  {run.reason}")
    for difference in run.differences:
        actual = "nothing" if difference.now is None else difference.now
        expected = "nothing" if difference.then is None else difference.then
        output.say(f"  {difference.path}: expected {expected}, was {actual}")
    if run.hint:
        output.say(hint_text(run.hint))


def _sum_up(counts: dict[str, int], untested: tuple[str, ...]) -> None:
    counted = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    colour = next((_COLOURS[kind] for kind in ("failed", "skipped", "ok") if counts[kind]), None)
    output.say(f"{output.plural(sum(counts.values()), 'example')}: {counted or 'none'}", fg=colour)
    if untested:
        output.say(f"without examples: {', '.join(untested)}", dim=True)
