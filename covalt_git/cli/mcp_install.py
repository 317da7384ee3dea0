"""``covalt-git mcp install``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from covalt_git.access import UnknownRoleError
from covalt_git.cli import mcp_hosts
from covalt_git.cli.context import project, warn_without_role
from covalt_git.cli.groups import JsonCommand, wants_json
from covalt_git.cli.terminal import output
from covalt_git.errors import CovaltError, WrongCallError
from covalt_git.formats.mcp_clients import text_edit
from covalt_git.formats.mcp_clients.host_files import TOKEN_VARIABLE
from covalt_git.manifests.machine_folders import check_no_link
from covalt_git.serving.server_registry import pages_url
from covalt_git.system.node_folder import node_of

if TYPE_CHECKING:
    from covalt_git.cli.mcp_hosts import HostFile


@click.command("install", cls=JsonCommand)
@click.argument("host_name", metavar="HOST", type=click.Choice(list(mcp_hosts.BY_NAME)))
@click.option(
    "--name", default="covalt-git", show_default=True, help="The server's name in the host."
)
@click.option("--print", "only_print", is_flag=True, help="Print the entry, write nothing.")
@click.option(
    "--http",
    "served",
    is_flag=True,
    help="Use the URL of the running covalt-git serve, instead of a command.",
)
@click.option("--yes", is_flag=True, help="Write it without asking.")
@click.pass_context
def command(
    ctx: click.Context,
    host_name: str,
    name: str,
    *,
    only_print: bool,
    served: bool,
    yes: bool,
) -> None:
    """Add the server to the configuration of HOST, after it shows the entry.

    HOST is claude-code, claude-desktop, vscode, cursor, windsurf, opencode, codex, gemini-cli, zed, cline,
    continue, goose or lm-studio.  Other content of the file is neither changed nor shown.

    Options of `covalt-git mcp` come before `install`: `covalt-git mcp --mode search install cursor`.
    The default of --names is underscore, which every host accepts.

    With --http, the host sends the token in COVALT_GIT_AGENT_TOKEN.  This prints the command that creates
    such a token: `covalt-git token new`, with the same --role and --chat.

    Example: covalt-git mcp install claude-code
    """
    check_role(_parent(ctx))
    server = _address(ctx) if served else _args(ctx)
    file = mcp_hosts.with_server(
        mcp_hosts.BY_NAME[host_name], node_of(project().root), server, name
    )
    token = _token_command(ctx, host_name) if served else None
    if not served:
        command = f"covalt-git mcp --role ROLE install {host_name}"
        warn_without_role(project(), _role(ctx), command, is_agent=True)
    if only_print:
        output.as_json({name: file.entry})
        _print_token(token)
        return
    root = node_of(project().root)
    # A clone may have a link in place of .vscode (test_mcp_install_writes_no_file_through_a_link).
    if file.path.is_relative_to(root):
        check_no_link(root, file.path)
    changed = file.before != file.after
    if not wants_json() and changed:
        _show(file)
    writes = changed and (yes or _user_confirms(file))
    if writes:
        mcp_hosts.write(file)
    if wants_json():
        result = {"path": str(file.path), "entry": file.entry, "written": writes}
        output.as_json(result if token is None else result | {"token_with": token})
    elif not changed:
        output.say(f"{file.path} already has this entry")
    elif writes:
        output.say(f"written: {file.path}", dim=True)
        _print_token(token)
    if changed and not writes:
        raise SystemExit(1)


def check_role(parent: click.Context) -> None:
    """Check that the role and the chat of `covalt-git mcp` exist.

    Not for `--help` of its commands, which needs no project.

    Raises:
        UnknownRoleError: if the role does not exist.
        UnknownNameError: if the chat does not exist.
    """
    opened = project()
    # Also before `install`, which would write a wrong name into the file of a host.
    role = parent.params["role"] or opened.principal.role
    if role is not None and role not in opened.config.roles:
        raise UnknownRoleError(role, opened.config.roles)
    if parent.params["chat_id"] is not None:
        opened.chats.one(parent.params["chat_id"])


def _parent(ctx: click.Context) -> click.Context:
    """Return the context of `covalt-git mcp`, which has its options."""
    assert ctx.parent is not None  # the command is in a group
    return ctx.parent


def _role(ctx: click.Context) -> str | None:
    """Return the role of `covalt-git mcp` or of `covalt-git`."""
    role: str | None = _parent(ctx).params["role"] or ctx.find_root().obj["role"]
    return role


def _args(ctx: click.Context) -> list[str]:
    """Return the arguments with which a host starts the server: the options of `covalt-git mcp`."""
    parent, role = _parent(ctx), _role(ctx)
    options = _options(parent) | ({} if role is None else {"role": role})
    options["names"] = _style(parent)
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def _address(ctx: click.Context) -> str:
    """Return the URL of the running server, with the options of `covalt-git mcp`."""
    parent = _parent(ctx)
    url = pages_url(project().root)
    if url is None:
        raise CovaltError("no server of this project is running", hint="covalt-git serve")
    return f"{url}/mcp?{urlencode({**_options(parent), 'names': _style(parent)})}"


def _options(parent: click.Context) -> dict[str, str]:
    options = (("chat", "chat_id"), ("mode", "mode"))
    return {
        name: parent.params[parameter] for name, parameter in options if _is_set(parent, parameter)
    }


def _style(parent: click.Context) -> str:
    """Return the style of tool names; by default the style that every host accepts."""
    return str(parent.params["style"]) if _is_set(parent, "style") else "underscore"


def _token_command(ctx: click.Context, host: str) -> str:
    """Return the command that creates the host's token."""
    chat = _parent(ctx).params["chat_id"]
    chat_option = "" if chat is None else f" --chat {chat}"
    return f"covalt-git token new --role {_role(ctx) or 'ROLE'} --name {host}{chat_option}"


def _print_token(command: str | None) -> None:
    if command is not None:
        output.say(f"it sends the token in {TOKEN_VARIABLE}; create one: {command}", err=True)


def _is_set(ctx: click.Context, name: str) -> bool:
    # By its source, because the defaults of `mcp` are not those of `install`: hosts differ in the names that they
    # accept.
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _show(file: HostFile) -> None:
    """Print the entry alone: other lines of the file can have credentials."""
    verb = "replaces" if file.has_entry else "is added to"
    output.say(f"{file.name!r} {verb} {'the entry in ' if file.has_entry else ''}{file.path}:")
    for line in text_edit.entry_text(file.host, file.name, file.entry).splitlines():
        output.fact(f"+{line}", fg="green")


def _user_confirms(file: HostFile) -> bool:
    if wants_json() or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongCallError(f"nothing was written to {str(file.path)!r}: add --yes to write it")
    return output.confirm("write it?")
