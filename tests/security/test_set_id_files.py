"""Set-user-ID and set-group-ID files that a tool tries to leave for other users of the machine."""

from __future__ import annotations

import errno
import stat

import pytest

from covalt_git.runtime.sandbox.seccomp import SET_ID
from covalt_git.runtime.sandbox.syscall_numbers import NUMBERS
from tests.runtime.behind_walls import HOLDING, Yard, yard

__all__ = ["yard"]

BITS = (stat.S_ISUID, stat.S_ISGID)

TRY = """
import ctypes, os, stat, struct
libc = ctypes.CDLL(None, use_errno=True)
numbers = {numbers}[os.uname().machine]
os.umask(0)
open("plain", "w").close()
plain, here = os.open("plain", os.O_RDWR), os.open(".", os.O_RDONLY)
mode, new = {bit} | 0o777, os.O_CREAT | os.O_WRONLY
how = ctypes.create_string_buffer(struct.pack("=QQQ", new, mode, 0))
calls = [
    ("chmod", b"plain", mode),
    ("fchmod", plain, mode),
    ("fchmodat", here, b"plain", mode),
    ("fchmodat2", here, b"plain", mode, 0),
    ("open", b"open", new, mode),
    ("open", b".", os.O_TMPFILE | os.O_RDWR, mode),
    ("openat", here, b"openat", new, mode),
    ("openat", here, b".", os.O_TMPFILE | os.O_RDWR, mode),
    ("openat2", here, b"openat2", how, 24),
    ("creat", b"creat", mode),
    ("mkdir", b"mkdir", mode),
    ("mkdirat", here, b"mkdirat", mode),
    ("mknod", b"mknod", stat.S_IFREG | mode, 0),
    ("mknodat", here, b"mknodat", stat.S_IFREG | mode, 0),
]
for name, *arguments in calls:
    if name in numbers:
        made = libc.syscall(numbers[name], *arguments)
        print(name, ctypes.get_errno() if made == -1 else "made")
"""


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("level", HOLDING)
def test_no_system_call_sets_a_set_id_bit(yard: Yard, level: str, bit: int) -> None:
    """A tool creates a set-user-ID program, or makes a file one, by each system call that can."""
    numbers = {machine: dict(known) for machine, known in NUMBERS.items()}

    done = yard.run(level, TRY.format(numbers=numbers, bit=bit))

    said = [line.split() for line in done.output.splitlines()]
    assert len(said) > 7, done.errors
    for name, answer in said:
        assert answer == str(errno.ENOSYS if name == "openat2" else errno.EPERM), name
    assert [path.name for path in yard.workspace.iterdir()] == ["plain"]
    assert not (yard.workspace / "plain").stat().st_mode & SET_ID


@pytest.mark.parametrize("level", HOLDING)
def test_programs_copy_unpack_and_commit_as_before(yard: Yard, level: str) -> None:
    """The filter must not break cp -p, tar, shutil and git, which set modes and create files."""
    done = yard.run(
        level,
        """
        import os, shutil, subprocess, tarfile
        os.umask(0o022)
        os.mkdir("a")
        with open("a/program", "w") as file: file.write("x")
        os.chmod("a/program", 0o755)
        os.mkdir("a/sticky", 0o1777)
        os.close(os.open("a/program", os.O_RDONLY, 0o6777))  # the mode is not used
        shutil.copytree("a", "b")
        tarfile.open("a.tar", "w").add("a")
        env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null")
        for line in (
            "cp -pr a c",
            "mkdir d",
            "tar -xpf a.tar -C d",
            "git init -q e",
            "git -C e add .",
            "git -C e -c user.name=a -c user.email=a commit -q --allow-empty -m a",
        ):
            print(subprocess.run(line.split(), env=env).returncode)
        for copy in ("b", "c", "d/a"):
            print(open(f"{copy}/program").read())
        """,
    )

    assert done.output.split() == ["0"] * 6 + ["x"] * 3, done.errors
    assert done.code == 0
