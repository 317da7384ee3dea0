"""Seccomp: which system calls a tool may make, and with which arguments.

The filter lists denied calls, as those of Flatpak and systemd do.  A list of allowed calls would break compiled
code of tools with each release of glibc.  A call that is newer than this table does not exist for a tool
(``ENOSYS``) until it was reviewed.

The filter is classic BPF (``linux/filter.h``) over ``struct seccomp_data`` (``linux/seccomp.h``).  A
denied call fails with ``EPERM``; a call of another architecture (32-bit, x32) ends the process.  Only the low
half of an argument is tested if the kernel takes an ``int``.

For the program of an MCP server, the kernel asks a listener about each denied call (seccomp_unotify(2)), so that the
user learns its name.  The answer is the same error, so neither the listener nor its end permits anything.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import stat
import struct
from socket import AF_INET, AF_INET6, AF_UNIX
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from covalt_git.runtime.sandbox import system_calls
from covalt_git.runtime.sandbox.syscall_numbers import AUDIT_ARCHITECTURES, LAST_KNOWN, NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable

_LOAD, _AND = 0x20, 0x54
_IF_EQUAL, _IF_ABOVE, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x25, 0x35, 0x45
_RETURN = 0x06
_ALLOW, _ERRNO, _KILL, _ASK_LISTENER = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000
_FILTER_MODE = 2
_SET_FILTER, _NEW_LISTENER = 1, 1 << 3
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
"""``struct seccomp_notif``: its id, the process, flags, and the ``struct seccomp_data`` of the call."""
_NOTIFICATION_ANSWER = struct.Struct("=QqiI")
_CONTINUE = 1

_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_X32 = 0x40000000
_SIZE = struct.calcsize("=HBBI")

NAMESPACES: Final = (
    functools.reduce(
        int.__or__,
        (value for name, value in vars(system_calls).items() if name.startswith("CLONE_NEW")),
    )
    & ~system_calls.CLONE_NEWTIME
)  # which clone() reads as part of a signal's number

TIOCSTI, TIOCLINUX = 0x5412, 0x541C
_FIOSETOWN, _SIOCSPGRP = 0x8901, 0x8902
_FILE_FLAGS, _PROJECT_FLAGS = 0x40086602, 0x401C5820
_F_SETOWN, _F_SETOWN_EX = 8, 15
_SOCK_TYPE, _SOCK_DGRAM = 0xF, 2
_WHO_PROCESS, _IO_WHO_PROCESS = 0, 1
_CREATING = os.O_CREAT | 0x400000  # O_TMPFILE without O_DIRECTORY, which opens folders as well
SET_ID = stat.S_ISUID | stat.S_ISGID


class Test(NamedTuple):
    """A question about one argument, after ``mask`` was laid over it."""

    argument: int
    is_: Literal["equal", "other", "any bit of"]
    value: int
    mask: int = 0xFFFFFFFF
    high: bool = False
    """Asks the upper half, which only addresses have."""


class Rule(NamedTuple):
    """The error of a call that is not made because all tests match; 0 reports success."""

    name: str
    answer: int = errno.EPERM
    tests: tuple[Test, ...] = ()


_NO_USUAL_FAMILY = tuple(Test(0, "other", int(family)) for family in (AF_UNIX, AF_INET, AF_INET6))


def _is_null(argument: int) -> tuple[Test, ...]:
    return (Test(argument, "equal", 0), Test(argument, "equal", 0, high=True))


def _denied(names: str, answer: int = errno.EPERM) -> tuple[Rule, ...]:
    return tuple(Rule(name, answer) for name in names.split())


def _set_id_denied(mode: int, names: str, *, creating: int | None = None) -> tuple[Rule, ...]:
    """Return rules that deny set-user-ID and set-group-ID bits in the argument ``mode``.

    ``creating`` is the argument with open flags: without them to create a file, the kernel ignores
    ``mode``, and the register may hold anything.
    """
    tests: tuple[Test, ...] = (Test(mode, "any bit of", SET_ID),)
    if creating is not None:
        tests = (Test(creating, "any bit of", _CREATING), *tests)
    return tuple(Rule(name, tests=tests) for name in names.split())


EVERYWHERE: Final[tuple[Rule, ...]] = (
    # Files keep these bits after the call: another user of the machine could run such a program with
    # the rights of the user who made the call.  A umask cannot set them, and links keep the mode.
    *_set_id_denied(1, "chmod fchmod creat mkdir mknod"),
    *_set_id_denied(2, "fchmodat fchmodat2 mkdirat mknodat"),
    *_set_id_denied(2, "open", creating=1),
    *_set_id_denied(3, "openat", creating=2),
    *_denied("openat2", errno.ENOSYS),  # its mode is in memory; programs fall back to openat
    # other processes' memory and descriptors
    *_denied("ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise"),
    *_denied("process_mrelease"),
    # the kernel's own machinery, and where its holes have been
    *_denied("bpf perf_event_open userfaultfd keyctl add_key request_key personality syslog"),
    # What a ring does passes no filter.  Programs fall back to ordinary calls.
    *_denied("io_uring_setup io_uring_enter io_uring_register", errno.ENOSYS),
    *_denied("kexec_load kexec_file_load init_module finit_module delete_module"),
    *_denied("lookup_dcookie modify_ldt iopl ioperm uselib ustat sysfs"),
    *_denied("lsm_set_self_attr fanotify_init fanotify_mark"),
    # the machine
    *_denied("reboot swapon swapoff acct quotactl quotactl_fd vhangup sethostname setdomainname"),
    *_denied("settimeofday clock_settime clock_adjtime adjtimex"),
    *_denied("move_pages migrate_pages mbind set_mempolicy set_mempolicy_home_node"),
    # The limits of other processes, and their share of the processor.  The warm sandbox is one of
    # them: the next call would inherit its limits.
    Rule("prlimit64", tests=(Test(0, "other", 0),)),
    *(
        Rule(name, tests=(Test(0, "other", 0),))
        for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
    ),
    Rule("setpriority", tests=(Test(0, "other", _WHO_PROCESS),)),
    Rule("setpriority", tests=(Test(1, "other", 0),)),
    Rule("ioprio_set", tests=(Test(0, "other", _IO_WHO_PROCESS),)),
    Rule("ioprio_set", tests=(Test(1, "other", 0),)),
    # what stays in the kernel when its maker has ended: the next call would find it
    *_denied("shmget shmat shmctl semget semctl semop semtimedop msgget msgctl msgsnd msgrcv"),
    *_denied("mq_open mq_unlink"),
    # Mounts, roots and namespaces: in a new user namespace, a tool would have capabilities again, and with them the
    # code of the kernel that only root reaches elsewhere.  A handle opens a file without its path.
    *_denied("mount umount2 pivot_root chroot setns unshare open_tree open_tree_attr move_mount"),
    *_denied("fsopen fsconfig fsmount fspick mount_setattr statmount listmount"),
    *_denied("open_by_handle_at name_to_handle_at"),
    Rule("clone", tests=(Test(0, "any bit of", NAMESPACES),)),
    *_denied("clone3", errno.ENOSYS),  # its flags lie in memory; every libc falls back to clone
    # typing into a terminal that the tool was started from
    Rule("ioctl", tests=(Test(1, "equal", TIOCSTI),)),
    Rule("ioctl", tests=(Test(1, "equal", TIOCLINUX),)),
    # Sockets that reach the kernel or the host rather than a network: netlink, packets, virtual machines (vsock).
    *(Rule(name, errno.EAFNOSUPPORT, _NO_USUAL_FAMILY) for name in ("socket", "socketpair")),
)
"""What no tool may do at any level."""

ALONE: Final[tuple[Rule, ...]] = (
    # No network of its own to be shut into, so no socket; a datagram socket of a pair can be pointed
    # at another address, a stream cannot.
    *_denied("socket"),
    Rule("socketpair", tests=(Test(1, "equal", _SOCK_DGRAM, mask=_SOCK_TYPE),)),
    # Landlock does not restrict modes, owners and timestamps.  These calls do nothing and report
    # success: copying and unpacking files sets them, and an error would end programs that can do without.
    *_denied("chmod fchmod fchmodat fchmodat2", 0),
    # But "now" by a path is how `touch` asks whether a file is there, before it makes one.
    Rule("utimensat", 0, _is_null(1)),
    *(
        Rule(name, tests=_is_null(times))
        for name, times in (("utimensat", 2), ("futimesat", 2), ("utimes", 1), ("utime", 1))
    ),
    *_denied("utimensat futimesat utimes utime", 0),
    *_denied("chown lchown fchown fchownat", 0),
    *_denied("setxattr lsetxattr fsetxattr setxattrat", errno.ENOTSUP),
    *_denied("removexattr lremovexattr fremovexattr removexattrat", errno.ENOTSUP),
    *_denied("file_setattr"),
    Rule("ioctl", tests=(Test(1, "equal", _FILE_FLAGS),)),
    Rule("ioctl", tests=(Test(1, "equal", _PROJECT_FLAGS),)),
    # Landlock does not restrict watches, which show the names of files outside.
    *_denied("inotify_add_watch"),
    # The parent ends the process group, so the tool may not leave it.
    *_denied("setsid setpgid"),
)
"""What else is denied where no namespaces keep a tool from the rest of the machine."""


OBSERVED: Final = (
    *(
        "open",
        "openat",
        "stat",
        "lstat",
        "newfstatat",
        "statx",
        "access",
        "faccessat",
        "faccessat2",
    ),
    *("execve", "connect"),
)
"""Calls that a listener can observe: what they name is in the memory of the process."""


class SystemCall(NamedTuple):
    """A call of :data:`OBSERVED` that waits: its process, its name and its arguments."""

    pid: int
    name: str
    arguments: tuple[int, ...]


def _unscoped(own: int) -> tuple[Rule, ...]:
    """Return rules that allow signals to the process and its group only, if landlock cannot restrict them."""
    themselves = tuple(Test(0, "other", value) for value in (0, own))
    return (
        *(Rule(name, tests=themselves) for name in ("kill", "tkill", "tgkill")),
        *(Rule(name, tests=themselves) for name in ("rt_sigqueueinfo", "rt_tgsigqueueinfo")),
        *_denied("pidfd_open pidfd_send_signal"),
        Rule("fcntl", tests=(Test(1, "equal", _F_SETOWN),)),
        Rule("fcntl", tests=(Test(1, "equal", _F_SETOWN_EX),)),
        Rule("ioctl", tests=(Test(1, "equal", _FIOSETOWN),)),
        Rule("ioctl", tests=(Test(1, "equal", _SIOCSPGRP),)),
    )


def restrict(
    *,
    alone: bool,
    signals_of: int | None = None,
    listens: bool = False,
    observes: bool = False,
) -> int | None:
    """Hold this process to the calls it may make; needs ``no_new_privs``.

    ``alone`` means without namespaces.  ``signals_of`` is its own id where the kernel
    cannot keep its signals from others.  With ``listens``, return the descriptor for :func:`refused_call`, which
    ``exec`` closes; None if the kernel has no listeners, or a container already has one.  With ``observes``, the
    listener also gets each call of :data:`OBSERVED`, which it only reads.
    """
    rules = EVERYWHERE + (ALONE if alone else ())
    if signals_of is not None:
        rules += _unscoped(signals_of)
    if listens:
        with contextlib.suppress(OSError):
            observed = OBSERVED if observes else ()
            return _load_with_listener(
                program(rules, system_calls.MACHINE, asks=True, observed=observed)
            )
    load(program(rules, system_calls.MACHINE))
    return None


def refused_call(listener: int, observe: Callable[[SystemCall], None] | None = None) -> str | None:
    """Refuse the call that a listener has a notification of; return its name, None if its process has ended.

    With ``observe``, which is only for a filter that observes, a call of :data:`OBSERVED` is passed to it and made.
    """
    notification = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, notification)
        which, pid, _, number, _, _, *arguments = _NOTIFICATION.unpack(notification)
        name = _names().get(number, f"number {number}")
        if observe is not None and name in OBSERVED:
            # Before the answer: the memory that the arguments point to is then still that of the waiting call.
            observe(SystemCall(pid, name, tuple(arguments)))
            proceed = _NOTIFICATION_ANSWER.pack(which, 0, 0, _CONTINUE)
            fcntl.ioctl(listener, _ANSWER, bytearray(proceed))
            return None
        answer = _NOTIFICATION_ANSWER.pack(which, 0, -errno.EPERM, 0)
        fcntl.ioctl(listener, _ANSWER, bytearray(answer))
    except FileNotFoundError:
        return None
    return name


@functools.cache
def _names() -> dict[int, str]:
    return {number: name for name, number in NUMBERS[system_calls.MACHINE].items()}


def _load_with_listener(instructions: bytes) -> int:
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    header = struct.pack("@HP", len(instructions) // _SIZE, ctypes.addressof(buffer))
    return system_calls.call("seccomp", _SET_FILTER, _NEW_LISTENER, ctypes.c_char_p(header))


def load(instructions: bytes) -> None:
    """Give the kernel a program of BPF for this process and its children."""
    # A local variable: the header has only its address, which must be valid until the call has returned.
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    # struct sock_fprog: how many instructions, and where; the gap between is the compiler's.
    header = struct.pack("@HP", len(instructions) // _SIZE, ctypes.addressof(buffer))
    system_calls.prctl(system_calls.PR_SET_SECCOMP, _FILTER_MODE, ctypes.c_char_p(header))


@functools.lru_cache(maxsize=8)
def program(
    rules: tuple[Rule, ...], machine: str, *, asks: bool = False, observed: tuple[str, ...] = ()
) -> bytes:
    """Return the rules as instructions for a machine; calls that it does not have are left out.

    With ``asks``, a listener answers the calls that fail with ``EPERM``, and those of ``observed`` that no rule denies.
    """
    numbers = NUMBERS[machine]
    steps = [
        # A 64-bit program can make 32-bit calls, in which the same numbers are other calls
        # (test_call_of_another_architecture_ends_the_process).
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_IF_EQUAL, AUDIT_ARCHITECTURES[machine], yes=1),
        _step(_RETURN, _KILL),
        # Calls of x32 are those of x86_64 with this bit, so that no rule below would match them.
        _step(_LOAD, _NUMBER_AT),
        _step(_IF_AT_LEAST, _X32, no=1),
        _step(_RETURN, _KILL),
        _step(_IF_ABOVE, LAST_KNOWN, no=1),
        _step(_RETURN, _ERRNO | errno.ENOSYS),
    ]
    for rule in rules:
        if rule.name in numbers:
            # The listener lets observed calls be made, so it must not get one that a rule denies
            # (test_an_observed_call_that_a_rule_denies_is_refused).
            asks_about = asks and rule.name not in observed
            steps += _block(rule, numbers[rule.name], asks=asks_about)
    for name in observed:
        if name in numbers:
            steps += [_step(_IF_EQUAL, numbers[name], no=1), _step(_RETURN, _ASK_LISTENER)]
    steps.append(_step(_RETURN, _ALLOW))
    return b"".join(steps)


def _block(rule: Rule, number: int, *, asks: bool) -> list[bytes]:
    """Return the instructions of one rule; other calls continue after them."""
    # Programs expect the other errors, and use another call then: these refusals explain nothing.
    is_reported = asks and rule.answer == errno.EPERM
    answer = _step(_RETURN, _ASK_LISTENER if is_reported else _ERRNO | rule.answer)
    if not rule.tests:
        return [_step(_IF_EQUAL, number, no=1), answer]
    steps: list[bytes] = []
    behind = 1  # the answer; the number is loaded again after it
    for test in reversed(rule.tests):
        passed = test.is_ != "other"
        kind = _IF_ANY_BIT if test.is_ == "any bit of" else _IF_EQUAL
        asked = [
            _step(_LOAD, _ARGUMENTS_AT + 8 * test.argument + 4 * test.high),
            _step(_AND, test.mask),
            _step(kind, test.value, yes=0 if passed else behind, no=behind if passed else 0),
        ]
        steps = asked + steps
        behind += len(asked)
    body = [*steps, answer, _step(_LOAD, _NUMBER_AT)]
    return [_step(_IF_EQUAL, number, no=len(body)), *body]


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)
