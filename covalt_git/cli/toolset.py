"""``covalt-git toolset``."""

from __future__ import annotations

from typing import Any

import click

from covalt_git.cli import output
from covalt_git.cli.session import json_option, project
from covalt_git.installs import find_toolset, set_enabled


@click.group()
def command() -> None:
    """List toolsets, look at one, switch them on and off."""


@command.command("list")
@json_option
def list_toolsets(*, as_json: bool) -> None:
    """List the project's toolsets."""
    opened = project()
    with opened.index() as index:
        index.sync_toolsets()
        rows = index.toolsets()
    if as_json:
        output.as_json(rows)
        return
    if not rows:
        output.say("no toolsets; a toolset is a folder toolsets/<id>/ with a toolset.yaml")
        return
    output.table(
        [
            (
                row["id"],
                row["version"] or "-",
                str(row["tools"]),
                _state(row),
                row["description"] or "",
            )
            for row in rows
        ],
        titles=("TOOLSET", "VERSION", "TOOLS", "STATE", "DESCRIPTION"),
    )


@command.command("show")
@click.argument("toolset_id")
@json_option
def show_toolset(toolset_id: str, *, as_json: bool) -> None:
    """Show one toolset: its tools, its files, what it declares, and its problems."""
    opened = project()
    toolset = find_toolset(opened.root, toolset_id)
    tools = opened.catalog.visible(toolset.tools)
    manifest = toolset.manifest
    if as_json:
        shown = (
            manifest.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            if manifest
            else {}
        )
        output.as_json(
            {
                "id": toolset.id,
                "enabled": toolset.enabled,
                "digest": toolset.digest,
                "manifest": shown,
                "state": toolset.state.model_dump(mode="json", exclude_defaults=True),
                "tools": [tool.tool_id for tool in tools],
                "files": [file.path for file in toolset.files.files],
                "problems": [problem.as_json() for problem in toolset.problems],
            }
        )
        return
    output.problems(toolset.problems, opened.root)
    if manifest is None:
        return
    output.say(f"{manifest.id} {manifest.version}  {manifest.name}", bold=True)
    output.say(manifest.description)
    output.say(f"state: {'on' if toolset.enabled else 'off'}, {toolset.digest}")
    output.say(f"tools: {', '.join(tool.id.name for tool in tools) or 'none that you may see'}")
    output.say(f"files: {', '.join(file.path for file in toolset.files.files)}")
    declared = {
        "MCP servers": [server.id for server in manifest.mcp_servers],
        "sources": [source.id for source in manifest.sources],
        "secrets": list(manifest.secrets),
        "Python needs": list(manifest.python.dependencies),
    }
    for title, names in declared.items():
        if names:
            output.say(f"{title}: {', '.join(names)}")


@command.command("enable")
@click.argument("toolset_id")
@json_option
def enable(toolset_id: str, *, as_json: bool) -> None:
    """Switch a toolset on."""
    _switch(toolset_id, enabled=True, as_json=as_json)


@command.command("disable")
@click.argument("toolset_id")
@json_option
def disable(toolset_id: str, *, as_json: bool) -> None:
    """Switch a toolset off; its tools are listed as off and cannot be called."""
    _switch(toolset_id, enabled=False, as_json=as_json)


def _switch(toolset_id: str, *, enabled: bool, as_json: bool) -> None:
    opened = project()
    changed = set_enabled(opened.root, toolset_id, enabled=enabled)
    with opened.index() as index:
        index.sync_toolsets()
    if as_json:
        output.as_json({"toolset_id": toolset_id, "enabled": enabled, "changed": changed})
        return
    word = "on" if enabled else "off"
    output.say(f"{toolset_id} is {word}" if changed else f"{toolset_id} was {word} already")


def _state(row: dict[str, Any]) -> str:
    if not row["sound"]:
        return "broken"
    return "on" if row["enabled"] else "off"
