"""Command line: a module for each noun, whose commands parse, call an operation and print.

Nothing heavy is imported here: a command's module is imported when the command is run.  ``--help`` reads
the first line of its docstring from the source, which takes 1 ms for all modules instead of seconds.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from covalt_git import __version__
from covalt_git.cli.command_names import COMMANDS
from covalt_git.errors import CovaltError, hint_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_HELP = re.compile(r'^def command\(.*?"""(?P<line>.*?)(?:"""|$)', re.MULTILINE | re.DOTALL)


class RootGroup(click.Group):
    """A group whose commands are modules of this package, imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order in which a new user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command."""
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"covalt_git.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of commands without importing any of them."""
        rows = []
        for name in COMMANDS:
            source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
            match = _HELP.search(source)
            rows.append((name, match["line"] if match else ""))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(
    cls=RootGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="covalt-git", message="%(prog)s %(version)s")
@click.option(
    "-C",
    "--root",
    type=click.Path(path_type=Path),
    default=Path(),
    envvar="COVALT_GIT_ROOT",
    help="Use the project in this folder instead of the current one.",
)
@click.option(
    "--role", envvar="COVALT_GIT_ROLE", help="Use this role of covalt.yaml instead of your own."
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="COVALT_GIT_LOG_FORMAT",
    help="Format of stderr: text, or one JSON object a line.",
)
@click.pass_context
def cli(ctx: click.Context, root: Path, role: str | None, log_format: str) -> None:
    """Keep an AI assistant's tools and its work in Git."""
    if log_format == "json":
        from covalt_git.cli.terminal import json_log  # noqa: PLC0415 - rarely used

        json_log.install()
    if os.environ.get("NO_COLOR"):  # no-color.org
        ctx.color = False
    ctx.obj = {"root": root, "role": role}


class _NoPlugins(ModuleType):
    """Replacement for pydantic's plugin loader that finds no plugins.

    The imports of the loader itself take a twentieth of a command, also if plugins are disabled.
    """

    replaces = "pydantic.plugin._loader"
    get_plugins = staticmethod(tuple)

    def __getattr__(self, name: str) -> Any:
        """Return anything else that a version of pydantic may import from the loader."""
        if name.startswith("__"):
            raise AttributeError(name)
        del sys.modules[self.replaces]
        return getattr(import_module(self.replaces), name)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 for success, 1 for problems, 2 for wrong arguments, 130 for Ctrl-C."""
    if sys.platform == "win32":
        sys.exit("covalt-git does not run on Windows yet: use it in WSL")
    sys.modules.setdefault(_NoPlugins.replaces, _NoPlugins(_NoPlugins.replaces))
    # Most objects of a command live until it ends, so that frequent garbage collection frees little, and the
    # collection at the end of the interpreter nothing that the end of the process does not.
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    argv = list(sys.argv[1:] if args is None else args)
    try:
        # Not standalone: click would print its errors itself, without hints and with hidden characters.
        code = cli.main(argv, prog_name="covalt-git", standalone_mode=False)
    except click.ClickException as error:
        _show_usage(error, argv)
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        _show_stopped()
        # 128 + SIGINT, as shells report it.
        sys.exit(130)
    except CovaltError as error:
        # From the arguments, because an error may occur before click has parsed them.
        _show(error, as_json="--json" in argv)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output has ended, as in `chat log | head`.
        # If stdout stayed as it is, Python would fail once more when it flushes it at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        problem = CovaltError(f"{error.filename or 'the system'}: {error.strerror or error}")
        _show(problem, as_json="--json" in argv)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _show_usage(error: click.ClickException, argv: Sequence[str]) -> None:
    from covalt_git.cli import usage_hints  # noqa: PLC0415 - only for an error
    from covalt_git.cli.terminal import output  # noqa: PLC0415 - only for an error
    from covalt_git.text import display  # noqa: PLC0415 - only for an error

    hint = ""
    if isinstance(error, click.UsageError):
        error = usage_hints.of_git(error)
        hint = usage_hints.hint_of(error, argv)
    message = error.format_message()
    hint = display.in_lines(hint_text(hint)) if hint else ""
    safe_message = display.in_lines(message)  # it contains the user's input
    if output.lines is not None:
        output.lines("\n".join(filter(None, (safe_message, hint))), level="error", error="usage")
        return
    if safe_message != message:
        # click declares the messages of its errors final, so an escaped one needs an error of its own.
        click.UsageError(safe_message, getattr(error, "ctx", None)).show()
    else:
        error.show()
    if hint:
        output.say(hint, err=True)


def _show_stopped() -> None:
    from covalt_git.cli.terminal import interrupt, output  # noqa: PLC0415 - only at the end

    # Keys repeat: a second Ctrl-C would end this process with a traceback.
    interrupt.pass_over()
    output.say("stopped", err=True)


def _show(error: CovaltError, **how: Any) -> None:
    from covalt_git.cli.terminal import output  # noqa: PLC0415 - only for an error

    output.error(error, **how)
