"""Export of a chat to one file: a git bundle with its branches, its records and its description.

Stock git reads it: ``git bundle verify``, ``git clone FILE``.  Pending calls, approvals, deleted
branches and uncommitted changes of the workspace are not exported.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.git_store.bundles import write_bundle
from covalt_git.workspaces import records
from covalt_git.workspaces.chat import ABOUT, HEADS, existing

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.workspaces.chat import ChatStore


class Exported(NamedTuple):
    """The content of an export; ``size`` is in bytes."""

    branches: tuple[str, ...]
    objects: int
    size: int


def export(
    chat: ChatStore,
    file: IO[bytes],
    *,
    branch: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write all of a chat, or one branch, to an open file.

    Raises:
        UnknownNameError: if the branch does not exist; the hint has the most similar one.
        CovaltError: when the chat has no commit.
    """
    exported = chat.branches() if branch is None else [chat.branch(branch)]
    heads = {item.name: item.manifest_id for item in exported if item.manifest_id is not None}
    if not heads:
        raise CovaltError(
            f"chat {chat.id!r} has no commit to export",
            hint=f"make the first: covalt-git chat upload {chat.id} FILE",
            http_status=404,
        )
    refs = {HEADS + name: oid for name, oid in heads.items()}
    active = heads.get(chat.active_branch() if branch is None else branch)
    if active is not None:
        refs["HEAD"] = active
    refs |= existing(chat.store, ABOUT)
    start = file.tell()
    # The chat's own records also have the large fields of other branches and of deleted ones, which the reader
    # of the file must not get.
    with chat.store.scratch():
        needed = records.needed(chat.store, chat.store.read_ref(records.REF), heads.values())
        newest = max(chat.store.read_commit(oid).time for oid in heads.values())
        tip = records.write(chat.store, needed, newest)
        if tip is not None:
            refs[records.REF] = tip
        objects = write_bundle(chat.store, refs, file, progress)
    return Exported(tuple(heads), objects, file.tell() - start)
