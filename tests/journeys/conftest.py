"""Where the commands come from that the journeys run: this checkout, and the wheel built from it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.browser import missing
from tests.journeys.terminal import Terminal

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def checkout_scripts() -> Path:
    """The scripts that `make test` installed next to this Python."""
    scripts = Path(sys.executable).parent
    assert (scripts / "covalt-git").exists(), "install the project first: make test"
    return scripts


@pytest.fixture(scope="session")
def wheel_scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of the wheel, built from this checkout and installed where nothing else is."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    skip = shutil.ignore_patterns(
        *(".git", ".venv", ".sample", "data", "node_modules", "__pycache__", ".*_cache")
    )
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
    # By this environment's pip, as making one takes longer than all that it installs; what is
    # installed is compiled as it is imported, which most of it never is.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    constraints = REPOSITORY / "constraints.txt"
    installed = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(environment), "install", "--no-compile"),
            *("--quiet", str(wheel), "--constraint", str(constraints)),
            "--disable-pip-version-check",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode != 0:
        missing("a package of the wheel", installed.stderr[-300:])
    return environment / "bin"


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory, checkout_scripts: Path) -> Terminal:
    """A terminal in a new project, which tests copy."""
    terminal = Terminal(tmp_path_factory.mktemp("new"), checkout_scripts, forked=True)
    terminal.covalt("init", "demo")
    return terminal.at(terminal.folder / "demo")


@pytest.fixture
def project(new_project: Terminal, tmp_path: Path) -> Terminal:
    """A terminal in a project of this test's own."""
    return new_project.copy(tmp_path / "here")


@pytest.fixture(scope="module")
def shared(new_project: Terminal, tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """A terminal in a project for all tests of a module."""
    return new_project.copy(tmp_path_factory.mktemp("shared") / "here")


@pytest.fixture(scope="module")
def url(shared: Terminal) -> Iterator[str]:
    """The URL with its token that ``covalt-git serve`` prints for the shared project."""
    with shared.serving("serve") as url:
        yield url


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser profile of this test's own, with a window of 400 pixels, so that pages scroll."""
    with chromium.new_context(viewport={"width": 1280, "height": 400}) as context:
        yield context
