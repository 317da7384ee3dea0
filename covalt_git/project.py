"""An opened project, through which other modules get its parts; it contains no logic.

The modules that make calls are imported on first use, because most commands only read and must start fast.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from covalt_git.access import NamedTool, Principal, Visibility, may_decide_over_mcp
from covalt_git.catalog.current_config import current_config
from covalt_git.manifests.data_folder import check_data
from covalt_git.manifests.followed_project import NoProjectCommitError, current_root
from covalt_git.manifests.machine_folders import check_links
from covalt_git.manifests.project_config import read_config
from covalt_git.manifests.project_root import CONFIG, find_root
from covalt_git.names import LOCAL_USER
from covalt_git.system.file_cache import FileCache
from covalt_git.system.fork_pool import ignore_progress
from covalt_git.system.node_folder import data_of, node_of
from covalt_git.trust import Consents

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from covalt_git.access.security import Protocol
    from covalt_git.calls.approvals import Approvals
    from covalt_git.calls.engine import Engine
    from covalt_git.calls.running import Follower
    from covalt_git.catalog.catalog import Catalog
    from covalt_git.index.chat_queries import ChatQueries
    from covalt_git.index.tool_queries import ToolQueries
    from covalt_git.models.access_token import AccessToken
    from covalt_git.models.calls import Approval
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.workspaces.chat import ChatMemory, ChatStore
    from covalt_git.workspaces.registry import Chats, OneChat
    from covalt_git.workspaces.writer import Writer

_MEMORIES = FileCache()


@dataclass(frozen=True, slots=True)
class Project:
    """The parts of one project for one principal."""

    root: Path
    config: ProjectConfig
    principal: Principal
    only_chat: OneChat | None = None
    """Limits the principal to one chat; otherwise users have all chats, and an agent its own."""
    on_progress: Callable[[int, int], None] = ignore_progress
    """Called while the index reads toolsets, with the number of read toolsets and of all toolsets."""
    chat_memories: dict[str, ChatMemory] = field(default_factory=dict, compare=False, repr=False)
    """In-memory caches of chats, by their ids."""

    @classmethod
    def open(cls, start: Path, *, role: str | None = None) -> Self:
        """Open the project that contains ``start``, as the local user.

        Approvals that its ``covalt.yaml`` waives are waived if the user of this machine has trusted that.

        Raises:
            NotAProjectError: if there is no project.
            BrokenConfigError: if its ``covalt.yaml`` has errors.
            NoProjectCommitError: if it is a node that has not fetched its project.
            LinkedFolderError: if a folder that commands write is a link.
            TrackedDataError: if git tracks its ``data/``, which may then be another user's.
            NotTrustedError: if commands of this user did not make ``data/``.
        """
        root = current_root(find_root(start))
        node = node_of(root)
        # Before any file is read: a linked folder of a clone leads outside of the project.
        check_links(root)
        if node != root:
            check_links(node)
        check_data(node)
        # The chats and tokens in it would otherwise be those that a clone brought
        # (test_trust_that_others_change.py).
        Consents.of(root).check_data()
        config = current_config(root)
        if config.project is not None:
            raise NoProjectCommitError(root, config.project)
        return cls(root, config, Principal(LOCAL_USER, role))

    @classmethod
    def cached(cls, root: Path, role: str | None) -> Self:
        """Return the same as :meth:`open`, with the chats that an earlier project of this process has in memory.

        Trust, links and a tracked ``data/`` are checked each time: a pull may change them without changing any file
        that could be compared.

        Raises:
            BrokenConfigError: also if ``covalt.yaml`` is missing.
        """
        file = root / CONFIG
        # Without it, open() would find a project in a folder above, which this process does not serve.
        if not file.is_file() and not file.is_symlink():
            read_config(root)
        opened = cls.open(root, role=role)
        memories: dict[str, ChatMemory] = _MEMORIES.get(
            (opened.root, role), [opened.root / CONFIG], dict
        )
        return replace(opened, chat_memories=memories)

    def as_of_now(self) -> Self:
        """Return the project for the same principal with the current configuration; use it for decisions after a wait.

        Raises:
            BrokenConfigError: if ``covalt.yaml`` has errors now.
        """
        return replace(self, config=current_config(self.root))

    def over(self, protocol: Protocol) -> Self:
        """Return the project for the same principal, with calls over a protocol."""
        return replace(self, principal=self.principal._replace(protocol=protocol))

    def held_by(self, token: AccessToken) -> Self:
        """Return the project for the holder of an access token, who has own chats and the role of the token."""
        principal = self.principal._replace(id=token.principal_id, role=token.role, token=token)
        return replace(self, principal=principal)

    def with_token(self, file: Path) -> Self:
        """Return the project for the same principal, with the access token in a file, after it was verified.

        Raises:
            CovaltError: ``token_file``, if the file cannot be read.
            InvalidTokenError: as :meth:`.Verifier.verify`, which raises other errors too.
        """
        from covalt_git.issuers import Verifier, token_in_file  # noqa: PLC0415 - few commands have a token

        token = Verifier(self.root).verify(self.config, token_in_file(file))
        return replace(self, principal=self.principal._replace(token=token))

    @property
    def chats(self) -> Chats:
        """The chats of the principal."""
        from covalt_git.workspaces.registry import Chats  # noqa: PLC0415 - tools are listed without chats

        # An agent has its own chats only; for all code behind this, others do not exist.
        maker = None if self.principal.id == LOCAL_USER else self.principal.id
        folder = data_of(self.root) / "chats"
        return Chats(folder, self.config.workspace, maker, self.only_chat, self.chat_memories)

    @property
    def visibility(self) -> Visibility:
        """What the principal may see, call and approve, decided without reading any toolset."""
        return Visibility(self.config, self.principal)

    @property
    def catalog(self) -> Catalog:
        """The tools that the principal may see and call."""
        from covalt_git.catalog.catalog import Catalog  # noqa: PLC0415 - chats are listed without tools

        return Catalog(self.config, self.principal, self.root)

    def chat_index(self) -> ChatQueries:
        """Open the chat tables of the index; close it after use."""
        from covalt_git.index.chat_queries import ChatQueries  # noqa: PLC0415 - it loads the chat store

        return ChatQueries.open(self.root, self.config.workspace, self.on_progress)

    def tool_index(self) -> ToolQueries:
        """Open the toolset tables of the index; close it after use."""
        from covalt_git.index.tool_queries import ToolQueries  # noqa: PLC0415 - see `catalog`

        return ToolQueries.open(self.root, self.config.workspace, self.on_progress)

    def writing(
        self,
        chat: ChatStore,
        waiting: Callable[[str], None] | None = None,
        *,
        repeats: bool = False,
    ) -> AbstractContextManager[Writer]:
        """Hold a chat's lock; ``waiting`` is called with each lock holder that it waits for.

        ``repeats`` is as of :func:`.writing`.
        """
        from covalt_git.workspaces.writing import PATIENCE_S, writing  # noqa: PLC0415 - as above

        return writing(
            chat,
            by=self.principal.id,
            timeout_s=PATIENCE_S,
            waiting=waiting,
            repeats=repeats,
        )

    def engine(
        self, waiting: Callable[[str], None] | None = None, follower: Follower | None = None
    ) -> Engine:
        """Return the engine that makes calls.

        ``waiting`` is called with each lock holder of a busy chat; ``follower`` receives the events of a
        call, and may cancel it.
        """
        from covalt_git.calls.engine import Engine  # noqa: PLC0415 - see above
        from covalt_git.calls.running import Follower  # noqa: PLC0415

        return Engine(self.root, self.config, self.principal, waiting, follower or Follower())

    def approvals(
        self, waiting: Callable[[str], None] | None = None, follower: Follower | None = None
    ) -> Approvals:
        """Return the approvals of the project; arguments as of :meth:`engine`."""
        from covalt_git.calls.approvals import Approvals  # noqa: PLC0415 - see above

        approvals = Approvals(self.engine(waiting, follower), self.chats)
        principal = self.principal
        if principal.token is None and principal.protocol != "mcp":
            return approvals

        # The holder of a token may be an agent, as any client of MCP: it must not approve what it has requested itself.
        def may_also(config: ProjectConfig, approval: Approval) -> bool:
            tool, by = NamedTool(approval.tool_id), approval.by
            return may_decide_over_mcp(config, principal, tool, requested_by=by)

        return approvals._replace(may_also=may_also)
