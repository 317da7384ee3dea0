"""Where the commands come from that the journeys run: this checkout, and the wheel built from it."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from playwright.sync_api import Browser, BrowserContext

from tests.journeys.terminal import Terminal

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel_scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of the wheel, built from this checkout, where it finds only the packages that it requires."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ("hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run([sys.executable, "-m", *build], cwd=REPOSITORY, check=True)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    # By this environment's pip, as making one takes longer than all that it installs; what is
    # installed is compiled as it is imported, which most of it never is.
    pip = ("pip", "--python", environment, "--quiet", "--disable-pip-version-check", "install")
    options = ("--no-compile", "--no-deps", "--no-index")
    subprocess.run([sys.executable, "-m", *pip, *options, wheel], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (installed,) = metadata.distributions(path=[str(site)])
    for package in required(installed):
        for file in package.files or ():
            if ".." not in file.parts:  # scripts
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(package.locate_file(file)), site / file)
    return environment / "bin"


def required(package: metadata.Distribution) -> Iterator[metadata.Distribution]:
    """Yield what a package requires, and all that this requires, as it is installed here."""
    done, left = {(package.name, "")}, [(package, "")]
    while left:
        package, extra = left.pop()
        for requirement in map(Requirement, package.requires or ()):
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            needed = metadata.distribution(requirement.name)
            assert requirement.specifier.contains(needed.version, prereleases=True)
            yield needed
            new = {(needed.name, one) for one in ("", *requirement.extras)} - done
            done |= new
            left += [(needed, extra) for _, extra in new]


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """A terminal in a new project, which tests copy; its commands are those of this checkout."""
    scripts = Path(sys.executable).parent
    terminal = Terminal(tmp_path_factory.mktemp("new"), scripts, forked=True)
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
