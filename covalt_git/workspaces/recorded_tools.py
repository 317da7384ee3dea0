"""Ids of the tools whose calls a chat's store contains.

A store is fetched, exported and forked as one object, so everything counts that a copy may contain: branches, deleted
branches, commits that were made elsewhere, and ``refs/covalt/records``.  Pending calls and approvals are not copied.
The index does not count, because it is a cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.workspaces import records
from covalt_git.workspaces.collecting import commit_messages
from covalt_git.workspaces.commits import recorded_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.workspaces.chat import ChatStore


def recorded_tools(chat: ChatStore) -> set[str]:
    """Return the ids of the tools whose calls the store contains; the id is empty if a tool is not known.

    It is not known for a record that cannot be read, and for large fields that no commit needs any more, such as those
    of a branch that a push replaced.  Garbage collection deletes these fields.

    Raises:
        CovaltError: ``altered_record``, if the bytes of a large field do not match its name.
    """
    # First the large fields, then the messages, so that a call that ends in between has no field without a commit.
    stored = records.entries(chat.store, chat.store.read_ref(records.REF))
    tools: set[str] = set()

    def messages() -> Iterator[str]:
        for message in commit_messages(chat):
            tool_id = recorded_tool(message)
            if tool_id is not None:
                tools.add(tool_id)
            yield message

    if len(records.used(chat.store, stored, messages())) < len(stored):
        tools.add("")
    return tools
