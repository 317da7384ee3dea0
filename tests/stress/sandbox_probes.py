"""Further probes of the sandbox, after those of ``covalt_git.runtime.probes``: operations that a tool must not perform.

The runner also observes from outside what a probe did (:mod:`tests.stress.probe_runner`), so some return None.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import stat
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from covalt_git.runtime import probes
from covalt_git.runtime.probes import LIMITS, MOST_STARTED, Probe
from covalt_git.runtime.sandbox.seccomp import SET_ID
from covalt_git.runtime.sandbox.syscall_numbers import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable

Passes: TypeAlias = Literal["all", "root", "kernel", "none"]
"""For whom a probe succeeds at ``process``: every user, root, depends on the kernel, none."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_RACE_S, _MET = 10.0, 20
_STAYS_S = 8.0


PASSES: Final[dict[str, Passes]] = {
    "read-outside": "all",
    "write-outside": "all",
    "way-out": "kernel",
    "tcp": "all",
    "environment": "all",
    "signal": "all",
    "mount": "root",
    "memory-bomb": "none",
    "fork-bomb": "root",
    "huge-file": "none",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground(probes.Ground):
    """Surroundings of a probe.

    Attributes:
        outside: has the files ``secret``, ``file`` and ``movable``, and the sockets ``stream`` and ``datagrams``.
        memory_key: key of a System V segment of shared memory that holds the token.
        terminal: a descriptor of a terminal, inherited as a tool's standard streams are.
        held: the writing end of a pipe, which shows whether a process stayed behind.
    """

    project: Path
    udp_port: int
    memory_key: int
    terminal: int
    held: int

    @property
    def secret(self) -> Path:
        """A file that only its owner may read."""
        return self.outside / "secret"


PROBES: Final[list[Probe]] = [*probes.PROBES]


def _probe(
    what: str, passes: Passes = "all"
) -> Callable[[Callable[[Ground], str | None]], Callable[[Ground], str | None]]:
    def listed(run: Callable[[Ground], str | None]) -> Callable[[Ground], str | None]:
        name = run.__name__.strip("_").replace("_", "-")
        PROBES.append(Probe(name, what, run))
        PASSES[name] = passes
        return run

    return listed


# Reading ---------------------------------------------------------------------------------------


@_probe("reads the password hashes of the machine", "root")
def _password_hashes(_: Ground) -> str | None:
    return Path("/etc/shadow").read_text(encoding="utf-8")[:1]


@_probe("reads the project's covalt.yaml")
def _project(ground: Ground) -> str | None:
    return (ground.project / "covalt.yaml").read_text(encoding="utf-8")


@_probe("reads the store of another chat")
def _another_chat(ground: Ground) -> str | None:
    store = ground.project / "data" / "chats" / "other" / "store.git"
    return (store / "HEAD").read_text(encoding="utf-8")


@_probe("lists a folder outside")
def _list_outside(ground: Ground) -> str | None:
    return ", ".join(path.name for path in ground.outside.iterdir())


@_probe("reads a secret through a link in its workspace")
def _link_out(ground: Ground) -> str | None:
    link = ground.workspace / "link"
    link.symlink_to(ground.secret)
    return link.read_text(encoding="utf-8")


@_probe("reads a secret by swapping a folder for a link while it opens")
def _swapped_folder(ground: Ground) -> str | None:
    folder, link = ground.workspace / "folder", ground.workspace / "link"
    folder.mkdir()
    (folder / "secret").write_text("harmless", encoding="utf-8")
    link.symlink_to(ground.outside)
    names = (-100, str(folder).encode(), -100, str(link).encode(), 2)  # RENAME_EXCHANGE
    swapping = os.fork()
    while swapping == 0:
        _LIBC.renameat2(*names)
    end = time.monotonic() + _RACE_S
    met = 0
    try:
        while met < _MET and time.monotonic() < end:
            try:
                text = (folder / "secret").read_text(encoding="utf-8")
            except OSError:
                met += 1  # the link was there, and led nowhere
            else:
                if ground.token in text:
                    return text
    finally:
        os.kill(swapping, signal.SIGKILL)
        os.waitpid(swapping, 0)
    return None


@_probe("reads a secret by the roots and folders of processes in /proc")
def _proc_roots(ground: Ground) -> str | None:
    secret = str(ground.secret)
    for pid in ("self", "1", ground.neighbour):
        for way in (f"/proc/{pid}/root{secret}", f"/proc/{pid}/cwd/../../{secret}"):
            with suppress(OSError):
                return Path(way).read_text(encoding="utf-8")
    return None


@_probe("leaves by a descriptor on a folder that it inherited")
def _inherited_folder(ground: Ground) -> str | None:
    below = str(ground.secret)[1:]
    for number in range(256):
        for up in ("", "../" * 12):
            with suppress(OSError):
                return os.read(os.open(up + below, os.O_RDONLY, dir_fd=number), 64).decode()
    for levels in range(1, 12):  # and up from the one folder that every process has
        with suppress(OSError):
            return Path("../" * levels, below).read_text(encoding="utf-8")
    return None


@_probe("opens a file by its handle, whatever its path", "root")
def _file_handle(ground: Ground) -> str | None:
    handle = ctypes.create_string_buffer(8 + 128)
    ctypes.c_uint.from_buffer(handle).value = 128
    mount = ctypes.c_int()
    folder = os.open(ground.workspace, os.O_RDONLY)
    here = str(ground.workspace).encode()
    _made(_LIBC.name_to_handle_at(-100, here, handle, ctypes.byref(mount), 0))
    return f"descriptor {_made(_LIBC.open_by_handle_at(folder, handle, os.O_RDONLY))}"


@_probe("reads or leaves files in the /tmp that everybody shares")
def _shared_tmp(ground: Ground) -> str | None:
    (Path("/tmp") / f"{ground.token}.tmp").write_text("", encoding="utf-8")
    return None  # whether it is there is seen outside


@_probe("shares memory by files in /dev/shm")
def _shared_memory(ground: Ground) -> str | None:
    (Path("/dev/shm") / f"{ground.token}.shm").write_text("", encoding="utf-8")
    return None


@_probe("shares memory by a System V segment")
def _system_v_memory(ground: Ground) -> str | None:
    segment = _made(_LIBC.shmget(ground.memory_key, 4096, 0))
    _LIBC.shmat.restype = ctypes.c_void_p
    address = _LIBC.shmat(segment, None, 0o10000)
    return ctypes.string_at(address, len(ground.token)).decode()


@_probe("opens a disk", "root")
def _disk(_: Ground) -> str | None:
    disks = [Path("/dev", name.name.replace("!", "/")) for name in Path("/sys/block").iterdir()]
    for disk in disks:
        with suppress(OSError):
            os.close(os.open(disk, os.O_RDONLY | os.O_NONBLOCK))
            return str(disk)
    return None


@_probe("reads the kernel's log", "root")
def _kernel_log(_: Ground) -> str | None:
    return f"{_made(_LIBC.klogctl(10, None, 0))} bytes"


@_probe("watches what happens in a folder outside")
def _watch(ground: Ground) -> str | None:
    watcher = _made(_LIBC.inotify_init1(0))
    return f"watch {_made(_LIBC.inotify_add_watch(watcher, str(ground.outside).encode(), 0x100))}"


# Writing ---------------------------------------------------------------------------------------


@_probe("changes a file of its own toolset")
def _write_toolset(ground: Ground) -> str | None:
    (ground.toolset / "tool.py").write_text("changed", encoding="utf-8")
    return "changed"


@_probe("changes the mode of a file of its own toolset")
def _toolset_mode(ground: Ground) -> str | None:
    (ground.toolset / "tool.py").chmod(0o755)
    return None  # the level `landlock` pretends


@_probe("empties a file outside")
def _truncate(ground: Ground) -> str | None:
    os.truncate(ground.outside / "file", 0)
    return "emptied"


@_probe("changes the mode of a file outside")
def _change_mode(ground: Ground) -> str | None:
    (ground.outside / "file").chmod(0o777)
    return None


@_probe("changes the times of a file outside")
def _change_times(ground: Ground) -> str | None:
    os.utime(ground.outside / "file", (0, 0))
    return None


@_probe("gives a file outside an attribute", "kernel")
def _attribute(ground: Ground) -> str | None:
    os.setxattr(ground.outside / "file", "user.covalt", b"1")
    return "given"


@_probe("makes a second name for a secret in its workspace")
def _hard_link(ground: Ground) -> str | None:
    (ground.workspace / "second").hardlink_to(ground.secret)
    return (ground.workspace / "second").read_text(encoding="utf-8")


@_probe("moves a file from outside into its workspace")
def _move_in(ground: Ground) -> str | None:
    (ground.outside / "movable").rename(ground.workspace / "moved")
    return "moved"


@_probe("leaves a set-user-ID program in its workspace")
def _set_id_program(ground: Ground) -> str | None:
    numbers, mode = NUMBERS[os.uname().machine], SET_ID | 0o755
    plain = ground.workspace / "plain"
    plain.touch(0o755)
    descriptor = os.open(plain, os.O_RDONLY)
    how = ctypes.create_string_buffer(struct.pack("=QQQ", os.O_CREAT | os.O_WRONLY, mode, 0))
    creating, unnamed = os.O_CREAT | os.O_WRONLY, os.O_TMPFILE | os.O_WRONLY
    tried: dict[str, tuple[tuple[object, ...], ...]] = {
        "chmod": ((plain, mode),),
        "fchmod": ((descriptor, mode),),
        "fchmodat": ((-100, plain, mode),),
        "fchmodat2": ((-100, plain, mode, 0),),
        "open": ((ground.workspace / "open", creating, mode), (ground.workspace, unnamed, mode)),
        "openat": (
            (-100, ground.workspace / "openat", creating, mode),
            (-100, ground.workspace, unnamed, mode),
        ),
        "openat2": ((-100, ground.workspace / "openat2", how, 24),),
        "creat": ((ground.workspace / "creat", mode),),
        "mkdir": ((ground.workspace / "mkdir", mode),),
        "mkdirat": ((-100, ground.workspace / "mkdirat", mode),),
        "mknod": ((ground.workspace / "mknod", stat.S_IFREG | mode, 0),),
        "mknodat": ((-100, ground.workspace / "mknodat", stat.S_IFREG | mode, 0),),
    }
    os.umask(0)
    for name in tried.keys() & numbers.keys():
        for given in tried[name]:
            arguments = [str(one).encode() if isinstance(one, Path) else one for one in given]
            made = _LIBC.syscall(numbers[name], *arguments)
            opened = made if name.startswith(("open", "creat")) else -1
            files = [opened] * (opened >= 0) + list(ground.workspace.iterdir())
            if any(os.stat(file).st_mode & SET_ID for file in files):  # noqa: PTH116 - or open ones
                return name
    return None


@_probe("opens a setting of the kernel to write it", "root")
def _kernel_setting(_: Ground) -> str | None:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    return "opened"


# Other processes -------------------------------------------------------------------------------


@_probe("sees the processes of the machine")
def _see_processes(ground: Ground) -> str | None:
    return (Path("/proc") / str(ground.neighbour) / "cmdline").read_text(encoding="utf-8")


@_probe("reads the memory of a process by /proc", "root")
def _memory(ground: Ground) -> str | None:
    pids = [ground.neighbour, *([1, os.getppid()] if os.getppid() > 0 else [])]
    for pid in pids:
        with suppress(OSError):
            os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR))
            return f"that of {pid}"
    return None


@_probe("reads the memory of a process by process_vm_readv")
def _process_vm(ground: Ground) -> str | None:
    # Zero bytes: only the permission is tested.
    _made(_LIBC.process_vm_readv(ground.neighbour, None, 0, None, 0, 0))
    return "allowed"


@_probe("traces a process", "root")
def _trace(ground: Ground) -> str | None:
    attach, detach = 0x4206, 17  # PTRACE_SEIZE does not stop the process
    _made(_LIBC.ptrace(attach, ground.neighbour, None, None))
    _LIBC.ptrace(detach, ground.neighbour, None, None)
    return "attached"


@_probe("signals a process by a descriptor of it")
def _pidfd(ground: Ground) -> str | None:
    if not hasattr(os, "pidfd_open"):
        return None
    end = os.pidfd_open(ground.neighbour)
    signal.pidfd_send_signal(end, signal.SIGCONT)
    return "signalled"


@_probe("has a process signalled by a file's owner setting")
def _owner_signal(ground: Ground) -> str | None:
    told, tell = os.pipe()
    fcntl.fcntl(told, fcntl.F_SETOWN, ground.neighbour)
    fcntl.fcntl(told, 10, signal.SIGUSR1)  # F_SETSIG
    fcntl.fcntl(told, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(tell, b"1")
    time.sleep(0.1)
    return None  # whether it came, and ended the neighbour, is seen outside


@_probe("lowers a limit of a process")
def _others_limits(ground: Ground) -> str | None:
    resource.prlimit(ground.neighbour, resource.RLIMIT_NOFILE, (100, 200))
    return "lowered"


@_probe("lowers the priority of a process")
def _others_priority(ground: Ground) -> str | None:
    os.setpriority(os.PRIO_PROCESS, ground.neighbour, 5)
    return "lowered"


@_probe("lowers the limits of the process that it was forked from")
def _room_s_limits(ground: Ground) -> str | None:
    del ground
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (100, 200))
    return "lowered"


@_probe("lowers the priority of the process that it was forked from")
def _room_s_priority(ground: Ground) -> str | None:
    del ground
    os.setpriority(os.PRIO_PROCESS, os.getppid(), 5)
    return "lowered"


@_probe("leaves memory in the kernel for the next call")
def _kernel_memory(ground: Ground) -> str | None:
    del ground
    made = ctypes.CDLL(None, use_errno=True).shmget(0, 4096, 0o1600)
    if made < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    return "made"


@_probe("stays behind after its call")
def _stay_behind(ground: Ground) -> str | None:
    first = os.fork()
    if first == 0:
        with suppress(OSError):
            os.setsid()
        if os.fork() == 0:
            os.closerange(0, ground.held)
            os.closerange(ground.held + 1, 256)
            time.sleep(_STAYS_S)
        os._exit(0)
    os.waitpid(first, 0)
    return None  # whether it is still there is seen outside


# The network -----------------------------------------------------------------------------------


@_probe("sends a datagram to this machine")
def _udp(ground: Ground) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(b"x", ("127.0.0.1", ground.udp_port))
    return None  # nothing listens inside either, but UDP does not report that


@_probe("connects to an abstract Unix socket")
def _abstract_socket(ground: Ground) -> str | None:
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(f"\0{ground.token}")
    return "connected"


@_probe("connects to a Unix socket outside")
def _unix_socket(ground: Ground) -> str | None:
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(str(ground.outside / "stream"))
    return "connected"


@_probe("points one of a pair of sockets at another address")
def _pair_of_sockets(ground: Ground) -> str | None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.connect(str(ground.outside / "datagrams"))
    return "connected"


@_probe("talks to the kernel's network by a netlink socket")
def _netlink(_: Ground) -> str | None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW):
        return "opened"


@_probe("opens a socket of the kernel's cryptography", "kernel")
def _crypto_socket(_: Ground) -> str | None:
    with socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET):
        return "opened"


# The kernel ------------------------------------------------------------------------------------


@_probe("makes a device", "root")
def _make_device(ground: Ground) -> str | None:
    os.mknod(ground.workspace / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    return "made"


@_probe("changes its root", "root")
def _change_root(ground: Ground) -> str | None:
    os.chroot(ground.workspace)
    return "changed"


@_probe("makes a user namespace", "kernel")
def _user_namespace(_: Ground) -> str | None:
    _made(_LIBC.unshare(0x10000000))
    return "made"


@_probe("starts a process in namespaces of its own", "kernel")
def _namespaces_of_a_child(_: Ground) -> str | None:
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    child = _made(_LIBC.syscall(number, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "started"


@_probe("enters a namespace")
def _enter_namespace(_: Ground) -> str | None:
    return _looked_at(_LIBC.setns(-1, 0))


@_probe("uses the kernel's key rings", "kernel")
def _key_ring(_: Ground) -> str | None:
    number = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
    key = _made(_LIBC.syscall(number, b"user", b"covalt-probe", b"x", ctypes.c_long(1), -2))
    return f"key {key}"


@_probe("loads a program into the kernel (bpf)", "root")
def _bpf(_: Ground) -> str | None:
    number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    return _looked_at(_LIBC.syscall(number, 0, ctypes.create_string_buffer(64), 64))


@_probe("listens to the processor's counters", "root")
def _perf(_: Ground) -> str | None:
    number = {"x86_64": 298, "aarch64": 241}[os.uname().machine]
    wanted = ctypes.create_string_buffer(120)
    ctypes.c_uint32.from_buffer(wanted).value = 1
    ctypes.c_uint32.from_buffer(wanted, 4).value = 120
    end = _made(_LIBC.syscall(number, wanted, 0, -1, -1, 0))
    return f"descriptor {end}"


@_probe("uses io_uring", "kernel")
def _io_uring(_: Ground) -> str | None:
    return f"descriptor {_made(_LIBC.syscall(425, 1, ctypes.create_string_buffer(120)))}"


@_probe("stops the kernel at its own page faults", "root")
def _page_faults(_: Ground) -> str | None:
    number = {"x86_64": 323, "aarch64": 282}[os.uname().machine]
    return f"descriptor {_made(_LIBC.syscall(number, 0))}"


@_probe("types into the terminal that it was started from", "kernel")
def _type_into_terminal(ground: Ground) -> str | None:
    fcntl.ioctl(ground.terminal, 0x5412, b"x")
    return "typed"


@_probe("turns off the randomness of addresses")
def _personality(_: Ground) -> str | None:
    return f"was {_made(_LIBC.personality(0x0040000)):#x}"


@_probe("reboots the machine", "root")
def _reboot(_: Ground) -> str | None:
    number = {"x86_64": 169, "aarch64": 142}[os.uname().machine]
    return _looked_at(_LIBC.syscall(number, 0, 0, 0, 0))  # not the numbers that reboot anything


@_probe("becomes another user", "root")
def _another_user(_: Ground) -> str | None:
    other = os.getuid() + 1
    os.setresuid(other, other, other)
    return f"became {other}"


@_probe("gives a file to another user", "root")
def _give_away(ground: Ground) -> str | None:
    own = ground.workspace / "own"
    own.touch()
    os.chown(own, os.getuid() + 1, -1)
    return "gave it" if own.stat().st_uid != os.getuid() else None


# Limits ----------------------------------------------------------------------------------------


@_probe("raises its own limits", "kernel")
def _raise_limits(_: Ground) -> str | None:
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    except ValueError as error:
        raise PermissionError(errno.EPERM, str(error)) from None
    return "raised"


@_probe("leaves core files again", "kernel")
def _core_file(_: Ground) -> str | None:
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    except ValueError as error:
        raise PermissionError(errno.EPERM, str(error)) from None
    return "may be left"


@_probe("starts threads without end", "root")
def _thread_bomb(_ground: Ground) -> str | None:
    enough = threading.Event()
    threading.stack_size(1 << 16)  # so that it is not memory that ends it
    try:
        for _ in range(MOST_STARTED + 1):
            threading.Thread(target=enough.wait, daemon=True).start()
    except RuntimeError as error:
        raise BlockingIOError(errno.EAGAIN, str(error)) from None
    finally:
        enough.set()
    return f"more than {MOST_STARTED} threads"


@_probe("opens files without end", "none")
def _open_files(_: Ground) -> str | None:
    ends = [os.open(os.devnull, os.O_RDONLY) for _ in range(LIMITS.open_files + 1)]
    return f"{len(ends)} files"


def _made(returned: int) -> int:
    if returned == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return returned


def _looked_at(returned: int) -> str | None:
    """Return what the kernel said of a call that could not work, unless that it may not be made."""
    if returned == -1 and ctypes.get_errno() in {errno.EPERM, errno.EACCES, errno.ENOSYS}:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "the kernel looked at it"
