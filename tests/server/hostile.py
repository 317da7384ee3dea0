"""A hostile toolset, the expected outcome of each of its tools, and checks of what they leave behind.

Its limits are small, so that each is hit at once.  Whatever forks ends by itself after ten seconds,
so that a limit that does not hold fails a test and not the machine.
"""

import subprocess
from pathlib import Path
from textwrap import dedent

ENDS = {
    "bomb": "limit_processes: the tool started more processes than its limit allows",
    "hog": "limit_memory: the tool needed more than 200 MiB of memory",
    "flood": "limit_output: the tool printed or returned more than 1 MiB",
    "huge_result": "limit_output: the tool printed or returned more than 1 MiB",
    "unzip": "limit_files: the workspace has more than 2000 files",
    "open_zip": "limit_memory: the tool needed more than 200 MiB of memory",
    "sparse": "limit_workspace: the workspace has more than 64 MiB",
}
"""What the call of each tool says."""

MANIFEST = """\
id: bad
name: Bad
version: "1"
tools:
  - {id: bomb, entrypoint: tools.it:bomb, limits: {processes: 20}}
  - {id: hog, entrypoint: tools.it:hog, limits: {memory_mb: 200}}
  - {id: flood, entrypoint: tools.it:flood, limits: {output_mb: 1}}
  - {id: huge_result, entrypoint: tools.it:huge_result, limits: {output_mb: 1}}
  - {id: unzip, entrypoint: tools.it:unzip, limits: {files: 2000}}
  - {id: open_zip, entrypoint: tools.it:open_zip, limits: {memory_mb: 200}}
  - {id: sparse, entrypoint: tools.it:sparse, limits: {workspace_mb: 64}}
  - {id: leave, entrypoint: tools.it:leave}
  - {id: swap, entrypoint: tools.it:swap}
  - {id: wait, entrypoint: tools.it:wait}
  - {id: good, entrypoint: tools.it:good}
"""

TOOLS = '''\
import fcntl, os, shutil, socket, stat, struct, sys, tempfile, time, zipfile
from contextlib import suppress
from pathlib import Path


def hold(workspace: Path) -> None:
    """Keep a lock that every process below this one keeps too."""
    held = os.open(workspace / "held", os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    os.set_inheritable(held, True)


def bomb(workspace: Path, sessions: bool = True) -> None:
    """Twice as many processes every 30 ms, each in a session of its own or all in one."""
    hold(workspace)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if os.fork() == 0 and sessions:
            os.setsid()
        time.sleep(0.03)


def hog() -> None:
    """Memory without end, in pieces."""
    kept = []
    while True:
        kept.append(bytearray(b"x") * (8 << 20))


def flood() -> None:
    """Text without end, on both streams."""
    while True:
        os.write(1, b"y" * 65536)
        os.write(2, b"n" * 65536)


def huge_result() -> list[str]:
    return ["x" * 1000] * 5000


def unzip(workspace: Path) -> None:
    """An archive of more files than the workspace may hold, one hundred a folder."""
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w") as archive:
            for number in range(30_000):
                archive.writestr(f"{number // 100}/{number}.txt", "")
        with zipfile.ZipFile(file) as archive:
            archive.extractall(workspace)


def open_zip() -> None:
    """An archive of a million entries; opening it is enough."""
    entry = struct.Struct("<4s6H3L5H2L")
    count = 1_000_000
    with tempfile.TemporaryFile() as file:
        head = entry.pack(b"PK\\1\\2", *[20] * 2, *[0] * 7, 7, *[0] * 6)
        for first in range(0, count, 10_000):
            names = range(first, first + 10_000)
            file.write(b"".join(head + b"%07d" % number for number in names))
        size = file.tell()
        file.write(struct.pack("<4sQ2H2L4Q", b"PK\\6\\6", 44, 45, 45, 0, 0, count, count, size, 0))
        file.write(struct.pack("<4sLQL", b"PK\\6\\7", 0, size, 1))
        file.write(struct.pack("<4s4H2LH", b"PK\\5\\6", 0, 0, 65535, 65535, size, 0xFFFFFFFF, 0))
        zipfile.ZipFile(file)


def sparse(workspace: Path) -> None:
    os.truncate(os.open(workspace / "sparse", os.O_CREAT | os.O_WRONLY), 1 << 36)


def leave(workspace: Path, outside: str) -> list[str]:
    """Special files, and some that cannot be read."""
    left = []

    def made(name: str, make) -> None:
        with suppress(OSError):
            make(workspace / name)
            left.append(name)

    made("fifo", os.mkfifo)
    made("device", lambda path: os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5)))
    made("disk", lambda path: os.mknod(path, stat.S_IFBLK | 0o666, os.makedev(8, 0)))
    made("socket", lambda path: socket.socket(socket.AF_UNIX).bind("socket"))
    made("out", lambda path: path.symlink_to(outside))
    made("up", lambda path: path.symlink_to("../store.git"))
    made("round", lambda path: path.symlink_to("round"))
    made("zero", lambda path: path.symlink_to("/dev/zero"))
    made("locked", lambda path: (path.mkdir(), (path / "x").touch(), path.chmod(0)))
    made("mute", lambda path: (path.touch(), path.chmod(0)))
    made(".git", lambda path: (path.mkdir(), (path / "config").write_text("[core]")))
    made("kept.txt", lambda path: path.write_text("kept"))
    return left


def swap(workspace: Path, outside: str) -> None:
    """Leave behind a process that swaps a folder for a link while the call ends."""
    hold(workspace)
    (workspace / "folder").mkdir()
    for number in range(300):
        (workspace / "folder" / f"{number}.txt").write_text("inside")
    (workspace / "link").symlink_to(outside)
    end = time.monotonic() + 10
    if os.fork():
        time.sleep(0.05)
        return
    os.setsid()
    while time.monotonic() < end:
        with suppress(OSError):
            os.rename(workspace / "folder", workspace / "aside")
            os.rename(workspace / "link", workspace / "folder")
            os.rename(workspace / "folder", workspace / "link")
            os.rename(workspace / "aside", workspace / "folder")


def wait(workspace: Path) -> None:
    hold(workspace)
    (workspace / "begun").touch()
    time.sleep(60)


def good(workspace: Path) -> str:
    (workspace / "good.txt").write_text("good")
    return "good"
'''


def put_hostile(root: Path) -> None:
    """Give a project the toolset ``bad``."""
    folder = root / "toolsets" / "bad"
    (folder / "tools").mkdir(parents=True)
    (folder / "toolset.yaml").write_text(dedent(MANIFEST), encoding="utf-8")
    (folder / "tools" / "it.py").write_text(TOOLS, encoding="utf-8")


def check_store(store: Path) -> None:
    """Verify every object and ref of a chat with stock git."""
    checked = subprocess.run(
        ["git", "-C", str(store), "fsck", "--strict", "--no-dangling"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout) == (0, ""), checked.stderr
