"""Chats as version 0.1 left them on the disk, in ``fixtures/chats-0.1``.

``expected.json`` has what has to be found in each: the branches, the active one, deleted branches, pending
calls and approvals, and the files of the folder.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import ChatStore
from tests.workspaces.stores import layout_of

FOLDER = Path(__file__).parents[2] / "fixtures/chats-0.1"
EXPECTED: dict[str, dict[str, Any]] = json.loads(
    (FOLDER / "expected.json").read_text(encoding="utf-8")
)


def seen(chat: ChatStore) -> dict[str, Any]:
    """Return what has to be in a chat."""
    return {
        "active": chat.active_branch(),
        "branches": {one.name: one.manifest_id for one in chat.branches()},
        "commits": len(
            {one.id for branch in chat.branches() for one in chat.log(branch.manifest_id)}
        ),
        "deleted": [one.name for one in branches.deleted(chat)],
        "calls": [one.id for one in chat.calls()],
        "approvals": [one.execution_id for one in chat.approvals()],
        "files": {
            path: text.decode() for path, (_, text) in sorted(layout_of(chat.workspace).items())
        },
    }


def unpack(name: str, folder: Path) -> None:
    """Unpack a chat below ``folder``."""
    with tarfile.open(FOLDER / f"{name}.tar.gz") as archive:
        # Python before 3.11.4 has no argument for it.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
