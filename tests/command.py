"""Running a command as at a prompt, in a process of its own; see :mod:`tests.command_server`."""

import atexit
import functools
import io
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryFile

import click
import pytest

from covalt_git.cli import main

REPOSITORY = Path(__file__).parent.parent


def commands(group: click.Group, *words: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below a group, and its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, *words, name)
        else:
            assert found is not None
            yield " ".join((*words, name)), found


def run(
    *args: str, cwd: Path | str = ".", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``covalt-git`` with these arguments, and return what it printed and how it ended."""
    done = run_raw(*args, cwd=cwd, env=env)
    said, errors = (one.decode("utf-8", "backslashreplace") for one in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, said, errors)


def run_here(*args: str, cwd: Path | str) -> subprocess.CompletedProcess[str]:
    """Run it as :func:`run` does in a project, in this process, which takes a tenth of the time."""
    assert "--log-format" not in args, "all later commands of this process would write JSON too"
    said, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(errors), pytest.raises(SystemExit) as ended:
        main(["-C", str(cwd), *args])
    code = ended.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(
        ["covalt-git", *args], code, said.getvalue(), errors.getvalue()
    )


def run_raw(
    *args: str, cwd: Path | str = ".", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run it as :func:`run` does, and return the bytes that it printed."""
    with TemporaryFile() as given, TemporaryFile() as said, TemporaryFile() as errors:
        command = Command(args, [one.fileno() for one in (given, said, errors)], cwd=cwd, env=env)
        code = command.wait()
        for one in (said, errors):
            one.seek(0)
        printed = said.read(), errors.read()
        return subprocess.CompletedProcess(["covalt-git", *args], code, *printed)


class Command:
    """A command that runs: with its input, its output and its errors."""

    def __init__(
        self,
        args: Sequence[str],
        streams: Sequence[int],
        *,
        cwd: Path | str = ".",
        env: Mapping[str, str] | None = None,
    ) -> None:
        told = {
            "args": args,
            "cwd": str(Path(cwd).resolve()),
            "env": dict(os.environ if env is None else env),
        }
        ended, ends = os.pipe()
        try:
            socket.send_fds(_server()[0], [json.dumps(told).encode()], [*streams, ends])
        finally:
            os.close(ends)
        self._status = os.fdopen(ended, "rb")
        self.pid = int(self._status.readline())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.kill(self.pid, signal.SIGINT)

    def ends_within(self, seconds: float) -> bool:
        """Wait so long for its end; return whether it came."""
        return bool(select.select([self._status], [], [], seconds)[0])

    def wait(self) -> int:
        """Wait for its end; return its exit status."""
        with self._status as status:
            return int(status.read())


class Piped(Command):
    """A command whose output and errors are read while it runs."""

    def __init__(
        self, *args: str, cwd: Path | str = ".", env: Mapping[str, str] | None = None
    ) -> None:
        (said, says), (errors, errs) = os.pipe(), os.pipe()
        self.stdout, self.stderr = (os.fdopen(one, encoding="utf-8") for one in (said, errors))
        with Path(os.devnull).open() as given:
            super().__init__(args, [given.fileno(), says, errs], cwd=cwd, env=env)
        os.close(says)
        os.close(errs)

    def end(self) -> subprocess.CompletedProcess[str]:
        """Wait for its end; return its exit status, and what was not read of the two."""
        with self.stdout, self.stderr:
            printed = self.stdout.read(), self.stderr.read()
        return subprocess.CompletedProcess(["covalt-git"], self.wait(), *printed)


class Terminal:
    """A command at a terminal of its own, and a user who reads and types there."""

    def __init__(
        self, *args: str, cwd: Path | str = ".", env: Mapping[str, str] | None = None
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.command = Command(args, [theirs] * 3, cwd=cwd, env=env)
        os.close(theirs)
        self.shown = ""
        self.read = ""  # all that was shown
        self.exit_code: int | None = None

    def until(self, words: str) -> None:
        """Read up to the end of the first occurrence of a text."""
        while words not in self.shown:
            assert self._read(), f"no {words!r} in {self.shown!r}"
        self.shown = self.shown.partition(words)[2]

    def answers(self, prompt: str, typed: str) -> None:
        """Wait for a prompt, and type a line."""
        self.until(prompt)
        os.write(self._ours, f"{typed}\n".encode())

    def presses(self, prompt: str, key: str) -> None:
        """Wait for a prompt, and type one key."""
        self.until(prompt)
        self.types(key)

    def types(self, text: str) -> None:
        """Type a text, whatever is shown."""
        os.write(self._ours, text.encode())

    def end(self) -> str:
        """Wait for the end of the command; return what it showed since the last prompt."""
        while self._read():
            pass
        os.close(self._ours)
        self.exit_code = self.command.wait()
        return self.shown

    def _read(self) -> str:
        with suppress(OSError):  # how a terminal ends on Linux
            chunk = os.read(self._ours, 1 << 16).decode()
            self.shown += chunk
            self.read += chunk
            return chunk
        return ""


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
