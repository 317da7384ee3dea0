"""A project, opened: its parts wired together, and no logic of its own.

What makes calls is loaded when it is asked for: most commands only look, and are to answer at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from covalt_git.access import Principal
from covalt_git.catalog.catalog import Catalog
from covalt_git.index.tool_queries import ToolQueries
from covalt_git.manifests.project_config import read_config
from covalt_git.manifests.project_root import CONFIG, find_root
from covalt_git.names import PERSON
from covalt_git.system.file_cache import FileCache
from covalt_git.system.fork_pool import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from covalt_git.calls.approvals import Approvals
    from covalt_git.calls.engine import Engine
    from covalt_git.calls.running import Follower
    from covalt_git.index.index import Index
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.workspaces.chat import ChatMemory, ChatStore
    from covalt_git.workspaces.registry import Chats, OneChat
    from covalt_git.workspaces.writer import Writer

_OPENED = FileCache()


@dataclass(frozen=True, slots=True)
class Project:
    """The parts of one project for one principal."""

    root: Path
    config: ProjectConfig
    principal: Principal
    only_chat: OneChat | None = None
    """The one chat that there is for the principal; else a person has all, and an agent its own."""
    told: Callable[[int, int], None] = ignore_progress
    """Hears how far the index is when it reads toolsets: how many it has, and how many there are."""
    chat_memories: dict[str, ChatMemory] = field(default_factory=dict, compare=False, repr=False)
    """What the process remembers of chats, by their ids."""

    @classmethod
    def open(cls, start: Path, *, role: str | None = None) -> Self:
        """Open the project that ``start`` is in, as the person at this machine.

        Raises:
            NotAProjectError: when there is none.
            BrokenConfigError: when its ``covalt.yaml`` cannot be used.
        """
        root = find_root(start)
        return cls(root, read_config(root), Principal(PERSON, role))

    @classmethod
    def cached(cls, root: Path, role: str | None) -> Project:
        """Return what :meth:`open` returns, without reading an unchanged ``covalt.yaml`` again."""
        return _OPENED.get((root, role), [root / CONFIG], lambda: cls.open(root, role=role))

    @property
    def chats(self) -> Chats:
        """The chats of the principal."""
        from covalt_git.workspaces.registry import Chats  # noqa: PLC0415 - tools are listed without chats

        maker = None if self.principal.id == PERSON else self.principal.id
        folder = self.root / "data" / "chats"
        return Chats(folder, self.config.workspace, maker, self.only_chat, self.chat_memories)

    @property
    def catalog(self) -> Catalog:
        """What the principal may see and call."""
        return Catalog(self.root, self.config, self.principal)

    def index(self) -> Index:
        """Open the index; close it after use."""
        from covalt_git.index.index import Index  # noqa: PLC0415 - it loads the store of chats

        return Index.of_project(self.root, self.config.workspace, self.told)

    def tool_index(self) -> ToolQueries:
        """Open the index for what it has of toolsets; close it after use."""
        return ToolQueries.of_project(self.root, self.config.workspace, self.told)

    def writing(
        self, chat: ChatStore, waiting: Callable[[str], None] | None = None
    ) -> AbstractContextManager[Writer]:
        """Hold a chat's lock; ``waiting`` is called with each holder that it waits for."""
        from covalt_git.workspaces.writing import PATIENCE_S, writing  # noqa: PLC0415 - as above

        return writing(chat, by=self.principal.id, timeout_s=PATIENCE_S, waiting=waiting)

    def engine(
        self, waiting: Callable[[str], None] | None = None, follower: Follower | None = None
    ) -> Engine:
        """Return the engine that makes calls.

        ``waiting`` is called with each holder of a busy chat; ``follower`` is told what a call does, and may cancel it.
        """
        from covalt_git.calls.engine import Engine  # noqa: PLC0415 - see above
        from covalt_git.calls.running import Follower  # noqa: PLC0415

        return Engine(self.root, self.config, self.principal, waiting, follower or Follower())

    def approvals(
        self, waiting: Callable[[str], None] | None = None, follower: Follower | None = None
    ) -> Approvals:
        """Return what settles approvals; both as of :meth:`engine`."""
        from covalt_git.calls.approvals import Approvals  # noqa: PLC0415 - see above

        return Approvals(self.engine(waiting, follower), self.chats)
