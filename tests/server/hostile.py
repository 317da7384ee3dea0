"""A hostile toolset, the expected outcome of each of its tools, and checks of what they leave behind.

Its limits are small, so that each is hit at once.  Whatever forks ends by itself after ten seconds,
so that a limit that does not hold fails a test and not the machine.
"""

_LIMITS = {
    "bomb": "limit_processes: the tool started more processes than its limit allows",
    "hog": "limit_memory: the tool needed more than 100 MiB of memory",
    "flood": "limit_output: the tool printed or returned more than 1 MiB",
    "huge_result": "limit_output: the tool printed or returned more than 1 MiB",
    "unzip": "limit_files: the workspace has more than 2000 files",
    "open_zip": "limit_memory: the tool needed more than 100 MiB of memory",
    "sparse": "limit_workspace: the workspace has more than 64 MiB",
}
ENDS = {tool: f"{why}; the tool may have had its effect" for tool, why in _LIMITS.items()}
"""What the call of each tool says."""

MANIFEST = """\
id: bad
name: Bad
version: "1"
tools:
  - {id: bomb, entrypoint: tools.bad:bomb, limits: {processes: 20}}
  - {id: hog, entrypoint: tools.bad:hog, limits: {memory_mb: 100}}
  - {id: flood, entrypoint: tools.bad:flood, limits: {output_mb: 1}}
  - {id: huge_result, entrypoint: tools.bad:huge_result, limits: {output_mb: 1}}
  - {id: unzip, entrypoint: tools.bad:unzip, limits: {files: 2000}}
  - {id: open_zip, entrypoint: tools.bad:open_zip, limits: {memory_mb: 100}}
  - {id: sparse, entrypoint: tools.bad:sparse, limits: {workspace_mb: 64}}
  - {id: good, entrypoint: tools.bad:good}
"""

TOOLS = '''\
import os, struct, tempfile, time, zipfile
from pathlib import Path


def bomb() -> None:
    """Twice as many processes every 30 ms, each in a session of its own."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if os.fork() == 0:
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
            for number in range(6_000):
                archive.writestr(f"{number // 100}/{number}.txt", "")
        with zipfile.ZipFile(file) as archive:
            archive.extractall(workspace)


def open_zip() -> None:
    """An archive of 400,000 entries; opening it is enough."""
    entry = struct.Struct("<4s6H3L5H2L")
    count = 400_000
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


def good(workspace: Path) -> str:
    (workspace / "good.txt").write_text("good")
    return "good"
'''
