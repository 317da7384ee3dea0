"""Running a command as at a prompt, in a process of its own; see :mod:`tests.command_server`."""

from __future__ import annotations

import atexit
import functools
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).parent.parent


def run(
    *args: str, cwd: Path | str = ".", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``covalt-git`` with these arguments, and return what it printed and how it ended."""
    done = run_raw(*args, cwd=cwd, env=env)
    said, errors = (one.decode("utf-8", "backslashreplace") for one in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, said, errors)


def run_raw(
    *args: str, cwd: Path | str = ".", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run it as :func:`run` does, and return the bytes that it printed."""
    told = {
        "args": args,
        "cwd": str(Path(cwd).resolve()),
        "env": dict(os.environ if env is None else env),
    }
    with TemporaryFile() as given, TemporaryFile() as said, TemporaryFile() as errors:
        ended, ends = os.pipe()
        try:
            streams = [one.fileno() for one in (given, said, errors)]
            socket.send_fds(_server()[0], [json.dumps(told).encode()], [*streams, ends])
        finally:
            os.close(ends)
        with os.fdopen(ended, "rb") as status:
            code = int(status.read())
        for one in (said, errors):
            one.seek(0)
        printed = said.read(), errors.read()
        return subprocess.CompletedProcess(["covalt-git", *args], code, *printed)


@functools.cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Return the socket of this process's own server, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.command_server", str(theirs.fileno())]
        server = subprocess.Popen(
            command, cwd=REPOSITORY, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
        )
    atexit.register(_end, ours, server)
    return ours, server


def _end(ours: socket.socket, server: subprocess.Popen[bytes]) -> None:
    ours.close()
    server.wait()
