"""How long chat workspaces take compared with git, in one run: the table of what they have to reach.

    python -m bench.workspaces [ROW...] [--rounds N] [--large] [--durability fast] [--json]

A row is any part of a row's name; without one all are run.  ``--large`` adds those of 100,000 files.
Git and ours take turns, round by round, so that a busy machine is busy for both; figures are
medians in milliseconds, a ratio is git / ours (for disk: ours / git).  Git runs as people run it, a
process a command; ours is measured in a process that is up, its lock and its recovery included.
Ours flushes to the disk what git does not: with ``--durability fast`` neither does.  The rows
of small writes have a second line: the same compared with a git that promises as much.
Files are 1 to 4 KiB of text that looks like source, 20 in a folder.  Rows said to be on tmpfs run
in /dev/shm, since the time a disk takes to make files varies tenfold; the others in ``TMPDIR``, so
that ``TMPDIR=/dev/shm`` shows their time without the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import random
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.trust.own_data import is_own
from covalt_git.workspaces import branches
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from covalt_git.workspaces.chat import ChatStore

ROOT = Path(__file__).resolve().parents[1]
MEMORY = Path("/dev/shm")  # where it is missing, these rows run on the disk like the others
WORDS = [
    "self",
    "return",
    "value",
    "path",
    "entry",
    "for",
    "name",
    "in",
    "import",
    "def",
    "tree",
    "chat",
    "if",
    "else",
    "None",
    "store",
]
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.com",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.com",
}
TOKEN = "token-of-the-benchmark"
DURABILITY = "BENCH_DURABILITY"
"""The variable with the durability, for child processes too."""
GIT_FLUSHES = "BENCH_GIT_FLUSHES"
"""The variable that says that git flushes all that it writes."""

GET_FLAGS, SET_FLAGS, TOP_FOLDER = 0x80086601, 0x40086602, 0x20000
"""``FS_IOC_GETFLAGS``, ``FS_IOC_SETFLAGS`` and ``FS_TOPDIR_FL`` of Linux on 64 bits."""

Round = tuple[float, float]
"""What git and what ours took, in seconds (of the row about disk: in bytes)."""


@dataclass(frozen=True)
class Row:
    name: str
    must: float
    aim: float
    rounds: int
    measure: Callable[[int], Iterator[Round]]
    large: bool = False
    smaller_is_better: bool = False
    flushes: bool = False


ROWS: list[Row] = []


def row(
    name: str,
    must: float,
    aim: float,
    *,
    rounds: int,
    large: bool = False,
    disk: bool = False,
    flushes: bool = False,
) -> Callable[[Callable[[int], Iterator[Round]]], Callable[[int], Iterator[Round]]]:
    def add(measure: Callable[[int], Iterator[Round]]) -> Callable[[int], Iterator[Round]]:
        ROWS.append(Row(name, must, aim, rounds, measure, large, disk, flushes))
        return measure

    return add


# What the rows work on


def text(chance: random.Random, size: int) -> bytes:
    lines = []
    while size > 0:
        line = " " * chance.choice((0, 4, 8)) + " ".join(chance.choices(WORDS, k=6))
        lines.append(f"{line} = {chance.randrange(10**6)}")
        size -= len(lines[-1]) + 1
    return "\n".join(lines).encode()


def path_of(number: int) -> str:
    return f"pkg{number // 400:02}/part{number // 20:04}/module_{number:06}.py"


def make_files(folder: Path, count: int) -> None:
    chance = random.Random(count)
    for number in range(count):
        path = folder / path_of(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text(chance, chance.randrange(1024, 4096)))


def make_large_files(folder: Path) -> None:
    chance = random.Random(20)
    folder.mkdir(exist_ok=True)
    for number in range(20):
        parts = (chance.randbytes(2800) + text(chance, 1296) for _ in range(20 << 8))
        (folder / f"large_{number:02}.bin").write_bytes(b"".join(parts)[: 20 << 20])


@contextlib.contextmanager
def place(*, memory: bool = False) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if memory and MEMORY.is_dir() else None) as above:
        spread(above)
        yield Path(tempfile.mkdtemp(dir=above))


def spread(above: str) -> None:
    """Set the flag by which ext4 spreads the folders of this one over the disk, as those of its root.

    Near ten thousand files that an earlier row deleted, ext4 checks all their inodes, for minutes,
    before it assigns a new one (``recently_deleted`` of ``fs/ext4/ialloc.c``).  Without the flag, this
    time would count for git (27 files of a repository) and for us (14 files of a chat).
    """
    handle = os.open(above, os.O_RDONLY)
    try:
        flags = bytearray(struct.calcsize("l"))
        fcntl.ioctl(handle, GET_FLAGS, flags)
        value = int.from_bytes(flags[:4], sys.byteorder) | TOP_FOLDER
        fcntl.ioctl(handle, SET_FLAGS, value.to_bytes(len(flags), sys.byteorder))
    except OSError:
        pass  # another file system, which need not have it
    finally:
        os.close(handle)


def chats_in(folder: Path, **config: str) -> Chats:
    settings = {"durability": os.environ.get(DURABILITY, "full")} | config
    return Chats(folder / "chats", WorkspaceConfig.model_validate(settings))


def git(folder: Path, *arguments: str, fails: bool = False) -> bytes:
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "gc.auto=0", *_flushing(), *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        check=not fails,
    )
    return done.stdout


def _flushing() -> list[str]:
    return ["-c", "core.fsync=all"] if os.environ.get(GIT_FLUSHES) else []


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@contextlib.contextmanager
def pair(count: int, *, memory: bool = False) -> Iterator[tuple[Path, ChatStore]]:
    """Yield a git working tree and a chat of the same files, both saved."""
    with (
        place(memory=memory) as folder,
        chats_in(folder).new("c1") as chat,
    ):
        make_files(chat.workspace, count)
        shutil.copytree(chat.workspace, folder / "git")
        git(folder / "git", "init", "--quiet")
        save_with_git(folder / "git")
        save(chat)
        time.sleep(0.1)  # what is so fresh that a clock's tick could hide a change is read again
        save_with_git(folder / "git")
        for _ in range(3):
            save(chat)
        yield folder / "git", chat


def save_with_git(work: Path) -> None:
    git(work, "add", "-A")
    git(work, "commit", "--quiet", "-m", "edit", fails=True)  # it fails where nothing changed


def save(chat: ChatStore) -> str | None:
    with writing(chat) as writer:
        return writer.commit_changes()


def edit(folders: Iterable[Path], numbers: Iterable[int], chance: random.Random) -> None:
    for number in numbers:
        content = text(chance, chance.randrange(1024, 4096))
        for folder in folders:
            (folder / path_of(number)).write_bytes(content)


# Snapshots


def nothing_changed(count: int, rounds: int) -> Iterator[Round]:
    with pair(count) as (work, chat):
        for _ in range(rounds):
            gits = seconds(lambda: save_with_git(work))
            with writing(chat) as writer:
                yield gits, seconds(writer.scan)


@row("snapshot, nothing changed: 200 files", 8, 17, rounds=51)
def nothing_of_200(rounds: int) -> Iterator[Round]:
    return nothing_changed(200, rounds)


@row("snapshot, nothing changed: 1k files", 2.2, 3.0, rounds=31)
def nothing_of_1k(rounds: int) -> Iterator[Round]:
    return nothing_changed(1_000, rounds)


@row("snapshot, nothing changed: 10k files", 1.2, 1.6, rounds=21)
def nothing_of_10k(rounds: int) -> Iterator[Round]:
    return nothing_changed(10_000, rounds)


@row("snapshot, nothing changed: 100k files", 0.9, 1.5, rounds=7, large=True)
def nothing_of_100k(rounds: int) -> Iterator[Round]:
    return nothing_changed(100_000, rounds)


FRESH = """
import sys, time
from pathlib import Path
from bench.workspaces import chats_in
from covalt_git.workspaces.writing import writing
with chats_in(Path(sys.argv[1])).open("c1") as chat, writing(chat) as writer:
    start = time.perf_counter()
    writer.scan()
    print(time.perf_counter() - start)
"""


def nothing_changed_fresh(count: int, rounds: int) -> Iterator[Round]:
    with pair(count) as (work, chat):
        command = [sys.executable, "-c", FRESH, str(work.parent)]
        for _ in range(rounds):
            gits = seconds(lambda: save_with_git(work))
            ours = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
            yield gits, float(ours.stdout)
        assert chat.head() is not None


@row("the same from a fresh process: 10k files", 0.6, 1.0, rounds=11)
def fresh_of_10k(rounds: int) -> Iterator[Round]:
    return nothing_changed_fresh(10_000, rounds)


@row("the same from a fresh process: 100k files", 0.6, 1.0, rounds=5, large=True)
def fresh_of_100k(rounds: int) -> Iterator[Round]:
    return nothing_changed_fresh(100_000, rounds)


def some_changed(count: int, changed: int, rounds: int) -> Iterator[Round]:
    chance = random.Random(changed)
    with pair(count) as (work, chat):
        for _ in range(rounds):
            edit((work, chat.workspace), chance.sample(range(count), changed), chance)
            time.sleep(0.05)
            yield seconds(lambda: save_with_git(work)), seconds(lambda: save(chat))


@row("snapshot, 1 file of 200", 2.0, 2.5, rounds=51, flushes=True)
def one_of_200(rounds: int) -> Iterator[Round]:
    return some_changed(200, 1, rounds)


@row("snapshot, 1 file of 1k", 1.6, 2.1, rounds=31, flushes=True)
def one_of_1k(rounds: int) -> Iterator[Round]:
    return some_changed(1_000, 1, rounds)


@row("snapshot, 1 file of 10k", 1.1, 1.4, rounds=31, flushes=True)
def one_of_10k(rounds: int) -> Iterator[Round]:
    return some_changed(10_000, 1, rounds)


@row("snapshot, 100 files of 10k", 1.4, 1.8, rounds=21, flushes=True)
def hundred_of_10k(rounds: int) -> Iterator[Round]:
    return some_changed(10_000, 100, rounds)


def first_snapshot(make: Callable[[Path], None], rounds: int, *, memory: bool) -> Iterator[Round]:
    """Snapshot the very same files for the first time, with git and into a chat, again and again.

    Neither begins while the disk still writes what the other left to it, unflushed or removed.
    """
    with place(memory=memory) as folder:
        files = folder / "files"
        make(files)
        time.sleep(0.1)
        for number in range(rounds):
            git(files, "init", "--quiet")
            os.sync()
            gits = seconds(lambda: save_with_git(files))
            shutil.rmtree(files / ".git")
            with chats_in(folder).new(f"c{number}") as chat:
                chat.workspace.rmdir()
                files.rename(chat.workspace)
                os.sync()
                ours = seconds(lambda chat=chat: save(chat))
                chat.workspace.rename(files)
            shutil.rmtree(chat.folder)
            yield gits, ours


def first_of_10k(rounds: int) -> Iterator[Round]:
    return first_snapshot(lambda folder: make_files(folder, 10_000), rounds, memory=True)


def first_of_large(rounds: int) -> Iterator[Round]:
    return first_snapshot(make_large_files, rounds, memory=False)


row("first snapshot of 10k small files, tmpfs", 1.7, 2.2, rounds=7)(first_of_10k)
row("first snapshot of 20 files of 20 MiB", 0.9, 1.1, rounds=3)(first_of_large)


# Folders


@row("materialize 10k files into an empty folder, tmpfs", 0.5, 1.0, rounds=7)
def materialize(rounds: int) -> Iterator[Round]:
    with pair(10_000, memory=True) as (work, chat):
        git(work, "gc", "--quiet")
        for _ in range(rounds):
            for left in work.glob("pkg*"):
                shutil.rmtree(left)
            (work / ".git" / "index").unlink()
            shutil.rmtree(chat.workspace)
            gits = seconds(lambda: git(work, "read-tree", "--reset", "-u", "HEAD"))
            yield gits, seconds(lambda: bring_back(chat))


def bring_back(chat: ChatStore) -> None:
    """Hold the chat once, which restores a folder that is not there."""
    with writing(chat):
        pass


@row("switch branches that differ in 10 of 10k files", 0.5, 0.65, rounds=21, flushes=True)
def switch(rounds: int) -> Iterator[Round]:
    chance = random.Random(10)
    with pair(10_000) as (work, chat):
        git(work, "checkout", "--quiet", "-b", "idea")
        with writing(chat) as writer:
            branches.create(writer, "idea", chat.head())
            writer.checkout("idea")
        edit((work, chat.workspace), chance.sample(range(10_000), 10), chance)
        save_with_git(work)
        save(chat)
        main = git(work, "rev-list", "--all", "--topo-order").split()[-1].decode()
        git(work, "branch", "--force", "first", main)

        def go(name: str) -> None:
            with writing(chat) as writer:
                writer.checkout(name)

        for turn in range(rounds):
            time.sleep(0.05)
            name, ours = (("first", "main"), ("idea", "idea"))[turn % 2]
            gits = seconds(lambda name=name: git(work, "checkout", "--quiet", name))
            yield gits, seconds(lambda ours=ours: go(ours))


# Branches, history, chats


@row("create a branch", 2, 2.8, rounds=31, flushes=True)
def create_branch(rounds: int) -> Iterator[Round]:
    with pair(1_000) as (work, chat):
        head = chat.head()

        def create(name: str) -> None:
            with writing(chat) as writer:
                branches.create(writer, name, head)

        for turn in range(rounds):
            gits = seconds(lambda turn=turn: git(work, "branch", f"b{turn}"))
            yield gits, seconds(lambda turn=turn: create(f"b{turn}"))


@row("read one old file", 10, 32, rounds=51)
def read_old_file(rounds: int) -> Iterator[Round]:
    chance = random.Random(5)
    with pair(10_000) as (work, chat):
        old, git_old = chat.head(), git(work, "rev-parse", "HEAD").decode().strip()
        edit((work, chat.workspace), range(0, 10_000, 50), chance)
        save_with_git(work)
        save(chat)
        git(work, "gc", "--quiet")
        for _ in range(rounds):
            path = path_of(chance.randrange(10_000))
            gits = seconds(lambda path=path: git(work, "show", f"{git_old}:{path}"))
            yield gits, seconds(lambda path=path: chat.read_file(old, path))


def new_chat(durability: str, rounds: int) -> Iterator[Round]:
    """Make chats and bare repositories; ours would flush what git left unflushed, too."""
    with place() as folder:
        chats = chats_in(folder, durability=durability)
        chats.new("first").store.close()

        def new(name: str) -> None:
            chats.new(name).store.close()

        for turn in range(rounds):
            path = folder / f"{turn}.git"
            os.sync()
            gits = seconds(lambda path=path: git(folder, "init", "--quiet", "--bare", str(path)))
            os.sync()
            yield gits, seconds(lambda turn=turn: new(f"c{turn}"))


@row("new chat, durability fast", 3, 6, rounds=51)
def new_fast_chat(rounds: int) -> Iterator[Round]:
    return new_chat("fast", rounds)


@row("new chat, durability full", 0.5, 1, rounds=51)
def new_full_chat(rounds: int) -> Iterator[Round]:
    return new_chat("full", rounds)


@row("diff of two manifests", 0.5, 1.0, rounds=31)
def diff(rounds: int) -> Iterator[Round]:
    chance = random.Random(6)
    with pair(10_000) as (work, chat):
        old = chat.head()
        edit((work, chat.workspace), chance.sample(range(10_000), 100), chance)
        save_with_git(work)
        new = save(chat)
        git(work, "gc", "--quiet")
        for _ in range(rounds):
            gits = seconds(lambda: git(work, "diff", "--name-status", "HEAD~1", "HEAD"))
            yield gits, seconds(lambda: chat.changes(old, new))


@contextlib.contextmanager
def thousand() -> Iterator[tuple[Path, ChatStore]]:
    """Yield a git working tree and a chat of 1,000 snapshots, each of one file of 1,000."""
    chance = random.Random(1_000)
    with pair(1_000) as (work, chat):
        for _ in range(1_000):
            edit((work, chat.workspace), [chance.randrange(1_000)], chance)
            save_with_git(work)
            save(chat)
        yield work, chat


@row("log of 1,000", 0.2, 0.3, rounds=21)
def log(rounds: int) -> Iterator[Round]:
    with thousand() as (work, chat):
        git(work, "gc", "--quiet")
        for _ in range(rounds):
            gits = seconds(lambda: git(work, "log", "-1000"))
            with Chats(chat.folder.parent, chat.config).open("c1") as reader:
                yield gits, seconds(lambda reader=reader: list(reader.log(reader.head())))


@row("1,000 one-file snapshots: disk after packing", 1.3, 1.05, rounds=1, disk=True)
def disk(rounds: int) -> Iterator[Round]:
    for _ in range(rounds):
        with thousand() as (work, chat):
            git(work, "gc", "--quiet")
            yield size_of(work / ".git" / "objects"), size_of(chat.folder / "store.git" / "objects")


def size_of(folder: Path) -> float:
    """Return the bytes that a folder takes on the disk, as ``du`` counts them."""
    return sum(path.lstat().st_blocks * 512 for path in [folder, *folder.rglob("*")])


# Git over HTTP


class _GitBackend(BaseHTTPRequestHandler):
    """Stock git's own server of the repositories below ``root``."""

    protocol_version = "HTTP/1.1"
    root = ""

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name in {"do_GET", "do_POST"}:
            return self.answer
        raise AttributeError(name)

    def answer(self) -> None:
        path, _, query = self.path.partition("?")
        environment = {
            "GIT_PROJECT_ROOT": self.root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        done = subprocess.run(
            ["git", "http-backend"],
            env=ENVIRONMENT | environment,
            input=body,
            stdout=subprocess.PIPE,
            check=True,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        self.wfile.write(b"HTTP/1.1 200 OK\r\n" + head)
        self.wfile.write(b"\r\nContent-Length: %d\r\n\r\n" % len(content) + content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def served_by_git(root: Path) -> Iterator[str]:
    handler = type("Handler", (_GitBackend,), {"root": str(root)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextlib.contextmanager
def served_by_us(project: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "server")])
    command = [sys.executable, "-m", "covalt_git", "-C", str(project), "serve", "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": paths, "COVALT_GIT_TOKEN": TOKEN}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet) as server:
        while server.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/git"
        server.terminate()


@row("clone --bare over HTTP, 1,001 commits", 0.4, 0.6, rounds=11)
def clone(rounds: int) -> Iterator[Round]:
    with thousand() as (work, chat), place() as folder:
        git(work, "gc", "--quiet")
        (folder / "project").mkdir()
        (folder / "project" / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
        is_own(folder / "project")
        shutil.copytree(chat.folder.parent, folder / "project" / "data" / "chats")
        header = f"http.extraHeader=Authorization: Bearer {TOKEN}"
        with served_by_git(work.parent) as gits, served_by_us(folder / "project") as ours:
            for _ in range(rounds):
                took = []
                for url in (f"{gits}/{work.name}/.git", f"{ours}/c1"):
                    copy = folder / "copy.git"
                    arguments = ["-c", header, "clone", "--quiet", "--bare", url, str(copy)]
                    took.append(seconds(lambda arguments=arguments: git(folder, *arguments)))
                    shutil.rmtree(copy)
                yield took[0], took[1]


# The table


def measure(one: Row, rounds: int | None) -> dict[str, object]:
    found = list(one.measure(rounds or one.rounds))
    gits, ours = (statistics.median(column) for column in zip(*found, strict=True))
    ratio = ours / gits if one.smaller_is_better else gits / ours
    scale = 2**-10 if one.smaller_is_better else 1000
    return {
        "row": one.name,
        "git": round(gits * scale, 3),
        "ours": round(ours * scale, 3),
        "unit": "KiB" if one.smaller_is_better else "ms",
        "ratio": round(ratio, 2),
        "must": one.must,
        "aim": one.aim,
        "rounds": len(found),
        "reached": verdict(one, ratio),
    }


def verdict(one: Row, ratio: float) -> str:
    sign = -1 if one.smaller_is_better else 1
    if ratio * sign >= one.aim * sign:
        return "aim"
    return "must" if ratio * sign >= one.must * sign else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description="chat workspaces compared with git")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a part of a row's name")
    parser.add_argument("--rounds", type=int, help="rounds of every row")
    parser.add_argument("--large", action="store_true", help="also the rows of 100,000 files")
    parser.add_argument("--durability", choices=["full", "fast"], default="full")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")
    options = parser.parse_args()
    os.environ[DURABILITY] = options.durability
    wanted = [one for one in ROWS if options.large or options.rows or not one.large]
    if options.rows:
        wanted = [one for one in wanted if any(part in one.name for part in options.rows)]
    if not wanted:
        parser.error("no such row: " + "; ".join(one.name for one in ROWS))
    if not options.json:
        print(f"{'':55} {'git':>9} {'ours':>9} {'':3} {'ratio':>6} {'must':>5} {'aim':>5}  reached")
    for one in wanted:
        print_row(measure(one, options.rounds), in_json=options.json)
        if one.flushes and options.durability == "full":
            os.environ[GIT_FLUSHES] = "yes"
            found = measure(one, options.rounds)
            del os.environ[GIT_FLUSHES]
            name = (
                f"{one.name}, core.fsync=all"
                if options.json
                else "    compared with git with core.fsync=all"
            )
            print_row(found | {"row": name}, in_json=options.json)


def print_row(found: dict[str, object], *, in_json: bool) -> None:
    if in_json:
        print(json.dumps(found), flush=True)
        return
    print(
        f"{found['row']:55} {found['git']:9.2f} {found['ours']:9.2f} {found['unit']:3}"
        f" {found['ratio']:6.2f} {found['must']:5} {found['aim']:5}  {found['reached']}",
        flush=True,
    )


if __name__ == "__main__":
    main()
