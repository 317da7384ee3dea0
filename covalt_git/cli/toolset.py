"""``covalt-git toolset``."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from covalt_git.cli import output
from covalt_git.cli.context import as_admin, json_option, project, toolsets_indexed
from covalt_git.cli.problem_text import print_problems
from covalt_git.cli.toolset_update import diff_command, update_command
from covalt_git.grants.status import lacking
from covalt_git.hosts import origin_of
from covalt_git.installs.uninstall import undo_command, uninstall
from covalt_git.json_values import canonical_json
from covalt_git.templating.url_templates import UrlTemplate
from covalt_git.toolsets.new_toolset import TEMPLATES, Template, create_toolset
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.toolsets.toolset import Toolset


@click.group()
def command() -> None:
    """Make toolsets, list them, look at one, switch them on and off, update and remove them."""


@command.command("new")
@click.argument("toolset_id", metavar="ID")
@click.option(
    "--template",
    type=click.Choice(TEMPLATES),
    default="python",
    show_default=True,
    help="What to begin with.",
)
@click.option("--name", default="", help="Its name for people; made from ID where it is left out.")
@json_option
def new_toolset(toolset_id: str, template: Template, name: str, *, as_json: bool) -> None:
    """Make the toolset ID from a template: Python, HTTP, an MCP server, or a page for results."""
    opened = project()
    made = create_toolset(opened.root, toolset_id, template=template, name=name)
    toolset = read_toolset(opened.root, toolset_id)
    chats = opened.chats.ids()
    steps = first_steps(toolset, chats[0] if chats else None)
    if as_json:
        output.as_json({"toolset_id": toolset_id, "made": made, "next": steps})
        return
    output.say(f"made toolsets/{toolset_id}: {', '.join(path.split('/', 2)[2] for path in made)}")
    output.say("next:")
    for step in steps:
        output.say(f"  {step}")


@command.command("list")
@json_option
def list_toolsets(*, as_json: bool) -> None:
    """List the project's toolsets, as far as your role may see tools of them."""
    opened = project()
    with opened.index() as index:
        index.sync_toolsets()
        rows = index.toolsets()
        tools = index.tools()
        tool_ids = index.toolset_tools()
    visible = Counter(tool.toolset_id for tool in opened.catalog.visible(tools))
    rows = [
        row | {"tools": visible[row["id"]]}
        for row in rows
        if opened.catalog.sees_one_of(row["id"], tool_ids.get(row["id"], ()))
    ]
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
                (row["description"] or "").replace("\n", " "),
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
    toolset = opened.catalog.find_toolset(toolset_id)
    tools = opened.catalog.visible(toolset.tools)
    # What a role may not call does not exist for it, and the toolset's own files would tell of it.
    everything = opened.catalog.sees_all_of(toolset.id, toolset.tool_ids)
    if as_json:
        output.as_json(_detail(toolset, [tool.tool_id for tool in tools], everything=everything))
        return
    manifest = toolset.manifest
    if manifest is not None:
        output.say(f"{manifest.id} {manifest.version}  {manifest.name}", bold=True)
        output.say(manifest.description, prose=True)
    output.say(f"state: {'on' if toolset.enabled else 'off'}, {toolset.digest}")
    output.say(f"tools: {', '.join(tool.id.name for tool in tools) or 'none'}")
    if everything:
        for title, names in _declared(toolset).items():
            if names:
                output.say(f"{title}: {', '.join(names)}")
        for one in lacking(toolset):
            output.say(f"not granted: {one.why}\n  hint: {one.command}", fg="yellow")
        print_problems(toolset.problems, opened.root)


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


command.add_command(update_command, "update")
command.add_command(diff_command, "diff")


@command.command("uninstall")
@click.argument("toolset_id")
@click.option("--force", is_flag=True, help="Also where nothing could bring its files back.")
@json_option
def uninstall_toolset(toolset_id: str, *, force: bool, as_json: bool) -> None:
    """Remove a toolset with what this project decided about it; chats keep what it did.

    It has to be in the last commit as it is, so that Git can bring it back.
    """
    opened = as_admin("remove toolsets")
    undo = undo_command(opened.root, toolset_id)
    gone = uninstall(opened.root, toolset_id, force=force)
    toolsets_indexed(opened)
    if as_json:
        output.as_json({"toolset_id": toolset_id, "digest": gone.digest})
        return
    output.say(f"{toolset_id} is removed")
    if not force:
        output.say(f"to undo it: {undo}")


def _switch(toolset_id: str, *, enabled: bool, as_json: bool) -> None:
    opened = as_admin("switch toolsets")
    changed = set_enabled(opened.root, toolset_id, enabled=enabled)
    toolsets_indexed(opened)
    if as_json:
        output.as_json({"toolset_id": toolset_id, "enabled": enabled, "changed": changed})
        return
    word = "on" if enabled else "off"
    output.say(f"{toolset_id} is {word}" if changed else f"{toolset_id} was {word} already")


def _declared(toolset: Toolset) -> dict[str, list[str]]:
    files = [file.path for file in toolset.files.files]
    if toolset.manifest is None:
        return {"files": files}
    return {
        "files": files,
        "prompts": [prompt.id for prompt in toolset.manifest.prompts],
        "resources": [resource.id for resource in toolset.manifest.resources],
        "MCP servers": [server.id for server in toolset.manifest.mcp_servers],
        "sources": [source.id for source in toolset.manifest.sources],
        "secrets": list(toolset.manifest.secrets),
        "Python needs": list(toolset.manifest.python.dependencies),
    }


def _detail(toolset: Toolset, tools: list[str], *, everything: bool) -> JsonObject:
    shown = {"id": toolset.id, "enabled": toolset.enabled, "digest": toolset.digest, "tools": tools}
    if not everything:
        return shown
    manifest = toolset.manifest
    return shown | {
        "manifest": manifest
        and manifest.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        "state": toolset.state.model_dump(mode="json", exclude_defaults=True),
        "files": [file.path for file in toolset.files.files],
        "lacking": [one._asdict() for one in lacking(toolset)],
        "problems": [problem.as_json() for problem in toolset.problems],
    }


def _state(row: dict[str, Any]) -> str:
    if not row["sound"]:
        return "broken"
    return "on" if row["enabled"] else "off"


def first_steps(toolset: Toolset, chat_id: str | None) -> list[str]:
    """Return commands for a shell in the project; calls are made in a chat, a new one if there is none."""
    steps = [f"covalt-git validate toolsets/{toolset.id}"]
    tool = next(iter(toolset.tools), None)
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    if tool is None and servers:
        grants = [_granting_server(toolset, server) for server in servers]
        return [*steps, *grants, f"covalt-git source refresh {toolset.id}"]
    if tool is None:
        return [*steps, f"covalt-git toolset show {toolset.id}"]
    if tool.http is not None:
        steps.append(_granting(toolset, tool))
    steps.append(f"covalt-git tool test {toolset.id}")
    if chat_id is None:
        chat_id = "c1"
        steps.append(f"covalt-git chat new --id {chat_id}")
    example = next(iter(tool.examples), None)
    args = canonical_json.dumps(example.args).decode() if example else "{}"
    return [*steps, f"covalt-git call {chat_id} {tool.tool_id} {shlex.quote(args)}"]


def _granting_server(toolset: Toolset, server: McpServer) -> str:
    kind = "server" if server.command is None else "process"
    return f"covalt-git grant add {toolset.id} {kind} {server.id}"


def _granting(toolset: Toolset, tool: Tool) -> str:
    assert tool.http is not None
    origin, _ = origin_of(UrlTemplate.parse(tool.http.url).begins)
    return f"covalt-git grant add {toolset.id} network {origin.shown_host}"
