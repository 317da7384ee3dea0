"""A person's terminal: the installed commands, run as subprocesses in a folder of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Terminal:
    """Runs commands in ``folder`` with ``scripts`` first on the path."""

    folder: Path
    scripts: Path

    def run(self, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        home = self.folder.parent / "home"
        home.mkdir(exist_ok=True)
        environment = {
            "PATH": f"{self.scripts}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
        }
        return subprocess.run(
            argv,
            cwd=self.folder,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def covalt(self, *args: str, code: int = 0, stdin: str = "") -> str:
        """Run ``covalt-git``, expect its exit code, and return what it printed."""
        done = self.run("covalt-git", *args, stdin=stdin)
        assert done.returncode == code, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def json(self, *args: str, code: int = 0) -> Any:
        done = self.run("covalt-git", *args, "--json")
        assert done.returncode == code, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def git(self, *args: str) -> str:
        done = self.run("git", *args)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def at(self, folder: Path) -> Terminal:
        return Terminal(folder, self.scripts)


@pytest.fixture(scope="session")
def checkout_scripts() -> Path:
    """The scripts that `make test` installed beside this Python."""
    scripts = Path(sys.executable).parent
    assert (scripts / "covalt-git").exists(), "install the project first: make test"
    return scripts


@pytest.fixture(scope="session")
def wheel_scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of the wheel, built from this checkout and installed where nothing else is."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    skip = shutil.ignore_patterns(".git", ".venv", ".sample", "data", "__pycache__", ".*_cache")
    shutil.copytree(REPOSITORY, source, ignore=skip)
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    constraints = REPOSITORY / "constraints.txt"
    installed = subprocess.run(
        [
            *(str(environment / "bin" / "pip"), "install", "--quiet", str(wheel)),
            *("--constraint", str(constraints), "--disable-pip-version-check"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode != 0:
        reason = f"the wheel's dependencies cannot be installed here: {installed.stderr[-300:]}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return environment / "bin"


@pytest.fixture
def terminal(tmp_path: Path, checkout_scripts: Path) -> Terminal:
    folder = tmp_path / "here"
    folder.mkdir()
    return Terminal(folder, checkout_scripts)


@pytest.fixture
def project(terminal: Terminal) -> Terminal:
    """A terminal in a new project."""
    terminal.covalt("init", "demo")
    return terminal.at(terminal.folder / "demo")
