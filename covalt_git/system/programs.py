"""Programs that we start outside of the sandbox, with the user's account: installers, ssh-keygen, browsers.

covalt-git often runs in a project of another author.  The project must not decide what these programs do:

- The current folder is ``/``, where only root writes.  In the project's, ``python -m NAME`` would import its
  ``NAME.py``, and uv would read its ``uv.toml``.
- A name is searched for in the absolute folders of ``PATH`` only, and programs inherit only these: ``.``, an empty
  entry or ``node_modules/.bin`` would be the project's.
- Our interpreter is isolated (``-I``).  Interpreters that a program starts get no ``PYTHONPATH``.

So this is the only module that starts such programs, except for the SDK that starts MCP servers
(:mod:`covalt_git.connections.transports`).  ``tests/test_started_programs.py`` checks this.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = "/"
"""The current folder of each program."""

_BROWSE = "import sys, webbrowser; webbrowser.open(sys.argv[1])"


def find(name: str) -> str | None:
    """Return the absolute path of a program, or None if it does not exist; ``name`` can be an absolute path."""
    if "/" in name and not Path(name).is_absolute():
        return None
    return shutil.which(name, path=search_path())


def search_path(path: str | None = None) -> str:
    """Return ``path``, by default ``PATH``, without relative folders."""
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if Path(folder).is_absolute())


def environment() -> dict[str, str]:
    """Return the user's environment for a program: with absolute folders in ``PATH``, without Python's variables."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return usual | {"PATH": search_path()}


def python(*arguments: str) -> list[str]:
    """Return the command that runs our interpreter, isolated from variables, the current folder and the user's packages."""
    return [sys.executable, "-I", *arguments]


def start(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[Any]:
    """Start a program in ``/``; ``env`` is :func:`environment` by default, ``options`` are those of ``Popen``.

    Raises:
        FileNotFoundError: if the program does not exist.
        OSError: if it cannot be started.
    """
    return subprocess.Popen(_found(argv), cwd=FOLDER, env=_environment(env), **options)


def run(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a program in ``/`` until it ends; ``options`` are those of ``subprocess.run``.

    Raises:
        OSError: as :func:`start`.
        subprocess.SubprocessError: as ``subprocess.run``.
    """
    options = {"check": False, **options}
    return subprocess.run(_found(argv), cwd=FOLDER, env=_environment(env), **options)  # noqa: PLW1510 - in the options


def browse(url: str, **options: Any) -> None:
    """Show a URL in the user's browser; return when the program that opens it ends.

    The URL is a separate argument, never part of a shell command.
    """
    run(python("-c", _BROWSE, url), **options)


def _found(argv: Sequence[str]) -> list[str]:
    """Return a command with the path of its program."""
    # The absolute path: `Popen` would look a name up again, in every folder of PATH.
    name, *arguments = argv
    path = find(name)
    if path is None:
        raise FileNotFoundError(f"there is no program {name!r} in an absolute folder of PATH")
    return [path, *arguments]


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    # A program looks up the programs that it starts in this PATH, also in one that a toolset declares.
    if env is None:
        return environment()
    return {**env, "PATH": search_path(env["PATH"])} if "PATH" in env else dict(env)
