"""What stock git finds in a store, without a line of covalt-git: ``python -I stock_git.py STORE ACKNOWLEDGED``.

``ACKNOWLEDGED`` is a file outside the disk with a commit id a line.  The program needs nothing but the
standard library and git, which runs without a home and without configuration.  It prints what is wrong, a
line each, and ends with 1: complaints of ``git fsck --strict``, refs whose log git cannot read, and the
commits that no ref reaches.
"""

import os
import subprocess
import sys
from pathlib import Path


def main(store: str, acknowledged: str) -> int:
    """Print what is wrong with a store."""
    wrong = []
    fsck = _git(store, "fsck", "--strict", "--full", "--no-dangling", "--no-progress")
    if fsck.returncode or fsck.stdout or fsck.stderr:
        wrong.append(
            f"git fsck ended with {fsck.returncode}: {(fsck.stdout + fsck.stderr)[:300]!r}"
        )
    refs = _git(store, "for-each-ref", "--format=%(refname)", "refs/heads")
    found: set[str] = set()
    for ref in refs.stdout.split():
        log = _git(store, "log", "--format=%H", ref)
        found |= set(log.stdout.split())
        if log.returncode:
            wrong.append(f"git log {ref} ended with {log.returncode}: {log.stderr[:300]!r}")
    lost = set(Path(acknowledged).read_text(encoding="ascii").split()) - found
    if lost:
        wrong.append(f"{len(lost)} acknowledged commits are in no branch: {sorted(lost)[:3]}")
    print("\n".join(wrong))
    return int(bool(wrong))


def _git(store: str, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": "", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-C", store, "-c", "safe.directory=*", *args],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
