"""Modules that commands load, and help and version without a command."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from covalt_git import __version__
from tests import command

if TYPE_CHECKING:
    from pathlib import Path

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


UNUSED = {
    "tool list": (
        *("flask", "mcp", "jsonschema_rs", "dulwich", "covalt_git.operations.chats"),
        "covalt_git.credentials.leaks",
    ),
    "chat log c1": (
        "flask",
        "mcp",
        "jsonschema_rs",
        "covalt_git.checks",
        "covalt_git.credentials.leaks",
        "covalt_git.operations.tools",
    ),
    "validate": ("flask", "mcp", "dulwich", "sqlite3", "covalt_git.operations.tools"),
}


def modules_of(*args: str) -> tuple[str, set[str]]:
    """Return what a command prints, and the names of the modules that it loads."""
    program = [sys.executable, "-c", LOADED, *args]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    return done.stdout, set(json.loads(done.stderr))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("start") / "project"
    command.run("init", str(root))
    command.run("-C", str(root), "chat", "new")
    command.run("-C", str(root), "tool", "list")  # reads the toolsets into the index
    return root


@pytest.mark.parametrize("line", UNUSED)
def test_a_command_loads_only_what_it_uses(project: Path, line: str) -> None:
    _, modules = modules_of("-C", str(project), *line.split())

    assert modules.intersection({*UNUSED[line], "importlib.metadata"}) == set()


def test_pydantic_may_still_import_anything_else_from_its_loader_of_plugins() -> None:
    program = """\
from covalt_git.cli import main
try:
    main()
finally:
    from pydantic.plugin._loader import PYDANTIC_ENTRY_POINT_GROUP
    print(PYDANTIC_ENTRY_POINT_GROUP)
"""
    argv = [sys.executable, "-c", program, "formats"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert done.stdout.endswith("\npydantic\n")


@pytest.mark.parametrize("command", ["valdate", "log c1", "chat log2 c1", "chat zzz c1"])
def test_an_unknown_command_loads_nothing_heavy_and_no_other_command(command: str) -> None:
    program = [sys.executable, "-c", LOADED, *command.split()]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    *shown, modules = done.stderr.splitlines()

    assert any("No such command" in line for line in shown), shown
    loaded = {*json.loads(modules)}
    assert not loaded & {*HEAVY}
    assert not {name for name in loaded if name.startswith("covalt_git.operations")}


@pytest.mark.parametrize("option", ["--help", "--version", "-h"])
def test_help_loads_nothing_heavy(option: str) -> None:
    printed, modules = modules_of(option)

    assert printed.startswith(
        f"covalt-git {__version__}\n" if option == "--version" else "Usage: covalt-git "
    )
    assert not modules & {*HEAVY}
