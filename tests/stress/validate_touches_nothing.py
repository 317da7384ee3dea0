"""What ``validate`` does to the world, as the kernel sees it: it reads, and no more."""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.stress.figures import Proof
from tests.stress.nasty_toolsets import REPOSITORY, put_toolset, sources

PROMISE = (
    "`covalt-git validate` writes no file, starts no program, opens no connection, and always "
    "ends and reports problems, whatever the files of a project contain. Its worker processes "
    "are observed too."
)
COUNT = 3_000

_AT_ONCE = 250
_MOST_SECONDS = 300
_CANARY = Path("/tmp/covalt-git-was-run")
_TRACED = ",".join(
    [
        *("%network", "execve", "execveat", "fork", "vfork", "clone", "clone3", "kill", "ptrace"),
        *("open", "openat", "openat2", "creat", "truncate", "ftruncate", "mkdir", "mkdirat"),
        *("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "link", "linkat"),
        *("symlink", "symlinkat", "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "chown"),
        *("lchown", "fchown", "fchownat", "utimensat", "setxattr", "fsetxattr", "removexattr"),
        *("mount", "umount2", "chroot", "memfd_create", "fallocate", "copy_file_range", "sendfile"),
    ]
)
_CALL = re.compile(r"^(?:\d+ +)?(?P<name>\w+)\((?P<rest>.*)", re.MULTILINE)
_FORK = re.compile(r"child_stack=NULL, flags=CLONE_CHILD_CLEARTID\|CLONE_CHILD_SETTID\|SIGCHLD\b")
_MANIFEST = re.compile(r"/toolsets/(t\d+)/toolset\.yaml\"")
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
_ALLOWED = re.compile(r'AT_FDCWD, "/dev/null", O_RDWR|"/dev/null", O_(?:WRONLY|RDWR)')


def prove(proof: Proof, count: int, seed: int) -> None:
    """Validate ``count`` nasty toolsets, some hundred at once, each time under strace."""
    strace = shutil.which("strace")
    proof.check(strace, "strace is needed, to see what validate does")
    files = sources()
    random = Random(seed)
    told = calls = read = copies = 0
    _CANARY.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="covalt-proof-") as name:
        for done in range(0, count, _AT_ONCE):
            root = Path(name) / str(done)
            many = min(_AT_ONCE, count - done)
            for number in range(many):
                put_toolset(root / "toolsets" / f"t{number}", random, files)
            (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
            before = _state(root)
            trace, problems = _validate(proof, root, Path(name) / "trace")
            wrong = list(_more_than_reading(trace))
            proof.check(not wrong, f"validate did more than read: {wrong[:3]}")
            proof.check(_state(root) == before, "a file of the project is not as it was")
            proof.check(not _CANARY.exists(), "a line of a tool's Python was run")
            told += problems
            found = [match["name"] for match in _CALL.finditer(trace)]
            opened = set(_MANIFEST.findall(trace))
            unread = [f"t{n}" for n in range(many) if f"t{n}" not in opened]
            proof.check(not unread, f"these were never read: {unread[:3]}")
            calls += len(found)
            read += sum(one.startswith("open") for one in found)
            copies += sum(_is_copy(match) for match in _CALL.finditer(trace))
            shutil.rmtree(root)
            proof.progress(done + many, count)
    proof.check(told > count, f"only {told} problems were told of {count} nasty toolsets")
    proof.note("toolsets", count)
    proof.note("problems reported", told)
    proof.note("system calls observed", calls)
    proof.note("files and folders opened for reading", read)
    proof.note("files and folders written, created, renamed or deleted", 0)
    proof.note("worker processes", copies)
    proof.note("programs started", 0)
    proof.note("sockets", 0)


def _validate(proof: Proof, root: Path, trace: Path) -> tuple[str, int]:
    """Run the command under strace; return its system calls and its number of problems."""
    place = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "server")])
    # Python's bytecode cache is not part of this test.
    environment = os.environ | {"PYTHONPATH": place, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "covalt_git", "-C", str(root), "validate", "--json"]
    try:
        strace = ["strace", "-f", "-qq", "-e", f"trace={_TRACED}", "-e", "signal=none", "-o"]
        done = subprocess.run(
            [*strace, str(trace), *command],
            capture_output=True,
            timeout=_MOST_SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        proof.check(False, f"validate did not end within {_MOST_SECONDS} s")
        raise
    errors = done.stderr.decode("utf-8", "replace")
    proof.check(done.returncode in (0, 1) and not errors, f"it ended otherwise: {errors[-2000:]}")
    return trace.read_text(encoding="utf-8", errors="replace"), len(
        json.loads(done.stdout)["problems"]
    )


def _more_than_reading(trace: str) -> Iterator[str]:
    """Yield the calls that could change something; the first program started is validate itself."""
    started = False
    for call in _CALL.finditer(trace):
        name, line = call["name"], call[0][:200]
        if name == "execve" and not started:
            started = True
        elif name in {"open", "openat", "openat2"}:
            if _WRITES.search(call["rest"]) and not _ALLOWED.search(call["rest"]):
                yield line
        elif name in {"clone", "clone3"}:
            if "CLONE_THREAD" not in call["rest"] and not _is_copy(call):
                yield line
        else:
            yield line


def _is_copy(call: re.Match[str]) -> bool:
    """Return whether a call is ``fork()``: a copy in the same namespaces, which strace follows."""
    return call["name"] == "clone" and _FORK.match(call["rest"]) is not None


def _state(root: Path) -> str:
    """Return a digest of all that is below a folder: names, kinds, modes, times and contents."""
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        whole.update(f"{path}\0{status.st_mode}\0{status.st_mtime_ns}\0".encode())
        if stat.S_ISREG(status.st_mode):
            whole.update(path.read_bytes())
    return whole.hexdigest()
