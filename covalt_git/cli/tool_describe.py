"""``covalt-git tool describe``: the schemas of Python tools as they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from covalt_git.cli.context import ask, context, print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.progress_bar import Bar
from covalt_git.errors import hint_text
from covalt_git.operations import descriptions

if TYPE_CHECKING:
    from covalt_git.operations.descriptions import DescribedTool, ToolsDescribed

_WORDS: Final = {"same": "the same", "differs": "different", "failed": "failed"}
_COLOURS: Final = {"same": "green", "differs": "yellow", "failed": "red"}


@click.command("describe", cls=JsonCommand)
@click.argument("target", metavar="TOOL|TOOLSET")
@click.option(
    "--write", is_flag=True, help="Store the schemas in toolset.schemas.yaml of the toolset."
)
def command(target: str, *, write: bool) -> None:
    """Show how the schemas of Python tools differ when they run from those that lists show.

    covalt-git reads the schema of a Python tool from its source.  This command imports the tool's module in
    the sandbox, without network, secrets and workspace, and compares the schemas in meaning.  With --write,
    it stores each schema that toolset.yaml does not declare, and all lists and calls use it until the source
    changes.  Exits with 1 if a tool failed.

    Example: covalt-git tool describe data-lab
    """
    context(progress=Bar("tools"))
    result = ask(descriptions.describe_tools, target=target, write=write)
    code = 1 if result.failed else 0
    print_json(result, exit_code=code)
    for tool in result.tools:
        _show(tool)
    _sum_up(result, write=write)
    raise SystemExit(code)


def _show(tool: DescribedTool) -> None:
    output.say(f"{tool.tool_id}: {_WORDS[tool.verdict]}", fg=_COLOURS[tool.verdict])
    for difference in tool.differences:
        word = "wider" if difference.verdict == "widening" else "narrower"
        if not difference.certain:
            word = "wider or narrower"
        output.say(f"  {difference.schema}, {word}: {difference.message}")
    if tool.error is not None:
        for line in [*str(tool.error).splitlines(), *tool.error.traceback.splitlines()]:
            output.say(f"  {line}")
        if tool.error.hint:
            output.say(hint_text(tool.error.hint))


def _sum_up(result: ToolsDescribed, *, write: bool) -> None:
    counts = {"the same": result.same, "different": result.differing, "failed": result.failed}
    counted = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    number = output.plural(len(result.tools), "Python tool")
    output.say(f"{number}: {counted}" if counted else f"{result.toolset_id} has no Python tools")
    if result.written:
        stored = sum(tool.stored for tool in result.tools)
        output.say(
            f"wrote {result.written}: the schemas of {output.plural(stored, 'tool')}; check it in"
        )
    elif result.differing and not write:
        output.say(hint_text(f"covalt-git tool describe {result.toolset_id} --write"))
    if result.ended_grants:
        output.say(
            "grants of the toolset have ended, because a file of it has changed", fg="yellow"
        )
        output.say(hint_text(f"covalt-git grant add {result.toolset_id} --again"))
