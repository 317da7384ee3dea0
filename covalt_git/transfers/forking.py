"""Forking a chat: another one with the same history, which shares its objects and is independent.

Objects are hard links of files that never change, so that a fork takes no time and hardly any room,
and whatever becomes of one chat, even its deletion, is nothing to the other.  Calls that wait and
approvals stay where they were asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store import GitStore
from covalt_git.git_store.linking import link_objects
from covalt_git.models.chats import Origin
from covalt_git.workspaces import commits, foreign_commits, records
from covalt_git.workspaces.chat import HEADS, AboutChat, write_about

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats
    from covalt_git.workspaces.writer import Writer


def fork(
    writer: Writer,
    chats: Chats,
    *,
    at: str | None = None,
    chat_id: str | None = None,
    title: str | None = None,
) -> ChatStore:
    """Fork the chat of ``writer`` and open the fork, which has no folder until its first write.

    It has all branches, the edits in the folder saved first; or with ``at``, a manifest's id, only
    the history of that on a branch main.  It gets the next free id and the same title unless given.

    Raises:
        ChatExistsError: when there is a chat of that id.
        BadNameError: when the id is not one.
    """
    source = writer.chat
    if chat_id is not None:
        chats.check_free(chat_id)  # before anything is saved
    if at is None:
        head, active = writer.commit_changes(), source.store.head()
        refs = source.store.refs(HEADS)
    else:
        head, active = at, f"{HEADS}main"
        refs = {active: at}
    for ref in (records.REF, foreign_commits.REF):
        kept = source.store.read_ref(ref)
        if kept is not None:
            refs[ref] = kept
    about = AboutChat(
        id="",
        title=source.card().title if title is None else title,
        created_at=commits.now(),
        forked_from=Origin(chat_id=source.id, manifest_id=head),
    )
    try:
        with chats.creating() as made:
            chat_id = _make(source, chats, made, refs, active, about, chat_id)
    except OSError as error:
        raise CovaltError(f"the fork cannot be made: {error.strerror}: {error.filename}") from None
    return chats.open(chat_id)


def _make(
    source: ChatStore,
    chats: Chats,
    made: Path,
    refs: dict[str, str],
    active: str,
    about: AboutChat,
    wanted: str | None,
) -> str:
    durable = source.store.durable
    with GitStore.create(
        made / "store.git", object_format=source.store.object_format, durable=durable
    ) as store:
        link_objects(source.store, store, durable=durable)
        store.refresh()
        for ref, oid in refs.items():
            store.swap_ref(ref, None, oid)
        store.set_head(active)
        return chats.place(
            made,
            wanted,
            name=lambda final: write_about(store, about.model_copy(update={"id": final})),
        )
