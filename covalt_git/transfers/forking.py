"""Forks of a chat: independent chats with the same history, which share its objects.

The packs of a fork are hard links, since packs never change.  So a fork takes little time and space, and
no change of one chat, not even its deletion, affects the other.  Pending calls and approvals are not
copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.models.chats import Origin
from covalt_git.workspaces import commits, records
from covalt_git.workspaces.chat import HEADS, AboutChat, existing
from covalt_git.workspaces.commit_key import FORK_OF, STATEMENTS, add_statement

if TYPE_CHECKING:
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
    """Fork the chat of ``writer`` and open the fork, which has no workspace until its first write.

    Uncommitted changes are committed first, and the fork has all branches.  If ``at`` is the id of a commit, the
    fork only has the history of that commit, on the branch main.  By default, the fork has the next available id
    and the same title.

    Raises:
        ChatExistsError: when the id exists.
        BadNameError: when the id is not valid.
    """
    source = writer.chat
    key = source.signing_key
    if chat_id is not None:
        chats.check_free(chat_id)  # before uncommitted changes are committed
    if at is None:
        head, active = writer.commit_changes(), source.store.head()
        refs = source.store.refs(HEADS)
    else:
        head, active = at, f"{HEADS}main"
        refs = {active: at}
    tips = {*refs.values()}
    # With the list of foreign commits: the fork must not believe a record that its origin does not believe
    # (test_a_fork_does_not_believe_what_its_origin_did_not).
    refs |= existing(source.store, records.REF, commits.FOREIGN, STATEMENTS)
    about = AboutChat(
        id="",
        title=source.card().title if title is None else title,
        created_at=commits.now(),
        forked_from=Origin(chat_id=source.id, manifest_id=head),
    )
    with chats.creating(source.store.object_format) as store:
        store.link_objects(source.store)
        for ref, oid in refs.items():
            store.swap_ref(ref, None, oid)
        store.set_head(active)
        chat_id = chats.place(
            store,
            about,
            wanted=chat_id,
            finish=lambda own_id: add_statement(store, key, own_id, FORK_OF + source.id, tips),
        )
    return chats.open(chat_id)
