"""A history made by stock git, and the packs that git makes of it."""

import random
from pathlib import Path

from tests.workspaces.stores import git, run_git

MAIN = "refs/heads/main"
FORMATS = ("sha1", "sha256")

HOW_PACKED = {
    "offset-deltas": ("--delta-base-offset",),
    "id-deltas": (),
    "long-chains": ("--delta-base-offset", "--depth=200", "--window=250"),
    "without": ("--window=0",),
    "stored": ("--compression=0",),
}


def init(path: Path, object_format: str) -> None:
    options = ("--quiet", "--bare", "-b", "main", f"--object-format={object_format}")
    git(path.parent, "init", *options, str(path))


def make_history(path: Path, object_format: str = "sha1") -> Path:
    """Make a repository: one file of many lines that changes 80 times, and some others."""
    init(path, object_format)
    chance = random.Random(5)
    lines = [b"%d\n" % chance.randrange(1 << 60) for _ in range(300)]
    parts = []
    for number in range(80):
        lines[chance.randrange(300)] = b"changed %d\n" % number
        content = b"".join(lines)
        parts.append(
            b"commit %s\ncommitter A <a@example.com> %d +0000\ndata 2\nc\n"
            b"M 100644 inline a/b/lines\ndata %d\n%s\nM 100755 inline run%d\ndata 0\n\n"
            % (MAIN.encode(), 1_700_000_000 + number, len(content), content, number % 7)
        )
    git(path, "fast-import", "--quiet", given=b"".join(parts))
    return path


def packed(history: Path, revisions: str, *options: str) -> bytes:
    arguments = ("pack-objects", "--stdout", "--revs", "-q", *options)
    done = run_git(history, *arguments, given=revisions.encode())
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(path: Path) -> dict[str, tuple[bytes, bytes]]:
    """Return the kind and the content of every object, as stock git reads them."""
    done = run_git(path, "cat-file", "--batch-all-objects", "--batch")
    assert done.returncode == 0, done.stderr
    found = {}
    output = done.stdout
    while output:
        head, _, output = output.partition(b"\n")
        oid, kind, size = head.split()
        found[oid.decode()] = (kind, output[: int(size)])
        output = output[int(size) + 1 :]
    return found


def objects_of(path: Path) -> set[str]:
    return set(contents(path))
