"""``covalt-git toolset``."""

from __future__ import annotations

import click

from covalt_git.cli.context import ask_to_print, context, say_no_toolsets
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.problem_text import print_problems
from covalt_git.cli.trust_question import print_not_trusted
from covalt_git.credentials.leaks import masked
from covalt_git.operations import toolset_imports, toolsets
from covalt_git.toolsets.new_toolset import TEMPLATES

_TITLES = ("TOOLSET", "VERSION", "TOOLS", "STATE", "DESCRIPTION")


@click.group(
    cls=Group,
    places={
        "update": "toolset_update.update_command",
        "diff": "toolset_update.diff_command",
    },
)
def command() -> None:
    """Create, list, show, enable, disable, update and uninstall toolsets."""


@command.command("new")
@click.argument("toolset_id", metavar="ID")
@click.option(
    "--template",
    type=click.Choice(TEMPLATES),
    default="python",
    show_default=True,
    help="The template.",
)
@click.option("--name", default="", help="Its name for users; default: derived from ID.")
def new_toolset(toolset_id: str, **fields: str) -> None:
    """Create the toolset ID from a template: Python, HTTP, an MCP server, a page for results, a plugin, or empty.

    Example: covalt-git toolset new notes
    """
    created = ask_to_print(toolsets.create_toolset, toolset_id=toolset_id, **fields)
    files = ", ".join(path.split("/", 2)[2] for path in created.made)
    output.say(f"created toolsets/{toolset_id}: {files}")
    output.say("next:")
    for step in created.next:
        output.say(f"  {step}")


@command.command("list")
def list_toolsets() -> None:
    """List the toolsets with tools that your role may see.

    Example: covalt-git toolset list
    """
    listing = ask_to_print(toolsets.list_toolsets)
    rows = [
        (
            row.id,
            row.version or "-",
            str(row.tools),
            _state(row),
            row.description.replace("\n", " "),
        )
        for row in listing.toolsets
    ]
    if rows:
        output.table(rows, titles=_TITLES)
    else:
        say_no_toolsets("covalt-git --role ROLE toolset list")
    if any(row.not_trusted for row in listing.toolsets):
        output.say("not trusted on this machine: covalt-git trust", fg="yellow")


@command.command("show")
@click.argument("toolset_id")
def show_toolset(toolset_id: str) -> None:
    """Show one toolset: its tools, files, declarations and problems.

    Example: covalt-git toolset show data-lab
    """
    toolset = ask_to_print(toolsets.get_toolset, toolset_id=toolset_id)
    if toolset.version:
        output.say(f"{toolset.id} {toolset.version}  {toolset.name}", bold=True)
        output.say(toolset.description, prose=True)
    output.say(f"state: {'enabled' if toolset.enabled else 'disabled'}, {toolset.digest}")
    names = [tool.tool_id.partition(":")[2] for tool in toolset.tools]
    # The names are texts of the author, and may contain a token by mistake.
    output.say(f"tools: {masked(', '.join(names)) or 'none'}")
    for title, declared in _declared(toolset).items():
        if declared:
            output.say(f"{title}: {masked(', '.join(declared))}")
    for server in toolset.mcp_servers:
        output.say(f"  {server.id}: {masked('; '.join(server.abilities))}")
    for lack in toolset.lacking:
        output.say(f"not granted: {lack.why}\n  hint: {lack.command}", fg="yellow")
    print_not_trusted(toolset)
    for claim in toolset.namespace_claims:
        words = f"the toolset {claim.toolset_id!r} declares the namespace {claim.namespace!r} too"
        place = f"{claim.problem.path}:{claim.problem.line}"
        if claim.is_listed:
            words += ", and the tools listed under it are those of that toolset"
        output.say(f"{words}: {place}\n  hint: {claim.problem.hint}", fg="yellow")
    print_problems(toolset.problems, context().project.root)


@command.command("enable")
@click.argument("toolset_id")
def enable(toolset_id: str) -> None:
    """Enable a toolset.

    Example: covalt-git toolset enable data-lab
    """
    _switch(toolset_id, enabled=True)


@command.command("disable")
@click.argument("toolset_id")
def disable(toolset_id: str) -> None:
    """Disable a toolset, whose tools are then listed as disabled and cannot be called.

    Example: covalt-git toolset disable data-lab
    """
    _switch(toolset_id, enabled=False)


@command.command("uninstall")
@click.argument("toolset_id")
@click.option("--force", is_flag=True, help="Also if git cannot restore its files.")
def uninstall_toolset(toolset_id: str, *, force: bool) -> None:
    """Remove a toolset and its state; chats keep its results.

    Without --force, it must be committed, so that git can restore it.

    Example: covalt-git toolset uninstall weather
    """
    gone = ask_to_print(toolset_imports.uninstall_toolset, toolset_id=toolset_id, force=force)
    output.say(f"{toolset_id} is removed")
    if gone.undo:
        output.say(f"restore it: {gone.undo}")


def _switch(toolset_id: str, *, enabled: bool) -> None:
    result = ask_to_print(toolsets.enable_toolset, toolset_id=toolset_id, enabled=enabled)
    word = "enabled" if enabled else "disabled"
    output.say(f"{toolset_id} is {word}" if result.changed else f"{toolset_id} was already {word}")


def _declared(toolset: toolsets.ToolsetDetail) -> dict[str, list[str]]:
    manifest = toolset.manifest or {}

    def ids(key: str) -> list[str]:
        return [item["id"] for item in manifest.get(key, ())]

    return {
        "files": [file.path for file in toolset.files],
        "prompts": ids("prompts"),
        "resources": ids("resources"),
        "MCP servers": ids("mcp_servers"),
        "skills": [skill.name for skill in toolset.skills],
        "sources": ids("sources"),
        "secrets": manifest.get("secrets", []),
        "Python needs": list(toolset.python_packages),
    }


def _state(row: toolsets.ToolsetRow) -> str:
    if not row.sound:
        return "broken"
    if row.errors:
        return "has errors"
    if not row.enabled:
        return "disabled"
    if row.not_trusted:
        return "not trusted"
    return "needs a grant" if row.lacks_grants else "enabled"
