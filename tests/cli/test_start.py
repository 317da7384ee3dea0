"""The command line before a command runs: help, version, and what is loaded for them."""

import json
import subprocess
import sys

import pytest

from covalt_git import __version__

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


@pytest.mark.parametrize("option", ["--help", "--version", "-h"])
def test_help_loads_nothing_heavy(option: str) -> None:
    program = [sys.executable, "-c", LOADED, option]
    done = subprocess.run(program, capture_output=True, text=True, check=True)

    assert done.stdout.startswith(
        f"covalt-git {__version__}\n" if option == "--version" else "Usage: covalt-git "
    )
    assert not {*json.loads(done.stderr)} & {*HEAVY}
