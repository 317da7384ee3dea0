"""``covalt-git mcp``: the project's tools for agents."""

from __future__ import annotations

import sys
from functools import partial
from typing import Literal, get_args

import click

from covalt_git.cli import mcp_import, mcp_install
from covalt_git.cli.context import project, warn_without_role
from covalt_git.cli.terminal import output
from covalt_git.serving.server_registry import approval_url
from covalt_git.system.node_folder import node_of

Mode = Literal["direct", "search"]
Style = Literal["dots", "underscore"]


@click.group(invoke_without_command=True)
@click.option(
    "--role", help="The role of covalt.yaml that the agent gets; default: the --role of covalt-git."
)
@click.option(
    "--chat",
    "chat_id",
    metavar="CHAT",
    help="Work in this chat; default: a new one for the client.",
)
@click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    default="direct",
    show_default=True,
    help="List all tools, or only search_tools, read_tool and call_tool.",
)
@click.option(
    "--names",
    "style",
    type=click.Choice(get_args(Style)),
    default="dots",
    show_default=True,
    help="Style of tool names, for hosts that reject app-builder.write_file.",
)
@click.pass_context
def command(
    ctx: click.Context, role: str | None, chat_id: str | None, mode: Mode, style: Style
) -> None:
    """Serve the project's tools to an agent, over the Model Context Protocol.

    The agent's host starts this command, which communicates over standard input and output.

    Example: covalt-git mcp --chat c1
    """
    if ctx.invoked_subcommand is not None:
        return
    mcp_install.check_role(ctx)
    opened = project()
    under = opened.principal.role if role is None else role
    only = None if chat_id is None else opened.chats.one(chat_id)
    warn_without_role(opened, under, "covalt-git mcp --role ROLE", is_agent=True)
    if sys.stdin.isatty():
        output.say("waiting for MCP on standard input; Ctrl-D stops", err=True)
        output.say("  hint: covalt-git mcp install claude-code", err=True)
    # Imported here, because this takes half a second.
    from covalt_git.gateway import stdio  # noqa: PLC0415
    from covalt_git.gateway.service import Gateway  # noqa: PLC0415

    node = node_of(opened.root)  # new calls run its new commits
    pages = partial(approval_url, node)
    stdio.serve(Gateway(node, under, style, mode, pages=pages, only=only))


command.add_command(mcp_install.command)
command.add_command(mcp_import.command)
