"""Index of a project: a SQLite cache of its toolsets and chats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.index import chat_rows, database, file_rows
from covalt_git.index.chat_queries import ChatQueries
from covalt_git.index.tool_queries import ToolQueries

if TYPE_CHECKING:
    from covalt_git.index.chat_rows import Damaged


@dataclass(slots=True)
class Index(ToolQueries, ChatQueries):
    """Open index of one project; close it after use, and use it in one thread at a time."""

    def synchronize(self) -> None:
        self._synchronize()

    def rebuild(self) -> None:
        """Rebuild all rows in one transaction; readers see the old rows until it is committed."""
        self.with_recovery(self._rebuild)

    def sync(self) -> list[Damaged]:
        """Update all rows but those of files, which searches read; return the chats with a damaged store, and the errors."""
        return self.with_recovery(self._synchronize)

    def _rebuild(self) -> None:
        with database.transaction(self.connection):
            database.empty(self.connection)
            self._synchronize()
            file_rows.sync_files(self.connection, self.chats, on_progress=self.on_progress)

    def _synchronize(self) -> list[Damaged]:
        ToolQueries.synchronize(self)
        return chat_rows.sync_chats(self.connection, self.chats, self.on_progress)
