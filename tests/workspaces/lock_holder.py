"""A process that takes the lock of a chat, says so and keeps it: ``python lock_holder.py FOLDER TIMEOUT_S``."""

import sys
from pathlib import Path

from covalt_git.workspaces.lock import held

if __name__ == "__main__":
    with held(Path(sys.argv[1]), "c1", timeout_s=float(sys.argv[2]), waiting=None):
        sys.stdout.write("held\n")
        sys.stdout.flush()
        sys.stdin.read()
