"""The command line before any command runs: help, versions, and what is loaded for them."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from covalt_git import __version__
from covalt_git.cli import COMMANDS, cli, main

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAVY = (
    *("yaml", "pydantic", "dulwich", "flask", "mcp", "rich", "jsonschema_rs", "rfc8785", "httpx2"),
    *("sqlite3", "asyncio", "docstring_parser", "watchdog", "jinja2"),
)


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["-h"]])
def test_help_loads_nothing_heavy(args: list[str]) -> None:
    program = (
        "import sys\n"
        "from covalt_git.cli import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    print('loaded:', *sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, check=False
    )

    loaded = set(done.stderr.rpartition("loaded: ")[2].split())
    assert done.returncode == 0
    assert "covalt_git.cli" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_has_help(name: str) -> None:
    command = import_module(f"covalt_git.cli.{name}").command

    result = CliRunner().invoke(cli, [name, "--help"])

    assert isinstance(command, click.Command)
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: cli {name} ")


def test_every_subcommand_says_in_one_line_what_it_does() -> None:
    silent = [
        f"{name} {sub}"
        for name in COMMANDS
        if isinstance(group := import_module(f"covalt_git.cli.{name}").command, click.Group)
        for sub, command in group.commands.items()
        if not command.get_short_help_str(limit=120).endswith(".")
        or command.get_short_help_str(limit=120).endswith("...")
    ]

    assert silent == []


def commands_of(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command of a group and of the groups in it, by its full name."""
    for sub, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{name} {sub}")
        else:
            yield f"{name} {sub}", command


def test_every_command_that_prints_facts_takes_json() -> None:
    without = [
        full
        for name in COMMANDS
        if isinstance(group := import_module(f"covalt_git.cli.{name}").command, click.Group)
        for full, command in commands_of(group, name)
        if not any("--json" in parameter.opts for parameter in command.params)
    ]

    assert without == []


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(cli, ["--version"]).output == f"covalt-git {__version__}\n"


def test_python_dash_m_is_the_same_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "covalt_git", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == f"covalt-git {__version__}\n"


def test_a_misspelt_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["valdate"])

    assert ended.value.code == 2
    assert "No such command 'valdate'. Did you mean 'validate'?" in capsys.readouterr().err
