"""Running the hostile probes at a level, and seeing from outside what came of each.

``run`` starts this module as a program of its own: it lays out a ground with a project, secrets,
listeners and a neighbour process, forks once for each probe, has it enter the walls, and looks
afterwards at what changed outside.  It needs nothing but Python's own library.
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
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from covalt_git.errors import CovaltError
from covalt_git.runtime.probes import LIMITS, PROBES, Ground, Probe
from covalt_git.runtime.sandbox.entering import enter
from covalt_git.runtime.sandbox.walls import Walls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.models.calls import SandboxLevel

Verdict = Literal["refused", "through", "broken"]

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from covalt_git.runtime import probing; probing.main()"
_SOURCES = Path(__file__).parents[2]
_PROBE_S = 20.0
_RUN_S = 300.0
_END_S = 2.0
_MOMENT_MS = 2000
_SAID = 200
_NEIGHBOUR = "import sys; print('here', flush=True); sys.stdin.read()"
_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT
_LIBC = ctypes.CDLL(None, use_errno=True)


class ProbesBrokenError(CovaltError):
    """The probes could not be run to their end."""

    code = "probes_broken"
    http_status = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one probe.

    ``broken`` means that the probe never came to the wall, so that it says nothing about it.
    """

    probe: str
    what: str
    level: SandboxLevel
    verdict: Verdict
    said: str


def run(
    level: SandboxLevel,
    *,
    only: Sequence[str] = (),
    python: str = sys.executable,
    user: int | None = None,
) -> list[Finding]:
    """Run the probes, all or those of the names in ``only``, at a level.

    Root may have them run as another ``user``, by a ``python`` that is in that user's reach.

    Raises:
        ProbesBrokenError: the program that runs them came to no end.
    """
    argv = [python, "-I", "-S", "-B", "-c", _PROGRAM, str(_SOURCES), level, *only]
    try:
        done = subprocess.run(
            argv,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_RUN_S,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TMPDIR": tempfile.gettempdir()},
        )
        return [Finding(**one) for one in json.loads(done.stdout)]
    except subprocess.TimeoutExpired:
        raise ProbesBrokenError(f"the probes at {level!r} took more than {_RUN_S:g} s") from None
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise ProbesBrokenError(f"the probes at {level!r} came to no end: {last[0]}") from None


def main() -> None:
    """Run the probes that the command line names, and print the findings as JSON."""
    _, level, *only = sys.argv[1:]
    findings = _findings(
        [probe for probe in PROBES if not only or probe.name in only],
        level,  # type: ignore[arg-type]  # one of the levels, as `run` was given it
    )
    sys.stdout.write(json.dumps([asdict(finding) for finding in findings]))


def _findings(probes: Sequence[Probe], level: SandboxLevel) -> Iterator[Finding]:
    left = list(reversed(probes))
    while left:
        with ExitStack() as stack:
            field = _Field(stack)
            verdict: Verdict = "refused"
            # A field that nothing came through to is as good as new.
            while left and verdict == "refused":
                probe = left.pop()
                verdict, said = field.send(probe, level)
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
        self._neighbour = _neighbour(stack, token)
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

    def send(self, probe: Probe, level: SandboxLevel) -> tuple[Verdict, str]:
        """Run a probe behind the walls; return what it says, or what it was seen to have done."""
        for name in ("workspace", "scratch"):
            shutil.rmtree(self._folders[name])
            self._folders[name].mkdir()
        watched, held = os.pipe()
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            for end in (told, watched, *(one.fileno() for one in self._listeners)):
                os.close(end)
            _be_a_tool(probe, level, replace(self._ground, held=held), tell)
        os.close(tell)
        os.close(held)
        verdict, said = _wait(child, told)
        try:
            if verdict == "refused" and (seen := self._seen(watched)):
                return "through", seen
        finally:
            os.close(watched)
        return verdict, " ".join(said.replace("\0", " ").split())

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
    """Make the folders of a ground, and what lies in them."""
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


def _neighbour(stack: ExitStack, token: str) -> subprocess.Popen[bytes]:
    """Start a process of the same user that has the token in its environment."""
    started = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _NEIGHBOUR],
        env={"COVALT_PROBE": token},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    stack.callback(started.communicate)
    stack.callback(started.kill)
    assert started.stdout is not None
    started.stdout.readline()
    return started


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


def _be_a_tool(probe: Probe, level: SandboxLevel, ground: Ground, tell: int) -> NoReturn:
    """Enter the walls, run the probe, tell what it says, and end."""
    try:
        os.setsid()
        walls = Walls(ground.workspace, ground.toolset, (), ground.scratch, limits=LIMITS)
        try:
            enter(walls, level)
        except CovaltError as error:
            _say(tell, "broken", error.message)
        try:
            got = probe.run(ground)
        except (OSError, MemoryError) as error:
            _say(tell, "refused", f"{type(error).__name__}: {error}")
        _say(tell, "through", got) if got is not None else _say(tell, "refused", "got nothing")
    except BaseException as error:  # noqa: BLE001 - a probe's own mistake must not look like a wall
        _say(tell, "broken", f"{type(error).__name__}: {error}")
    finally:
        os._exit(1)


def _say(tell: int, verdict: Verdict, said: str) -> NoReturn:
    os.write(tell, json.dumps({"verdict": verdict, "said": said[:_SAID]}).encode())
    os._exit(0)


def _wait(child: int, told: int) -> tuple[Verdict, str]:
    """Return what a probe said; all that it started in its group ends with it."""
    try:
        ended = select.select([told], [], [], _PROBE_S)[0]
        said = os.read(told, 1 << 16) if ended else b""
    finally:
        os.close(told)
    status = _reap(child)
    if said:
        answer = json.loads(said)
        return answer["verdict"], answer["said"]
    if os.WIFSIGNALED(status):
        return "refused", f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return "broken", "it ended without a word"


def _reap(child: int) -> int:
    """Wait for a probe's process to end by itself, or end it; its group goes with it."""
    end = time.monotonic() + _END_S
    while time.monotonic() < end and not os.waitid(os.P_PID, child, _LOOK):
        time.sleep(0.001)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


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
    places = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108 - where it must not be
    return [path for place in places for path in place.glob(f"{token}.*")]


def _remove_shared(token: str) -> None:
    for path in _shared(token):
        path.unlink()


def _is_held(watched: int) -> bool:
    """Tell whether anybody still has the other end of a pipe, once a moment has passed."""
    end = select.poll()
    end.register(watched, 0)
    return not end.poll(_MOMENT_MS)
