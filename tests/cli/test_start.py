"""The command line before a command runs: help, version, and what is loaded for them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import click
import pytest

from covalt_git import __version__
from covalt_git.cli import COMMANDS

HEAVY = (
    *("yaml", "pydantic", "dulwich", "flask", "mcp", "rich", "jsonschema_rs", "rfc8785", "httpx2"),
    *("sqlite3", "asyncio", "docstring_parser", "watchdog", "jinja2"),
)
LOADED = """\
import json, runpy, sys
sys.argv[0] = "covalt-git"
try:
    runpy.run_module("covalt_git", run_name="__main__")
finally:
    print(json.dumps([*sys.modules]), file=sys.stderr)
"""


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and those in it, by their words."""
    yield name, command
    if isinstance(command, click.Group):
        for sub, one in command.commands.items():
            yield from commands(one, f"{name} {sub}")


EVERY = [
    found
    for name in COMMANDS
    for found in commands(import_module(f"covalt_git.cli.{name}").command, name)
]


@pytest.mark.parametrize("option", ["--help", "--version", "-h"])
def test_help_loads_nothing_heavy(option: str) -> None:
    program = [sys.executable, "-c", LOADED, option]
    done = subprocess.run(program, capture_output=True, text=True, check=True)

    assert done.stdout.startswith(
        f"covalt-git {__version__}\n" if option == "--version" else "Usage: covalt-git "
    )
    assert not {*json.loads(done.stderr)} & {*HEAVY}


def test_every_command_that_prints_data_takes_json() -> None:
    leaves = {name: one for name, one in EVERY if " " in name and not isinstance(one, click.Group)}

    assert [
        name
        for name, one in leaves.items()
        if not any("--json" in parameter.opts for parameter in one.params)
    ] == []
