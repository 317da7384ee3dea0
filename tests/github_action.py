"""Steps of the GitHub action, run as a runner runs them, with this checkout as ``covalt-git``."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from covalt_git import yaml_text
from tests.command import REPOSITORY

ACTION: Any = yaml_text.load((REPOSITORY / "action.yml").read_bytes(), "action.yml").data


def search_path(folder: Path) -> str:
    """Write a script ``covalt-git`` to a new folder; return a search path with it."""
    folder.mkdir()
    script = folder / "covalt-git"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m covalt_git "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def run_step(name: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step, whose inputs are environment variables."""
    (step,) = [one for one in ACTION["runs"]["steps"] if one.get("name") == name]
    assert "${{" not in step["run"]  # inputs reach a script as variables only
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
