"""Facts about this machine: its system, its programs and its free disk space."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from covalt_git import __version__
from covalt_git.runtime.sandbox import privileges
from covalt_git.system import programs

_LITTLE_ROOM = 1 << 30
_ASK_S = 10.0


class MachineFact(NamedTuple):
    """One thing about the machine; ``note`` says what follows, and is empty where nothing does."""

    name: str
    value: str
    note: str = ""


def facts(root: Path) -> tuple[MachineFact, ...]:
    """Return what matters about this machine to the project in ``root``."""
    return (
        MachineFact("covalt-git", __version__),
        MachineFact("python", f"{platform.python_version()} {sys.executable}"),
        MachineFact("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        MachineFact("user", "root", "better is a user of its own")
        if privileges.is_root()
        else MachineFact("user", "an ordinary one"),
        _program("git", missing="chats need none; cloning and pushing them does"),
        _program("uv", missing="pip installs `python.dependencies`, more slowly"),
        _room("disk", root),
        _room("temporary files", Path(tempfile.gettempdir())),
    )


def _program(name: str, *, missing: str) -> MachineFact:
    path = programs.find(name)
    if path is None:
        return MachineFact(name, "not found", missing)
    try:
        completed = programs.run(
            [path, "--version"], capture_output=True, text=True, check=True, timeout=_ASK_S
        )
    except (OSError, subprocess.SubprocessError):
        return MachineFact(name, path, "it does not print its version")
    words = [word for word in completed.stdout.split() if word[:1].isdigit()]
    return MachineFact(name, f"{words[0] if words else ''} {path}".strip())


def _room(name: str, folder: Path) -> MachineFact:
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    note = "little room is left" if free < _LITTLE_ROOM else ""
    return MachineFact(name, f"{free / (1 << 30):.1f} GiB free at {place}", note)
