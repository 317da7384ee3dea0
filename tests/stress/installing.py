"""Programs of others that stress tests install into a cache folder."""

import os
import subprocess
from pathlib import Path

LONGEST_S = 600


def cached(name: str) -> Path:
    """Return the folder of that name in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "covalt-git" / name


def call(*words: str | Path) -> None:
    """Run a program that has to succeed."""
    subprocess.run([str(one) for one in words], check=True, timeout=LONGEST_S)


def npm_install(place: Path, package: str, *npm: str | Path) -> None:
    """Install a package of npm without running any of its code."""
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix")
    call(*(npm or ("npm",)), "install", *options, place, package)
