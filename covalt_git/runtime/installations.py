"""Installation of a program: the files besides the system's that it needs to start."""

from __future__ import annotations

import shlex
from pathlib import Path

from covalt_git.system import programs

_MARKS = ("pyvenv.cfg", "lib/node_modules", "lib/python3*")
"""Files of a prefix that belongs to one interpreter; other prefixes, such as ``~/.local``, have files of many."""

_VERSIONS = ("versions", "installs")
"""Folders with the interpreters of a version manager (pyenv, asdf, mise), whose ``shims`` start one of them."""

_MOST_LINKS = 8

PACKAGES = "node_modules"
"""Folder of npm packages, which load each other."""


def installation(program: Path) -> tuple[Path, ...]:
    """Return the paths of a program, of its interpreter, and of what is installed beside them.

    A prefix with personal files counts as no installation: then only the program itself is returned.
    """
    paths: dict[Path, None] = {}
    waiting = [program]
    while waiting and len(paths) < _MOST_LINKS * len(_MARKS):
        path = waiting.pop()
        if path in paths or not path.exists():
            continue
        paths[path] = None
        paths |= dict.fromkeys(_prefix(path))
        if path.is_symlink():
            waiting.append(path.parent / path.readlink())
        waiting += _interpreters(path)
    return tuple(path.resolve() for path in paths)


def _prefix(program: Path) -> list[Path]:
    prefix = program.parent.parent
    shared = {Path("/"), Path.home(), Path.home() / ".local"}
    marks = {"bin": _MARKS, "shims": _VERSIONS}.get(program.parent.name, ())
    is_own = prefix not in shared and any(any(prefix.glob(mark)) for mark in marks)
    return [prefix] if is_own else []


def _interpreters(program: Path) -> list[Path]:
    """Return the interpreter of a script, and that of a virtual environment."""
    interpreters: list[Path] = []
    settings = program.parent.parent / "pyvenv.cfg"
    if settings.is_file():
        for line in settings.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, folder = line.partition("=")
            if name.strip() == "home":
                interpreters.append(Path(folder.strip()) / "python3")
    with program.open("rb") as file:
        first = file.readline(256)
    if first.startswith(b"#!"):
        words = shlex.split(first[2:].decode("utf-8", "replace"))
        if words and words[0].endswith("/env"):
            words = [path for path in map(programs.find, words[1:2]) if path]
        interpreters += map(Path, words[:1])
    return interpreters
