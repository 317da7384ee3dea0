"""``covalt-git tool``: tools that the principal may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import ask, ask_to_print, say_no_toolsets
from covalt_git.cli.groups import Group, wants_json
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.parameters import parameters
from covalt_git.models.held_back import WHY_HELD_BACK
from covalt_git.models.http_placement import placement
from covalt_git.operations import tools
from covalt_git.trust.consents import NOT_TRUSTED


@click.group(
    cls=Group,
    places={
        "test": "tool_test.command",
        "describe": "tool_describe.command",
        "override": "tool_override.override",
        "enable": "tool_override.enable",
        "disable": "tool_override.disable",
    },
)
def command() -> None:
    """List, search, show and override the tools you may call, and run their examples and schemas."""


@command.command("list")
@click.option("--toolset", help="Only the tools of this toolset.")
def list_tools(toolset: str | None) -> None:
    """List the tools that your role may see.

    Example: covalt-git tool list
    """
    listing = ask_to_print(tools.list_tools, toolset_id=toolset or "")
    rows = [tool for group in listing.groups for tool in group.tools]
    if rows:
        output.table([_line(tool) for tool in rows], titles=_TITLES)
        usable = [group for group in listing.groups if group.sound and group.enabled]
        _print_reasons([tool for group in usable for tool in group.tools])
    if all(tool.kind == "builtin" for tool in rows):
        say_no_toolsets("covalt-git --role ROLE tool list", toolset)
    for group in listing.groups:
        if not group.sound:
            broken = f"{group.id} has errors; these are its last valid tools: covalt-git validate"
            output.say(broken, err=True)


def _print_reasons(rows: Sequence[tools.ToolRow]) -> None:
    """Print the tools that lack something that a user can give, such as a sign-in, by the reason."""
    reasons: dict[str, list[str]] = {}
    for tool in rows:
        # A reason with the name of the tool is its own state, which the user has chosen.
        if _is_untrusted(tool):
            # Their descriptions may be those of a pull.
            reasons.setdefault(f"{NOT_TRUSTED}, see covalt-git trust", []).append(tool.tool_id)
        elif tool.why_not and tool.tool_id not in tool.why_not:
            reasons.setdefault(tool.why_not, []).append(tool.tool_id)
    for why_not, names in reasons.items():
        rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        output.say(f"not callable: {', '.join(names[:MOST_NAMED])}{rest}: {why_not}", dim=True)


@command.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--role", help="Search with this role; default: the --role of covalt-git.")
@click.option("--limit", type=int, default=20, show_default=True, help="Number of results.")
def search_tools(query: tuple[str, ...], role: str | None, limit: int) -> None:
    """Find tools by words of their names, descriptions, parameters and tags.

    Example: covalt-git tool search table
    """
    if role is not None:
        click.get_current_context().find_root().obj["role"] = role
    matches = ask_to_print(tools.search_tools, query=" ".join(query), limit=limit)
    rows = [_line(tool) for tool in matches.tools]
    output.table(
        rows, titles=_TITLES, empty="no tool matches; list them with `covalt-git tool list`"
    )
    _print_reasons([tool for tool in matches.tools if _is_untrusted(tool)])


@command.command("show")
@click.argument("tool_id")
def show_tool(tool_id: str) -> None:
    """Show one tool: its description, parameters and renderer.

    Example: covalt-git tool show data-lab:summarize
    """
    tool = ask_to_print(tools.get_tool, tool_id=tool_id)
    output.say(f"{tool.tool_id}  {tool.name}", bold=True)
    output.say(tool.description, prose=True)
    for parameter in parameters(tool.input_schema):
        place = "" if parameter.depth else _place(tool, parameter.name)
        about = f"{parameter.kind}, {parameter.needed}{place}"
        line = f"  {'  ' * parameter.depth}{parameter.name}  {about}  {parameter.description}"
        output.say(line.rstrip())
    if tool.arguments_are_unread:
        output.say(f"  {_unread(tool)}", fg="yellow")
    for title, value in filter(all, _facts(tool).items()):
        output.say(f"{title}: {value}")


@command.command("schema")
@click.argument("tool_id")
def show_schema(tool_id: str) -> None:
    """Print the JSON Schema of a tool's arguments, from its manifest or its Python.

    Example: covalt-git tool schema data-lab:summarize
    """
    tool = ask(tools.get_tool, tool_id=tool_id)
    if tool.arguments_are_unread:
        output.warn(_unread(tool))
    output.as_json(tool if wants_json() else tool.input_schema)


if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_NAMED = 5
"""Names of tools that one line has."""

_TITLES = ("TOOL", "NAME", "VERSION", "RENDERER", "APPROVAL", "DESCRIPTION")
OVERRIDES = {
    "name": "name_override",
    "description": "description_override",
    "renderer": "renderer",
    "renderer-config": "renderer_config",
    "confirm": "requires_confirmation",
    "enabled": "enabled",
    "callers": "callers",
}
"""The fields of an override by the options of ``tool override``."""


def _line(tool: tools.ToolRow) -> tuple[str, ...]:
    state = "" if tool.enabled else f" ({tool.held_back or 'disabled'})"
    state = " (not trusted)" if _is_untrusted(tool) else state
    state = " (broken)" if tool.broken else state
    return (
        tool.tool_id + state,
        tool.name,
        tool.version,
        tool.renderer or "-",
        "yes" if tool.requires_confirmation else "-",
        tool.description.partition("\n")[0],
    )


def _is_untrusted(tool: tools.ToolFacts) -> bool:
    """Return whether the user of this machine has to trust a tool, such as one that only a pull has accepted."""
    return NOT_TRUSTED in tool.why_not


def _facts(tool: tools.ToolDetail) -> dict[str, str]:
    asks = ", ".join(tool.requires_confirmation)
    notes = tool.annotations.model_dump(exclude_none=True)
    runs = tool.entrypoint or (f"{tool.http.method} {tool.http.url}" if tool.http else "")
    held_back = f", {WHY_HELD_BACK[tool.held_back]}" if tool.held_back else ""
    untrusted = f", but {NOT_TRUSTED}: covalt-git trust" if _is_untrusted(tool) else ""
    local = tool.local.model_dump(exclude_none=True)
    return {
        "version": tool.version,
        "runs": f"{tool.upstream!r} of the MCP server {tool.server!r}" if tool.server else runs,
        "renderer": tool.renderer.type if tool.renderer else "JSON",
        "requires approval": f"yes ({asks})" if asks else "no",
        "tags": ", ".join(tool.tags),
        "annotations": ", ".join(f"{key}: {str(value).lower()}" for key, value in notes.items()),
        "state": f"enabled{untrusted}" if tool.enabled else f"disabled{held_back}",
        "of this project": ", ".join(word for word, field in OVERRIDES.items() if field in local),
    }


def _unread(tool: tools.ToolDetail) -> str:
    return f"its arguments could not be read: covalt-git tool describe {tool.tool_id} --write"


def _place(tool: tools.ToolDetail, name: str) -> str:
    """Return the place of an argument in an HTTP tool's request."""
    where = placement(tool.http).place_of(name) if tool.http else None
    return f", in the {where}" if where else ""
