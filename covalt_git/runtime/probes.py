"""Ten probes that ``doctor`` runs in the sandbox at each level; ``tests/stress`` has the others.

A probe is an action that a tool must not be able to do (:func:`.trial.attempt`).  It does no harm where no
sandbox stops it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.runtime.sandbox.limits import SLACK
from covalt_git.runtime.sandbox.policy import Policy, RunLimits
from covalt_git.runtime.sandbox.trial import Verdict, attempt
from covalt_git.system import programs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from covalt_git.models.calls import SandboxLevel

LIMITS: Final = RunLimits(cpu_s=20, memory_mb=1024, processes=32, file_mb=4, open_files=256)
MOST_STARTED: Final = 3 * (LIMITS.processes + SLACK)
"""More than the limit lets start: it counts the user's other processes, some of which may end meanwhile."""

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from covalt_git.runtime import probes; probes.main()"
_SOURCES = Path(__file__).parents[2]
_NEIGHBOUR = "print('ready', flush=True); input()"
_RUN_S = 300.0


class ProbesBrokenError(CovaltError):
    """The program that runs the probes failed."""

    code = "probes_broken"
    http_status = 500


class Finding(NamedTuple):
    """Verdict on one probe at one level; ``broken`` means that the sandbox was never entered."""

    probe: str
    what: str
    level: SandboxLevel
    verdict: Verdict
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Surroundings of a probe, which may use its workspace and its scratch folder and nothing else.

    Attributes:
        outside: a folder with a file ``secret``.
        token: a text in the secret and in the environment of the neighbour.
        neighbour: id of another process of the same user.
        tcp_port: port of a server on this machine.
    """

    workspace: Path
    toolset: Path
    scratch: Path
    outside: Path
    token: str
    neighbour: int
    tcp_port: int


class Probe(NamedTuple):
    """One operation that must fail; ``what`` completes the sentence "a tool ..."."""

    name: str
    what: str
    run: Callable[[Any], str | None]


def _read_outside(ground: Ground) -> str:
    return (ground.outside / "secret").read_text(encoding="utf-8")


def _write_outside(ground: Ground) -> str:
    (ground.outside / "new").write_text("", encoding="utf-8")
    return "made"


def _network(_: Ground) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.connect(("192.0.2.1", 53))  # finds a route and sends nothing
    return "has a route"


def _loopback(ground: Ground) -> str:
    with socket.create_connection(("127.0.0.1", ground.tcp_port), timeout=2):
        return "connected"


def _environment(ground: Ground) -> str | None:
    for pid in (ground.neighbour, 1, os.getppid()):
        with suppress(OSError):
            if ground.token.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                return f"that of {pid}"
    return None


def _signal(ground: Ground) -> str:
    os.kill(ground.neighbour, signal.SIGCONT)
    return "signalled"


def _mount(ground: Ground) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    # Of no file system, so that nothing is mounted without a sandbox either; the right to mount is checked first.
    result = libc.mount(None, str(ground.workspace).encode(), b"no-such-file-system", 0, None)
    if result == -1 and (number := ctypes.get_errno()) in {errno.EPERM, errno.EACCES, errno.ENOSYS}:
        raise OSError(number, os.strerror(number))
    return "the kernel executed the call"


def _memory(_: Ground) -> str:
    taken = [mmap.mmap(-1, (LIMITS.memory_mb or 0) << 17) for _ in range(16)]
    return f"{len(taken)} pieces"


def _processes(_: Ground) -> str:
    # The children wait for the end of the pipe, so that they end with this process, however it ends.
    hold, let_go = os.pipe()
    try:
        for _number in range(MOST_STARTED + 1):
            if os.fork() == 0:
                os.close(let_go)
                select.select([hold], [], [])
                os._exit(0)
    finally:
        os.close(let_go)
    return f"more than {MOST_STARTED} processes"


def _file_size(ground: Ground) -> str:
    with (ground.workspace / "huge").open("wb") as file:
        file.truncate(1 << 40)
    return "1 TiB"


PROBES: Final = (
    Probe("read-outside", "reads a secret outside", _read_outside),
    Probe("write-outside", "makes a file outside", _write_outside),
    Probe("way-out", "has a way to other machines", _network),
    Probe("tcp", "connects to a server on this machine", _loopback),
    Probe("environment", "reads a secret from the environment of a process", _environment),
    Probe("signal", "signals a process", _signal),
    Probe("mount", "mounts", _mount),
    Probe("memory-bomb", "takes memory without end", _memory),
    Probe("fork-bomb", "starts processes without end", _processes),
    Probe("huge-file", "writes a file without end", _file_size),
)


def run(level: SandboxLevel) -> list[Finding]:
    """Run the probes at a level, in a program of their own.

    Raises:
        ProbesBrokenError: if the program fails.
    """
    # A program of its own: this process may have threads, and the sandbox is entered by forks without any.
    words = ["-S", "-B", "-c", _PROGRAM, str(_SOURCES), level]
    return run_program(programs.python(*words), level)


def run_program(argv: list[str], level: SandboxLevel, **options: Any) -> list[Finding]:
    """Start a program and return the findings that it prints as JSON.

    Raises:
        ProbesBrokenError: if it fails.
    """
    env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TMPDIR": tempfile.gettempdir()}
    try:
        completed = programs.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_RUN_S,
            env=env,
            **options,
        )
        return [Finding(**finding) for finding in json.loads(completed.stdout)]
    except subprocess.TimeoutExpired:
        raise ProbesBrokenError(f"the probes at {level!r} took more than {_RUN_S:g} s") from None
    except ValueError:
        last = completed.stderr.strip().splitlines()[-1:] or ["no output"]
        raise ProbesBrokenError(f"the probes at {level!r} failed: {last[0]}") from None


def main() -> None:
    """Run the probes at the level that the command line names, and print the findings as JSON."""
    level: SandboxLevel = sys.argv[2]  # type: ignore[assignment]  # `run` was given a level
    token, server = f"covalt-{time.time_ns()}", socket.create_server(("127.0.0.1", 0))
    with tempfile.TemporaryDirectory(prefix="covalt-") as folder, start_neighbour(token) as other:
        names = ("workspace", "toolset", "scratch", "outside")
        folders = {name: Path(folder).resolve() / name for name in names}
        for path in folders.values():
            path.mkdir()
        (folders["outside"] / "secret").write_text(token, encoding="utf-8")
        port = server.getsockname()[1]
        ground = Ground(**folders, token=token, neighbour=other.pid, tcp_port=port)
        findings = [
            Finding(probe.name, probe.what, level, *tried(probe, level, ground, [server.fileno()]))
            for probe in PROBES
        ]
    sys.stdout.write(json.dumps([finding._asdict() for finding in findings]))


def start_neighbour(token: str) -> subprocess.Popen[bytes]:
    """Start a process with the token in its environment, which ends when its context does."""
    started = programs.start(
        programs.python("-S", "-c", _NEIGHBOUR),
        env={"COVALT_PROBE": token},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert started.stdout is not None
    started.stdout.readline()
    return started


def tried(
    probe: Probe, level: SandboxLevel, ground: Ground, closed: Collection[int]
) -> tuple[Verdict, str]:
    """Run a probe in a sandboxed fork without the ``closed`` descriptors; return its verdict and message."""
    policy = Policy(ground.workspace, ground.toolset, (), ground.scratch, limits=LIMITS)
    return attempt(policy, level, lambda: probe.run(ground), closed=closed)
