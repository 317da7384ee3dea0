"""Chats to prove things on, and what they must be like whatever happened to them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import layout_of, open_chats, run_git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats
    from tests.stress.figures import Proof


@contextmanager
def scratch(*, in_memory: bool = True) -> Iterator[Path]:
    """Yield a folder that is gone afterwards, in memory where there is such a place."""
    memory = Path("/dev/shm")
    place = memory if in_memory and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def chats_in(folder: Path, config: WorkspaceConfig) -> Chats:
    """Return the chats whose data is in a folder."""
    return open_chats(folder, config)


def reachable(chat: ChatStore) -> set[str]:
    """Return the commits that some ref reaches, as stock git finds them."""
    done = run_git(chat.folder / "store.git", "rev-list", "--all")
    return set(done.stdout.decode().split())


def check_sound(proof: Proof, chat: ChatStore, after: str) -> None:
    """Check that the next command works, fsck is clean, and the folder is what its branch says."""
    with writing(chat, timeout_s=20) as writer:
        writer.commit_changes()
    store = chat.folder / "store.git"
    done = run_git(store, "fsck", "--strict", "--full", "--no-dangling")
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    proof.check(done.returncode == 0 and not said, f"{after}, git fsck says: {said}")
    left = [*store.rglob("*.lock"), *store.rglob("tmp_*"), *chat.folder.glob("switch.json")]
    proof.check(not left, f"{after}, these are left: {left}")
    head = chat.head()
    listed = [] if head is None else _listed(store, head)
    files = {path: kind for path, (kind, _) in layout_of(chat.workspace).items()}
    found = sorted(path for path, kind in files.items() if kind != "folder")
    other = sorted(set(found) ^ set(listed))
    proof.check(not other, f"{after}, the folder is not what its branch says: {other}")


def _listed(store: Path, revision: str) -> list[str]:
    command = ["git", "-C", str(store), "ls-tree", "-r", "-z", "--name-only", revision]
    listed = subprocess.run(command, check=True, capture_output=True).stdout
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]
