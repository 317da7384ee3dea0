"""Runner of all probes of the sandbox, which also observes from outside what each probe did.

It lays out a project, secrets, listeners and a neighbour process, forks once for each probe, and checks
afterwards what changed outside.  It runs as a program that needs only the standard library.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import pty
import resource
import select
import shutil
import socket
import sys
import tempfile
import uuid
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git.runtime import probes
from covalt_git.runtime.probes import Finding
from covalt_git.runtime.sandbox.trial import Verdict
from tests.stress.sandbox_probes import PROBES, Ground

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from covalt_git.models.calls import SandboxLevel
    from covalt_git.runtime.probes import Probe

    Attempt = Callable[[Probe, SandboxLevel, Any, Collection[int]], tuple[Verdict, str]]

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from tests.stress import probe_runner as it; it.main()"
_SOURCES = Path(__file__).parents[2]
_MOMENT_MS = 2000
_LIBC = ctypes.CDLL(None, use_errno=True)


def run(
    level: SandboxLevel,
    *,
    only: Sequence[str] = (),
    python: str = sys.executable,
    user: int | None = None,
    server: str = "",
) -> list[Finding]:
    """Run the probes, or those named in ``only``, at a level.

    Root may run them as another ``user``, with a ``python`` that this user can start.  With ``server``, "python" or
    "node", each probe is made inside the program of an MCP server; with "script", in the process of a script.
    """
    # The code that starts such programs needs the packages of this environment.
    isolated = [] if server else ["-S"]
    argv = [python, "-I", *isolated, "-B", "-c", _PROGRAM, str(_SOURCES), level, server, *only]
    groups = None if user is None else list[int]()
    return probes.run_program(argv, level, user=user, group=user, extra_groups=groups)


def main() -> None:
    """Run the probes that the command line names, and print the findings as JSON."""
    _, level, server, *only = sys.argv[1:]
    attempt: Attempt = probes.tried
    if server == "script":
        from tests.stress import probe_scripts  # noqa: PLC0415 - it needs packages

        attempt = probe_scripts.tried
    elif server:
        from tests.stress import probe_programs  # noqa: PLC0415 - it needs packages

        attempt = probe_programs.tried_in(server)
    findings = _findings(
        [probe for probe in PROBES if not only or probe.name in only],
        level,  # type: ignore[arg-type]  # one of the levels, as `run` was given it
        attempt,
    )
    sys.stdout.write(json.dumps([finding._asdict() for finding in findings]))


def _findings(wanted: Sequence[Probe], level: SandboxLevel, attempt: Attempt) -> Iterator[Finding]:
    left = list(reversed(wanted))
    while left:
        with ExitStack() as stack:
            field = _Field(stack)
            verdict: Verdict = "refused"
            # A field that nothing came through to is as good as new.
            while left and verdict == "refused":
                probe = left.pop()
                verdict, said = field.send(probe, level, attempt)
                yield Finding(probe.name, probe.what, level, verdict, said)


class _Field:
    """A ground that is laid out for probes, and what can be seen on it."""

    def __init__(self, stack: ExitStack) -> None:
        base = Path(tempfile.mkdtemp(prefix="covalt-")).resolve()
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        token = f"covalt-{uuid.uuid4().hex}"
        stack.callback(_remove_shared, token)
        self._folders = _lay_out(base, token)
        outside = self._folders["outside"]
        self._listeners = [
            _listening(stack, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            _listening(stack, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            _listening(stack, socket.AF_UNIX, socket.SOCK_STREAM, f"\0{token}"),
            _listening(stack, socket.AF_UNIX, socket.SOCK_STREAM, str(outside / "stream")),
            _listening(stack, socket.AF_UNIX, socket.SOCK_DGRAM, str(outside / "datagrams")),
        ]
        self._neighbour = stack.enter_context(probes.start_neighbour(token))
        stack.callback(self._neighbour.kill)
        terminal = pty.openpty()
        for end in terminal:
            stack.callback(os.close, end)
        self._ground = Ground(
            **self._folders,
            token=token,
            neighbour=self._neighbour.pid,
            tcp_port=self._listeners[0].getsockname()[1],
            udp_port=self._listeners[1].getsockname()[1],
            memory_key=_shared_segment(stack, token),
            terminal=terminal[1],
            held=-1,
        )
        self._before = self._state()

    def send(self, probe: Probe, level: SandboxLevel, attempt: Attempt) -> tuple[Verdict, str]:
        """Run a probe in the sandbox; return its verdict, or what it did outside."""
        for name in ("workspace", "scratch"):
            shutil.rmtree(self._folders[name])
            self._folders[name].mkdir()
        watched, held = os.pipe()
        closed = [watched, *(one.fileno() for one in self._listeners)]
        ground = replace(self._ground, held=held)
        verdict, said = attempt(probe, level, ground, closed)
        os.close(held)
        try:
            if verdict == "refused" and (seen := self._seen(watched)):
                return "through", seen
        finally:
            os.close(watched)
        return verdict, said

    def _seen(self, watched: int) -> str:
        """Return what a probe changed outside; empty where it changed nothing."""
        for listener in self._listeners:
            if select.select([listener], [], [], 0)[0]:
                return f"something came to {listener.getsockname()!r}"
        if _is_held(watched):
            return "a process stayed behind"
        after = self._state()
        changed = [name for name in self._before if self._before[name] != after.get(name)]
        changed += [name for name in after if name not in self._before]
        return f"changed: {', '.join(changed)}" if changed else ""

    def _state(self) -> dict[str, Any]:
        pid = self._neighbour.pid
        if self._neighbour.poll() is not None:
            return {"the neighbour": "has ended"}
        state: dict[str, Any] = {
            "the neighbour": "is there",
            "its limit": resource.prlimit(pid, resource.RLIMIT_NOFILE),
            "its priority": os.getpriority(os.PRIO_PROCESS, pid),
        }
        for name in ("outside", "project", "toolset"):
            state |= _fingerprints(self._folders[name])
        return state | {str(path): "is there" for path in _shared(self._ground.token)}


def _lay_out(base: Path, token: str) -> dict[str, Path]:
    """Create the folders of a test ground with their files."""
    names = ("workspace", "toolset", "scratch", "project", "outside")
    folders = {name: base / name for name in names}
    store = folders["project"] / "data" / "chats" / "other" / "store.git"
    for folder in (*folders.values(), store):
        folder.mkdir(parents=True)
    files = {
        folders["toolset"] / "tool.py": "x = 1\n",
        folders["project"] / "covalt.yaml": f"version: 1  # {token}\n",
        store / "HEAD": f"ref: refs/heads/{token}\n",
        folders["outside"] / "secret": token,
        folders["outside"] / "file": "content\n",
        folders["outside"] / "movable": "content\n",
    }
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600 if path.name == "secret" else 0o644)
    return folders


def _listening(
    stack: ExitStack, family: int, kind: int, address: tuple[str, int] | str
) -> socket.socket:
    end = stack.enter_context(socket.socket(family, kind))
    end.bind(address)
    if kind == socket.SOCK_STREAM:
        end.listen()
    return end


def _shared_segment(stack: ExitStack, token: str) -> int:
    """Make a System V segment of shared memory that holds the token, and return its key."""
    key = int.from_bytes(hashlib.sha256(token.encode()).digest()[:3], "big") | 1
    _LIBC.shmat.restype = ctypes.c_void_p
    segment = _LIBC.shmget(key, 4096, 0o1600)
    stack.callback(_LIBC.shmctl, segment, 0, None)
    address = _LIBC.shmat(segment, None, 0)
    ctypes.memmove(address, token.encode(), len(token))
    return key


def _fingerprints(folder: Path) -> dict[str, Any]:
    """Return each file below a folder with its kind, mode, times, attributes and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        attributes = [os.getxattr(path, name) for name in os.listxattr(path)]
        known = (about.st_mode, about.st_mtime_ns, about.st_nlink, content, attributes)
        found[str(path.relative_to(folder.parent))] = known
    return found


def _shared(token: str) -> list[Path]:
    """Return what probes left where everybody may write."""
    places = (Path("/tmp"), Path("/dev/shm"))
    return [path for place in places for path in place.glob(f"{token}.*")]


def _remove_shared(token: str) -> None:
    for path in _shared(token):
        path.unlink()


def _is_held(watched: int) -> bool:
    """Return whether a process still has the other end of a pipe, after a short wait."""
    end = select.poll()
    end.register(watched, 0)
    return not end.poll(_MOMENT_MS)
