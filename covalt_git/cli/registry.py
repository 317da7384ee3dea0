"""``covalt-git registry``: tools that other programs register."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING

import click

from covalt_git import yaml_text
from covalt_git.cli.context import ask, ask_to_print, context, print_json
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.problem_text import print_problems
from covalt_git.errors import WrongCallError
from covalt_git.operations import tool_registry

if TYPE_CHECKING:
    from covalt_git.operations.tool_registry import RegisteredTool

tool_argument = click.argument("tool_id", metavar="TOOL_ID")

_TITLES = ("ID", "TOOL", "CALLS", "PROTOCOLS", "STATE")


@click.group(cls=Group)
def command() -> None:
    """Register tools by their entries; list, show and remove them."""


@command.command("list")
@click.option("--protocol", default="", help="Only tools that accept this protocol: mcp, http.")
def list_tools(protocol: str) -> None:
    """List the registered tools.

    Example: covalt-git registry list --protocol http
    """
    listing = ask_to_print(tool_registry.list_registered_tools, protocol=protocol)
    rows = [
        (tool.tool_id, tool.tool, tool.calls or "-", ", ".join(tool.protocols), _state(tool))
        for tool in listing.tools
    ]
    output.table(rows, titles=_TITLES, empty="no tool is registered")
    print_problems(listing.problems, context().project.root)


@command.command("show")
@tool_argument
def show(tool_id: str) -> None:
    """Show the entry of a registered tool.

    Example: covalt-git registry show weather
    """
    tool = ask_to_print(tool_registry.get_registered_tool, tool_id=tool_id)
    output.say(f"{tool.tool}: {_state(tool)}")
    output.say(json.dumps(tool.entry, indent=2, ensure_ascii=False))


@command.command("add")
@click.argument("file", type=click.File("rb"))
@click.option("--replace", is_flag=True, help="Replace the entry of a registered tool.")
def add(file: IO[bytes], *, replace: bool) -> None:
    """Register the tool whose entry is in FILE, as JSON or YAML; - is standard input.

    The tool is disabled until it is granted.

    Example: covalt-git registry add weather.json
    """
    entry = yaml_text.load(file.read(), file.name).data
    if not isinstance(entry, dict):
        raise WrongCallError(f"{file.name} must contain an object, the entry of a tool")
    if replace:
        tool_id = str(entry.get("tool_id", ""))
        tool = ask(tool_registry.replace_registered_tool, tool_id=tool_id, entry=entry)
    else:
        tool = ask(tool_registry.register_tool, entry=entry)
    print_json(tool)
    verb = "replaced" if replace else "registered"
    output.say(f"{verb} {tool.tool_id} ({tool.tool}): {_state(tool)}")
    if not tool.granted and tool.calls:
        name = tool.tool.partition(":")[2]
        output.say(f"grant it: covalt-git grant add registered tool {name}")


@command.command("remove")
@tool_argument
def remove(tool_id: str) -> None:
    """Remove a registered tool, with its grant.

    Example: covalt-git registry remove weather
    """
    tool = ask_to_print(tool_registry.remove_registered_tool, tool_id=tool_id)
    output.say(f"removed {tool.tool_id}")


def _state(tool: RegisteredTool) -> str:
    return tool.why_not or "can be called"
