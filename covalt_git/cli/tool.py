"""``covalt-git tool``: the tools that the principal may see."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from covalt_git.cli import output, tool_override, tool_test
from covalt_git.cli.context import json_option, project, tell_roleless
from covalt_git.models.http_placement import placement
from covalt_git.models.tool import WHY_HELD_BACK
from covalt_git.models.toolset_state import LocalOverride

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool


@click.group()
def command() -> None:
    """List the tools you may call, find some, look at one, change it, run its examples."""


command.add_command(tool_test.command)
command.add_command(tool_override.override)
command.add_command(tool_override.enable)
command.add_command(tool_override.disable)


@command.command("list")
@click.option("--toolset", help="Only the tools of this toolset.")
@json_option
def list_tools(toolset: str | None, *, as_json: bool) -> None:
    """List the tools that your role may see."""
    opened = project()
    with opened.index() as index:
        index.sync_toolsets()
        tools = opened.catalog.visible(index.tools())
        broken = [row["id"] for row in index.toolsets() if not row["sound"]]
    tools = [tool for tool in tools if toolset in {None, tool.toolset_id}]
    if as_json:
        output.as_json([_summary(tool, broken) for tool in tools])
        return
    if tools:
        output.table([_line(tool, broken) for tool in tools], titles=_TITLES)
    elif not tell_roleless(opened, opened.principal.role, "covalt-git --role ROLE tool list"):
        output.say("no tools; a toolset is a folder toolsets/<id>/ with a toolset.yaml")
    for name in broken:
        output.say(f"{name} has errors, its tools are as they were: covalt-git validate", err=True)


@command.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--role", help="Search as this role; else as the one that stands before the command.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many to list."
)
@json_option
def search_tools(query: tuple[str, ...], role: str | None, limit: int, *, as_json: bool) -> None:
    """Find tools by words of their names, descriptions, parameters and tags, the best first."""
    opened = project()
    if role is not None:
        opened = replace(opened, principal=replace(opened.principal, role=role))
    with opened.index() as index:
        index.sync_toolsets()
        tools = opened.catalog.search(index, " ".join(query), limit=limit)
        broken = [row["id"] for row in index.toolsets() if not row["sound"]]
    if as_json:
        output.as_json([_summary(tool, broken) for tool in tools])
    elif tools:
        output.table([_line(tool, broken) for tool in tools], titles=_TITLES)
    else:
        output.say("no tool is like that; list them with `covalt-git tool list`")


@command.command("show")
@click.argument("tool_id")
@json_option
def show_tool(tool_id: str, *, as_json: bool) -> None:
    """Show one tool: what it does, what it takes, how its result is shown."""
    found = project().catalog.find(tool_id)
    tool = found.tool
    said = found.toolset.state.overrides.get(tool.name_in_state, LocalOverride())
    local = said.model_dump(mode="json", exclude_none=True)
    if as_json:
        output.as_json(_detail(tool) | {"local": local})
        return
    output.say(f"{tool.tool_id}  {tool.name}", bold=True)
    output.say(tool.description, prose=True)
    for name, schema in tool.input_schema.get("properties", {}).items():
        needed = "needed" if name in tool.input_schema.get("required", []) else "optional"
        kind = schema.get("type", schema.get("enum", "any")) if isinstance(schema, dict) else "any"
        output.say(f"  {name}  {kind}, {needed}{_place(tool, name)}  {_described(schema)}".rstrip())
    facts = _facts(tool) | {"of this project": tool_override.words_of(list(local))}
    for title, value in filter(all, facts.items()):
        output.say(f"{title}: {value}")


@command.command("schema")
@click.argument("tool_id")
@json_option
def show_schema(tool_id: str, *, as_json: bool) -> None:
    """Print the JSON Schema of a tool's arguments: of its manifest, else read from its Python."""
    tool = project().catalog.find(tool_id).tool
    source = "manifest" if tool.schema_is_declared or tool.kind == "http" else "source"
    source = "server" if tool.kind == "mcp" else source
    shown = {
        "tool_id": tool.tool_id,
        "from": source,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
    }
    output.as_json(shown if as_json else tool.input_schema)


_TITLES = ("TOOL", "NAME", "SHOWS AS", "ASKS", "DESCRIPTION")


def _line(tool: Tool, broken: list[str]) -> tuple[str, ...]:
    state = "" if tool.enabled else f" ({tool.held_back or 'off'})"
    state = " (broken)" if tool.toolset_id in broken else state
    return (
        tool.tool_id + state,
        tool.name,
        tool.renderer.type if tool.renderer else "-",
        "yes" if tool.requires_confirmation else "-",
        tool.description.partition("\n")[0],
    )


def _facts(tool: Tool) -> dict[str, str]:
    asks = ", ".join(tool.confirmation)
    notes = tool.annotations.model_dump(exclude_none=True)
    runs = tool.entrypoint or (f"{tool.http.method} {tool.http.url}" if tool.http else "")
    held_back = f", {WHY_HELD_BACK[tool.held_back]}" if tool.held_back else ""
    return {
        "runs": f"{tool.upstream!r} of the MCP server {tool.server!r}" if tool.server else runs,
        "shown as": tool.renderer.type if tool.renderer else "JSON",
        "asks first": f"yes ({asks})" if asks else "no",
        "tags": ", ".join(tool.tags),
        "annotations": ", ".join(f"{key}: {str(value).lower()}" for key, value in notes.items()),
        "state": "on" if tool.enabled else f"off{held_back}",
    }


def _place(tool: Tool, name: str) -> str:
    """Return where an argument of an HTTP tool goes."""
    where = placement(tool.http).place_of(name) if tool.http else None
    return f", in the {where}" if where else ""


def _described(schema: object) -> str:
    return str(schema.get("description", "")) if isinstance(schema, dict) else ""


def _summary(tool: Tool, broken: list[str]) -> JsonObject:
    return {
        "tool_id": tool.tool_id,
        "path": tool.path,
        "toolset_id": tool.toolset_id,
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "requires_confirmation": tool.requires_confirmation,
        "enabled": tool.enabled,
        "held_back": tool.held_back,
        "entrypoint": tool.entrypoint,
        "renderer": tool.renderer.type if tool.renderer else None,
        "broken": tool.toolset_id in broken,
    }


def _detail(tool: Tool) -> JsonObject:
    dumped = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped | {"path": tool.path, "requires_confirmation": tool.requires_confirmation}
