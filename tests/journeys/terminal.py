"""A person's terminal: the installed commands, run as subprocesses in a folder of their own."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from tests import command


@dataclass(frozen=True)
class Terminal:
    """Runs commands in ``folder`` with ``scripts`` first on the path.

    With ``forked``, ours run in processes that have imported everything (:mod:`tests.command`).  The person's own
    files are in ``home``, by default beside the first folder.
    """

    folder: Path
    scripts: Path
    forked: bool = False
    home: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        home = self.home or self.folder.parent / "home"
        home.mkdir(exist_ok=True)
        path = f"{self.scripts}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        if self.forked and argv[0] == "covalt-git":
            return command.run(*argv[1:], cwd=self.folder, env=self.environment)
        return subprocess.run(
            argv,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def covalt(self, *args: str, code: int = 0) -> str:
        """Run ``covalt-git``, expect its exit code, and return what it printed."""
        done = self.run("covalt-git", *args)
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

    @contextmanager
    def serving(self, name: str, *, end: int = signal.SIGTERM) -> Iterator[str]:
        """Run a command that serves, yield the address it prints, and end it, which it has to do well."""
        options = ("--port", "0", "--json")
        server = command.Piped(name, *options, cwd=self.folder, env=self.environment)
        try:
            yield json.loads(server.stdout.readline())["url"]
        finally:
            os.kill(server.pid, end)
            done = server.end()
        assert done.returncode == 0
        assert "Traceback" not in done.stderr

    def at(self, folder: Path) -> Self:
        return replace(self, folder=folder, home=self.home or self.folder.parent / "home")

    def copy(self, parent: Path) -> Self:
        """Copy the folder into another one, of a user with the same files, and return a terminal there."""
        home = self.home or self.folder.parent / "home"
        folder = Path(shutil.copytree(self.folder, parent / self.folder.name, symlinks=True))
        if home.exists():
            shutil.copytree(home, parent / "home", symlinks=True)
        return replace(self, folder=folder, home=parent / "home")
