"""A person's terminal: the installed commands, run as subprocesses in a folder of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests import command


@dataclass(frozen=True)
class Terminal:
    """Runs commands in ``folder`` with ``scripts`` first on the path.

    With ``forked``, ours run in processes that have imported everything (:mod:`tests.command`).
    """

    folder: Path
    scripts: Path
    forked: bool = False

    def run(self, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        home = self.folder.parent / "home"
        home.mkdir(exist_ok=True)
        environment = {
            "PATH": f"{self.scripts}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
        }
        if self.forked and argv[0] == "covalt-git" and not stdin:
            return command.run(*argv[1:], cwd=self.folder, env=environment)
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

    @contextmanager
    def serving(self, command: str, *, end: int = signal.SIGTERM) -> Iterator[str]:
        """Run a command that serves, yield the address it prints, and end it, which it has to do well."""
        argv = [str(self.scripts / "covalt-git"), command, "--port", "0", "--json"]
        with subprocess.Popen(
            argv, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            try:
                yield json.loads(server.stdout.readline())["url"]
            finally:
                server.send_signal(end)
            _, err = server.communicate(timeout=30)
            assert server.returncode == 0
            assert "Traceback" not in err

    def at(self, folder: Path) -> Terminal:
        return replace(self, folder=folder)

    def copy(self, parent: Path) -> Terminal:
        """Copy the folder into another one, and return a terminal there."""
        return self.at(Path(shutil.copytree(self.folder, parent / self.folder.name, symlinks=True)))
