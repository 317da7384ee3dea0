"""Hints for misspelt names propose nothing that deletes or overwrites something."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("chat remove c1", ""),
        ("chat delet c1", ""),
        ("token revok ci", ""),
        ("toolset create x", ""),
        ("delete", ""),
        ("convert x --forse", ""),
        ("chat lgo c1", "did you mean 'log'?"),
    ],
)
def test_no_destructive_command_is_proposed(line: str, hint: str) -> None:
    program = "from covalt_git.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, *line.split()], capture_output=True, text=True, check=False
    )

    error = ended.stderr.partition("Error: ")[2].casefold()
    assert ("did you mean" in error or "hint:" in error) == bool(hint), ended.stderr
    assert hint in error
