"""Renaming a branch: one note decides it, and whoever comes next carries it out if need be.

A name is two refs and maybe HEAD, which nobody can change at once.  So the rename is written down
first (``refs/covalt/rename``); every step after that may be made again, and the last forgets the note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.models.base import StrictModel
from covalt_git.workspaces.chats import HEADS, MovedError, read_stored, write_stored

if TYPE_CHECKING:
    from covalt_git.git_store import GitStore

REF = "refs/covalt/rename"


class Rename(StrictModel):
    """A rename that was decided: the manifest that the branch is at, None before its first."""

    v: int = 1
    old: str
    new: str
    at: str | None = None


def rename(store: GitStore, decided: Rename) -> None:
    """Rename a branch to a name that is free; killed anywhere, it has not begun or will be finished.

    Raises:
        MovedError: when a push came first; the branch has its old name.
    """
    note = write_stored(store, decided, f"rename: {decided.old} {decided.new}")
    if not store.swap_ref(REF, None, note):
        raise MovedError("somebody else renames a branch", hint="try again")
    finish(store)
    if store.read_ref(HEADS + decided.old) is not None:
        raise MovedError(f"the branch {decided.old!r} has moved", hint="try again")


def finish(store: GitStore) -> None:
    """Carry out the rename that was decided, if there is one.

    Where a push has moved the branch or taken the name meanwhile, nothing is renamed.
    """
    note = store.read_ref(REF)
    if note is None:
        return
    decided = read_stored(store, note, Rename)
    old, new = HEADS + decided.old, HEADS + decided.new
    if decided.at is None or _has_both(store, old, new, decided.at):
        if store.head() == old:
            store.set_head(new)
        if decided.at is not None:
            store.swap_ref(old, decided.at, None)
    if store.swap_ref(REF, note, None):
        store.discard(note)


def _has_both(store: GitStore, old: str, new: str, at: str) -> bool:
    """Give the branch its new name beside the old one; tell whether it has it."""
    if store.read_ref(old) not in {at, None}:
        store.swap_ref(new, at, None)
        return False
    return store.read_ref(new) == at or store.swap_ref(new, None, at)
