"""Numbers of the system calls that the sandbox makes, or that :mod:`.seccomp` names.

Calls that Linux has had no code for since 5.5, such as ``_sysctl``, are left out: seccomp is used with newer ones only.

Sources: ``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h`` of Linux.
"""

from __future__ import annotations

from typing import Final

AUDIT_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_FIRST_SHARED: Final = 424
_SHARED: Final = (
    *("pidfd_send_signal", "io_uring_setup", "io_uring_enter", "io_uring_register", "open_tree"),
    *("move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "pidfd_open", "clone3"),
    *("close_range", "openat2", "pidfd_getfd", "faccessat2", "process_madvise", "epoll_pwait2"),
    *("mount_setattr", "quotactl_fd", "landlock_create_ruleset", "landlock_add_rule"),
    *("landlock_restrict_self", "memfd_secret", "process_mrelease", "futex_waitv"),
    *("set_mempolicy_home_node", "cachestat", "fchmodat2", "map_shadow_stack", "futex_wake"),
    *("futex_wait", "futex_requeue", "statmount", "listmount", "lsm_get_self_attr"),
    *("lsm_set_self_attr", "lsm_list_modules", "mseal", "setxattrat", "getxattrat", "listxattrat"),
    *("removexattrat", "open_tree_attr", "file_getattr", "file_setattr"),
)
"""Every call since Linux 5.1, in order, each with the same number on all machines; to Linux 6.17."""

LAST_KNOWN: Final = _FIRST_SHARED + len(_SHARED) - 1
"""The newest call that was reviewed."""

_CALLS: Final[dict[str, tuple[int | None, int | None]]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chown": (92, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "creat": (85, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "fcntl": (72, 25),
    "finit_module": (313, 273),
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "futimesat": (261, None),
    "init_module": (175, 105),
    "inotify_add_watch": (254, 27),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "lchown": (94, None),
    "lookup_dcookie": (212, 18),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "openat": (257, 56),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "removexattr": (197, 14),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "seccomp": (317, 277),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "set_mempolicy": (238, 237),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpgid": (109, 154),
    "setpriority": (141, 140),
    "setsid": (112, 157),
    "settimeofday": (164, 170),
    "setxattr": (188, 5),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
    "vhangup": (153, 58),
}
"""The number of each older call on x86_64 and on aarch64; None if the machine does not have it."""

NUMBERS: Final = {
    machine: {name: number for number, name in enumerate(_SHARED, _FIRST_SHARED)}
    | {name: number for name, of in _CALLS.items() if (number := of[column]) is not None}
    for column, machine in enumerate(AUDIT_ARCHITECTURES)
}
