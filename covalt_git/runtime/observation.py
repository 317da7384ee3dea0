"""Observation of a program in its sandbox: the files, programs and addresses that it looks for and does not get.

The kernel reports each call that names one (:data:`.seccomp.OBSERVED`) while the call waits, and the name is read from
the memory of the process.  The call is then made as without an observation: the sandbox itself decides what is
refused.  A name is reported if the user has such a file, and the sandbox does not show it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from covalt_git.runtime.personal_places import why_secret
from covalt_git.runtime.sandbox import new_root, system_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from socket import AddressFamily

    from covalt_git.hosts import WebOrigin
    from covalt_git.runtime.pool import ProgramSpec
    from covalt_git.runtime.sandbox.seccomp import SystemCall

NeedKind = Literal["host", "address", "path", "program"]

MOST_NEEDS = 200
"""Different names about one program: it chooses them, and could fill the memory."""

_MOST_NAMES = 100_000
_LONGEST = 4096
_AT_WORKING_FOLDER: Final = -100
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_DNS = 53
_LISTENS = "0A"
"""State of a listening socket in ``/proc/net/tcp`` (proc_net_tcp.rst of Linux)."""

_WITH_FOLDER: Final = frozenset({"openat", "newfstatat", "statx", "faccessat", "faccessat2"})
"""Calls whose first argument is the descriptor of the folder that a relative path begins at."""

_OF_KERNEL: Final = ("/proc", "/sys", "/dev", "/run/systemd", "/run/nscd", "/var/run/nscd")
"""What the sandbox shows in its own form; programs do without the rest, and no grant names it."""

_OF_LOADERS: Final = frozenset(
    {
        *("package.json", "node_modules", "pyvenv.cfg", "pybuilddir.txt"),
        *("tsconfig.json", ".git", ".node_repl_history"),
    }
)
"""Names that interpreters look for in each folder above the program."""


class Need(NamedTuple):
    """Something that a program looked for and did not get.

    Attributes:
        kind: what it is; an ``address`` was connected to without the proxy.
        name: such as ``https://api.example.com``, ``/srv/data/a.csv``, ``git`` or ``10.0.0.5:5432``.
        call: the call that needed it first; empty for the start.
        target: the path of a file, with all links followed, or that of a program; empty if the machine has no such
            program.
        writes: whether it would have been written.
        in_home: whether it was looked for in the program's own home, as ``~/NAME``.
    """

    kind: NeedKind
    name: str
    call: str
    target: str = ""
    writes: bool = False
    in_home: bool = False


class _View(NamedTuple):
    """What a program sees: resolved paths, and the folders of its ``PATH``.

    Its private folder is ``private``, and has the path ``inside`` in the sandbox.
    """

    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    own: tuple[Path, ...]
    home: Path
    inside: Path
    private: Path
    search: frozenset[str]


class Observer:
    """Collects what one program needs; ``call`` is the label of what it is asked for at the moment.

    ``is_blind`` is why the kernel does not report its files; empty if it does.
    """

    def __init__(self) -> None:
        self.call = ""
        self.is_blind = ""
        self._lock = threading.Lock()
        self._view: _View | None = None
        self._needs: dict[tuple[str, str, bool], Need] = {}
        self._names: set[tuple[str, bool, bool]] = set()
        self._programs: dict[str, tuple[str, set[str]]] = {}

    def begin(
        self,
        spec: ProgramSpec,
        toolset: Path,
        private: Path,
        env: Mapping[str, str],
        *,
        observes: bool,
    ) -> None:
        """Begin with a program that starts in the sandbox of ``spec``."""
        if not observes:
            self.is_blind = "the kernel does not report the files that it opens"
        own = (toolset, *spec.readable, *system_files.interpreter_paths())
        system = (*system_files.FOLDERS, *system_files.SETTINGS, *system_files.DEVICES)
        writable = (*filter(None, (spec.workspace,)), *spec.writable)
        inside = Path(new_root.HOME) if spec.level == "full" else private
        self._view = _View(
            readable=tuple(path.resolve() for path in (*own, *map(Path, system))),
            writable=tuple(path.resolve() for path in writable),
            own=tuple(path.resolve() for path in own),
            home=Path(env.get("HOME") or inside),
            inside=inside,
            private=private,
            search=frozenset(env.get("PATH", "").split(os.pathsep)),
        )

    @property
    def needs(self) -> list[Need]:
        """What it did not get, in the order in which it was needed."""
        with self._lock:
            needs = list(self._needs.values())
            programs = dict(self._programs)
        view = self._view
        for name, (call, paths) in programs.items():
            # The search of PATH tries each folder: it has failed only if no folder has a program that is shown.
            if view is None or any(_is_shown(view, Path(path).resolve()) for path in paths):
                continue
            here = next((path for path in sorted(paths) if os.access(path, os.X_OK)), "")
            needs.append(Need("program", name, call, here))
        return needs

    def refused_host(self, origin: WebOrigin) -> None:
        """Add a host that the proxy refused."""
        self._add(Need("host", str(origin), self.call))

    def observe(self, call: SystemCall) -> None:
        """Add what a call names, if the program does not get it; the call waits meanwhile."""
        # The process may have ended, or belong to a user whose memory is closed to us.
        try:
            self._observe(call)
        except PermissionError:
            self.is_blind = "the memory of its processes cannot be read"
        except (OSError, ValueError, struct.error):
            return

    def _observe(self, call: SystemCall) -> None:
        arguments = call.arguments
        if call.name == "connect":
            size = min(arguments[2], 128)
            self._connected(_memory(call.pid, arguments[1], size))
            return
        is_at = call.name in _WITH_FOLDER
        text = _text(call.pid, arguments[1 if is_at else 0])
        flags = 0
        if call.name in {"open", "openat"}:
            flags = arguments[2 if is_at else 1]
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        executes = call.name == "execve"
        if not text:
            return
        if not text.startswith("/"):
            descriptor = struct.unpack("i", struct.pack("I", arguments[0] & 0xFFFFFFFF))[0]
            if not is_at or descriptor == _AT_WORKING_FOLDER:
                folder = f"/proc/{call.pid}/cwd"
            else:
                folder = f"/proc/{call.pid}/fd/{descriptor}"
            text = f"{os.readlink(folder)}/{text}"  # noqa: PTH115 - a link of the kernel, which is not followed
        self._looked_for(os.path.normpath(text), writes=writes, executes=executes)

    def _looked_for(self, text: str, *, writes: bool, executes: bool) -> None:
        view = self._view
        if view is None or (text, writes, executes) in self._names:
            return
        if len(self._names) < _MOST_NAMES:
            self._names.add((text, writes, executes))
        path = Path(text)
        if any(path.is_relative_to(folder) for folder in _OF_KERNEL):
            return
        if str(path.parent) in view.search:
            if _is_of_loader(path.name):
                return  # beside the interpreter, which does without
            with self._lock:
                _, paths = self._programs.setdefault(path.name, (self.call, set()))
                paths.add(text)
            return
        if path.is_relative_to(view.home):
            self._in_home(path.relative_to(view.home), writes=writes)
        if path.is_relative_to(view.inside) and (
            path.parent == view.inside
            or path.is_dir()
            or os.path.lexists(view.private / path.relative_to(view.inside))
        ):
            return  # it has a /tmp of its own
        target = Path(os.path.realpath(path))
        may_write = any(target.is_relative_to(folder) for folder in view.writable)
        if may_write or (not writes and _is_shown(view, target)):
            return
        if any(target.is_relative_to(folder) for folder in view.readable):
            # Its own files and the system's are read-only for every program.
            return
        if _is_above(view, target) or (_is_of_loader(path.name) and _is_above(view, target.parent)):
            return
        if Path("/etc") in {path.parent, target.parent} and not why_secret(target):
            return  # system libraries look for a dozen of these, and no grant is for all of /etc
        exists = os.path.lexists(target) or (writes and target.parent.is_dir())
        if exists or why_secret(target):
            kind: NeedKind = "program" if executes else "path"
            self._add(Need(kind, text, self.call, str(target), writes))

    def _in_home(self, path: Path, *, writes: bool) -> None:
        """Add a file that the program looked for in its home, if the user's home has it or its name is that of a secret."""
        target = Path.home() / path
        if why_secret(target) or (not writes and target.is_file()):
            self._add(Need("path", f"~/{path}", self.call, str(target), in_home=True))

    def _connected(self, address: bytes) -> None:
        family: AddressFamily | int = struct.unpack_from("=H", address)[0]
        if family == _AF_UNIX:
            path = address[2:].split(b"\0")[0]
            if path.startswith(b"/"):
                self._looked_for(os.path.normpath(os.fsdecode(path)), writes=False, executes=False)
            return
        if family not in {_AF_INET, _AF_INET6}:
            return
        (port,) = struct.unpack_from("!H", address, 2)
        raw = address[4:8] if family == _AF_INET else address[8:24]
        ip = ipaddress.ip_address(raw)
        if port == _DNS:
            self._add(Need("address", "the look-up of names (DNS)", self.call))
        elif ip.is_loopback and port in _listening_ports():
            # Not by the proxy, as clients leave it out for this machine until such a host is granted.
            self._add(Need("host", f"http://localhost:{port}", self.call))
        elif not ip.is_loopback and not ip.is_unspecified and port:
            host = f"[{ip}]" if ip.version == 6 else str(ip)  # noqa: PLR2004 - the version
            self._add(Need("address", f"{host}:{port}", self.call))

    def _add(self, need: Need) -> None:
        with self._lock:
            if len(self._needs) < MOST_NEEDS:
                self._needs.setdefault((need.kind, need.name, need.writes), need)


def _is_of_loader(name: str) -> bool:
    """Return whether interpreters look for a file with this name; Python's ``._pth`` has the name of its program."""
    return name in _OF_LOADERS or re.fullmatch(r"python[\d.]*\._pth", name) is not None


def _is_shown(view: _View, target: Path) -> bool:
    return target.exists() and any(
        target.is_relative_to(folder) for folder in (*view.readable, *view.writable)
    )


def _is_above(view: _View, path: Path) -> bool:
    """Return whether a folder is above one that is shown, and so exists in the sandbox."""
    return any(folder.is_relative_to(path) for folder in (*view.readable, *view.writable))


def _listening_ports() -> set[int]:
    """Return the TCP ports on which this machine listens, outside of the sandbox."""
    ports = set[int]()
    for file in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with contextlib.suppress(OSError):
            for line in file.read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS:
                    ports.add(int(words[1].rpartition(":")[2], 16))
    return ports


def _memory(pid: int, at: int, size: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - unbuffered
        memory.seek(at)
        return memory.read(size)


def _text(pid: int, at: int) -> str:
    """Return the text that ends with a zero byte at an address of a process."""
    text = b""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - unbuffered
        memory.seek(at)
        while len(text) < _LONGEST:
            # To the end of a page: the next one may not be mapped.
            with contextlib.suppress(OSError):
                chunk = memory.read(min(256, 4096 - (at + len(text)) % 4096))
                text += chunk
                if chunk and b"\0" not in chunk:
                    continue
            break
    return os.fsdecode(text.split(b"\0")[0])
