"""The command line: one file a noun, each command parses, calls and prints.

Nothing heavy is imported here: a command's module is loaded when the command is run, and its one
line of help stands in the table below, so that ``--help`` is there at once.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from covalt_git import __version__
from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "init": "Make a project with three sample toolsets.",
    "validate": "Check everything that is checked in; run nothing of it.",
    "explain": "Tell what a problem code means, and how to mend it.",
    "schema": "Print the JSON Schema of a file, for editors.",
    "toolset": "Make toolsets, list them, look at one, switch them on and off, update and remove them.",
    "bundle": "Put a toolset into one file, to give it away; take one in.",
    "tool": "List the tools you may call, find some, look at one, run its examples.",
    "grant": "Let a toolset reach hosts and send secrets to them; take it back.",
    "source": "See what MCP servers give, ask them again, accept what they changed.",
    "secret": "See which secrets are asked for, and where they come from.",
    "auth": "Sign in to MCP servers that want to know who asks.",
    "authority": "Show what toolsets can do, and what a change would newly permit.",
    "chat": "Make chats; look at, branch and change their workspaces.",
    "call": "Call a tool in a chat.",
    "approval": "Settle the calls that wait for a person.",
    "dev": "Show it while you edit toolsets, and check every save.",
    "serve": "Show the project in your browser.",
    "mcp": "Give the tools to an agent, over the Model Context Protocol.",
    "token": "Let agents in at /mcp of the server, and out again.",
    "index": "Rebuild or inspect the index, a cache of the files.",
    "doctor": "Show how well tools are shut in on this machine.",
}


class LazyGroup(click.Group):
    """A group whose commands are modules of this package, imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command."""
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"covalt_git.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where there is none of that name."""
        from covalt_git.errors import nearest_name  # noqa: PLC0415 - only for a typo

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = nearest_name(args[0], COMMANDS)
            hint = f" Did you mean '{near}'?" if near else ""
            raise click.UsageError(f"No such command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="covalt-git", message="%(prog)s %(version)s")
@click.option(
    "-C",
    "--root",
    type=click.Path(path_type=Path),
    default=Path(),
    envvar="COVALT_GIT_ROOT",
    help="Work on the project in this folder instead of here.",
)
@click.option(
    "--role", envvar="COVALT_GIT_ROLE", help="Act under this role of covalt.yaml, not your own."
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="COVALT_GIT_LOG_FORMAT",
    help="Write the error stream for people, or as one JSON object a line.",
)
@click.pass_context
def cli(ctx: click.Context, root: Path, role: str | None, log_format: str) -> None:
    """Keep an AI assistant's tools and its work in Git."""
    if log_format == "json":
        from covalt_git.cli import log_lines  # noqa: PLC0415 - only where it is wanted

        log_lines.install()
    if os.environ.get("NO_COLOR"):  # no-color.org
        ctx.color = False
    ctx.obj = {"root": root, "role": role}


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 problems, 2 a wrong call, 130 Ctrl-C."""
    if sys.platform == "win32":
        sys.exit("covalt-git does not run on Windows yet: use it in WSL")
    # Looking for what other packages may add to pydantic takes a tenth of a command's start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    argv = list(sys.argv[1:] if args is None else args)
    try:
        code = cli.main(argv, standalone_mode=False)
    except click.ClickException as error:
        _show_usage(error, argv)
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        _show_stopped()
        sys.exit(130)
    except CovaltError as error:
        _show(error, as_json="--json" in argv)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has enough: `chat log | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        problem = CovaltError(f"{error.filename or 'the system'}: {error.strerror or error}")
        _show(problem, as_json="--json" in argv)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _show_usage(error: click.ClickException, argv: Sequence[str]) -> None:
    from covalt_git.cli import output, removed  # noqa: PLC0415 - only for an error
    from covalt_git.text import display  # noqa: PLC0415 - only for an error

    error = removed.explained(error, argv)
    message = error.format_message()
    shown = display.in_lines(message)  # it repeats what was typed or pasted
    if output.lines is not None:
        output.lines(shown, level="error", error="usage")
    elif shown != message:
        click.UsageError(shown, getattr(error, "ctx", None)).show()
    else:
        error.show()


def _show_stopped() -> None:
    from covalt_git.cli import output, stopping  # noqa: PLC0415 - only at the end

    stopping.pass_over()
    output.say("stopped", err=True)


def _show(error: CovaltError, **how: Any) -> None:
    from covalt_git.cli import output  # noqa: PLC0415 - only for an error

    output.error(error, **how)
