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
    done = ask(descriptions.describe_tools, target=target, write=write)
    code = 1 if done.failed else 0
    print_json(done, exit_code=code)
    for one in done.tools:
        _show(one)
    _sum_up(done, write=write)
    raise SystemExit(code)


def _show(one: DescribedTool) -> None:
    output.say(f"{one.tool_id}: {_WORDS[one.verdict]}", fg=_COLOURS[one.verdict])
    for difference in one.differences:
        word = "wider" if difference.verdict == "widening" else "narrower"
        if not difference.certain:
            word = "wider or narrower"
        output.say(f"  {difference.schema}, {word}: {difference.message}")
    if one.error is not None:
        for line in [*str(one.error).splitlines(), *one.error.traceback.splitlines()]:
            output.say(f"  {line}")
        if one.error.hint:
            output.say(hint_text(one.error.hint))


def _sum_up(done: ToolsDescribed, *, write: bool) -> None:
    counts = {"the same": done.same, "different": done.differing, "failed": done.failed}
    counted = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    number = output.plural(len(done.tools), "Python tool")
    output.say(f"{number}: {counted}" if counted else f"{done.toolset_id} has no Python tools")
    if done.written:
        stored = sum(one.stored for one in done.tools)
        output.say(
            f"wrote {done.written}: the schemas of {output.plural(stored, 'tool')}; check it in"
        )
    elif done.differing and not write:
        output.say(hint_text(f"covalt-git tool describe {done.toolset_id} --write"))
    if done.ended_grants:
        output.say(
            "grants of the toolset have ended, because a file of it has changed", fg="yellow"
        )
        output.say(hint_text(f"covalt-git grant add {done.toolset_id} --again"))
