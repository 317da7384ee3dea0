"""Context of operations: a project for one principal, its index, and its open chats."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

from covalt_git.access import (
    acting,
    admin_roles,
    allowed_roles,
    approval_reasons_of_any,
    decide,
    is_admin,
    is_denied_by_role,
    lacks_trust,
    may_be_denied,
    may_manage_chats,
)
from covalt_git.errors import CovaltError
from covalt_git.manifests.project_config import BrokenConfigError
from covalt_git.system.fork_pool import ignore_progress
from covalt_git.system.node_folder import in_use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from covalt_git.access import Principal, Visibility
    from covalt_git.calls.approvals import Approvals
    from covalt_git.calls.engine import Engine
    from covalt_git.calls.running import Follower
    from covalt_git.catalog.catalog import Catalog
    from covalt_git.index.chat_queries import ChatQueries
    from covalt_git.index.tool_queries import ToolQueries
    from covalt_git.json_values import JsonObject
    from covalt_git.models.commit_record import WorkspaceNotes
    from covalt_git.models.reported_refs import ReportedRefs
    from covalt_git.project import Project
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer

_LOG = logging.getLogger(__name__)


class ForbiddenError(CovaltError):
    """The caller's role may see an object, but not perform the operation."""

    code = "forbidden"
    http_status = 403


def _is_user(_reason: str | None, _decision: str) -> None:
    """Check nothing."""


def _no_page(_execution_id: str) -> str | None:
    return None


class Context:
    """A project with the index and the chats that operations opened; each is opened on first use.

    Use it in one thread and close it, or use it as a context manager.

    Args:
        root: The project's folder.
        open_project: Returns the project for the principal that makes the request; called once, when an
            operation needs more than the folder.
        progress: Called during long work with the number of finished parts, and of all parts.
        waiting: Called with the holder of a busy chat's lock, each time it changes.
        follower: Receives the events of calls, answers elicitation requests and may cancel a call.
        report_notes: Called after each write, also a failed one, with the new notes on the workspace: paths that
            are not stored or not portable, and that no earlier commit recorded.
        report: Called with a text for each step of a long operation, such as "downloading the bundle".
        check_user: Called before a request that only a user may decide, with the reason that a script states, if any,
            and what is decided; raises an error if there is neither.  By default the caller is the user, as at a page.
        page: Returns the URL of the page of an approval, if a server runs.
        read_line: Reads a line that the user enters during a long operation; raises EOFError at the end of the input.
        principal: The principal as far as it is known without ``covalt.yaml``.  It may repair a file with errors; by
            default, such a file cannot be repaired.
    """

    def __init__(
        self,
        root: Path,
        open_project: Callable[[], Project],
        *,
        progress: Callable[[int, int], None] = ignore_progress,
        waiting: Callable[[str], None] | None = None,
        follower: Follower | None = None,
        report_notes: Callable[[WorkspaceNotes], None] | None = None,
        report: Callable[[str], None] = _LOG.info,
        check_user: Callable[[str | None, str], None] = _is_user,
        page: Callable[[str], str | None] = _no_page,
        read_line: Callable[[], str] | None = None,
        principal: Principal | None = None,
    ) -> None:
        self.root = root
        self.progress = progress
        self.report = report
        self.check_user = check_user
        self.page = page
        self.read_line = read_line
        self._open_project = open_project
        self.waiting = waiting
        self._follower = follower
        self._report_notes = report_notes
        self._chats: dict[str, ChatStore] = {}
        self._chat_index: ChatQueries | None = None
        self._toolset_index: ToolQueries | None = None
        self._required: list[Callable[[], None]] = []
        self._repeats = False
        self._principal = principal
        self._repairs = False
        self._in_use = ExitStack()

    @classmethod
    def of(
        cls,
        project: Project,
        *,
        waiting: Callable[[str], None] | None = None,
        follower: Follower | None = None,
        page: Callable[[str], str | None] = _no_page,
    ) -> Self:
        """Return the context of a project that is open."""
        return cls(project.root, lambda: project, waiting=waiting, follower=follower, page=page)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the chats and the index."""
        while self._chats:
            self._chats.popitem()[1].close()
        for index in (self._chat_index, self._toolset_index):
            if index is not None:
                index.connection.close()
        self._chat_index = self._toolset_index = None
        self._in_use.close()

    @cached_property
    def project(self) -> Project:
        """The project.

        Raises:
            BrokenConfigError: if ``covalt.yaml`` has errors.
        """
        project = self._open_project()
        # A node must not remove the checkout of an earlier commit while an operation uses it.
        self._in_use.enter_context(in_use(project.root))
        return project

    @property
    def visibility(self) -> Visibility:
        """What the principal may see, call and approve."""
        return self.project.visibility

    @property
    def catalog(self) -> Catalog:
        """The toolsets and tools that the principal may see and call."""
        return self.project.catalog

    @property
    def is_admin(self) -> bool:
        """Whether nothing is hidden from the principal.

        Raises:
            UnknownRoleError: if its role is not defined.
            BrokenConfigError: if ``covalt.yaml`` has errors, unless the block is :meth:`repairing`.
            RightsUnknownError: in such a block, if the principal may not repair it.
        """
        try:
            return is_admin(self.project.config, self.project.principal)
        except BrokenConfigError as error:
            if not self._repairs:
                raise
            problems = error.problems
        from covalt_git.catalog.config_repair import check_repair  # noqa: PLC0415 - few operations need it

        check_repair(self.root, self._principal, problems)
        return True

    @property
    def may_repair(self) -> bool:
        """Whether the principal may repair ``covalt.yaml`` while the file has errors."""
        try:
            with self.repairing():
                return self.is_admin
        except CovaltError:
            return False

    @contextmanager
    def repairing(self) -> Iterator[None]:
        """Let the admin who may repair ``covalt.yaml`` be one during the block, also while the file has errors."""
        self._repairs = True
        try:
            yield
        finally:
            self._repairs = False

    def require(self, check: Callable[[], None]) -> None:
        """Perform a check now, and again when a chat's lock was acquired: until then, ``covalt.yaml`` may change."""
        # By this method, so that the check is repeated after each further wait too.
        self._required.append(partial(self.require, check))
        check()

    def require_admin(self, action: str) -> None:
        """Check that the principal may perform an ``action`` of admins, such as "grant anything".

        Raises:
            ForbiddenError: if tools may be hidden from its role.
        """
        self._required.append(partial(self.require_admin, action))
        if not self.is_admin:
            raise self.refusal(f"may not {action}")

    def require_tool(self, tool_id: str, args: JsonObject | None) -> None:
        """Check that the principal may call a built-in tool, for an operation that does the same.

        An operation cannot wait for approval.  So if such a call requires it, the principal must be one that may give
        it: otherwise an edit by the API would be a way around each approval rule.

        Args:
            tool_id: The tool.
            args: The arguments of the call that does the same; None if they are not known, so that any call counts.

        Raises:
            ForbiddenError: if its role may not call the tool, or not without the approval of others.
        """
        from covalt_git.audit.refusals import Decisions  # noqa: PLC0415 - most operations read only

        self._required.append(partial(self.require_tool, tool_id, args))
        with Decisions(self.root, self.visibility).recording(tool_id, args):
            self._check_tool(tool_id, args)

    def may_do(self, tool_id: str) -> bool:
        """Return whether the principal may perform operations that need a built-in tool, with any arguments."""
        try:
            self._check_tool(tool_id, None)
        except ForbiddenError:
            return False
        return True

    def _check_tool(self, tool_id: str, args: JsonObject | None) -> None:
        from covalt_git.toolsets.builtin_tools import BUILTINS  # noqa: PLC0415 - as above

        config, principal = self.project.config, self.project.principal
        tool, who = BUILTINS[tool_id], acting(config, principal)
        if not decide(config, principal, "call", tool).allowed:
            role = principal.role or config.default_role
            where = f"roles.{role}.allow" if role else "allow of a role"
            raise ForbiddenError(
                f"{who} may not do this: it may not call {tool_id}",
                hint=f"add {tool.path} to {where} in covalt.yaml; "
                f"{allowed_roles(config, 'call', tool)}",
            )
        if args is not None:
            self.visibility.check_rules([tool], args)
        if decide(config, principal, "approve", tool).allowed:
            return
        reasons = (
            approval_reasons_of_any(self.visibility.rules, tool)
            if args is None
            else self.visibility.decide_call([tool], args).reasons
        )
        if reasons:
            raise ForbiddenError(
                f"{who} may not do this without approval: {tool_id}, which does the same, requires it "
                f"({reasons[0]})",
                hint=f"a call of {tool_id} waits for approval; without a call, "
                f"{allowed_roles(config, 'approve', tool)}",
            )

    def require_reading(self, tool_id: str, args: JsonObject | None) -> None:
        """Check that no ``deny`` is about a call of a built-in tool that reads, for an operation that gets the same.

        Arguments as of :meth:`require_tool`.

        Raises:
            ForbiddenError: if its role denies the tool, or a rule may deny a call with unknown arguments.
            PolicyDeniedError: if a rule denies the call.
        """
        self._required.append(partial(self.require_reading, tool_id, args))
        self._check_reading(tool_id, args)

    def may_read(self, tool_id: str, args: JsonObject) -> bool:
        """Return whether no ``deny`` is about a reading call, as :meth:`require_reading` checks it."""
        try:
            self._check_reading(tool_id, args)
        except CovaltError:
            return False
        return True

    def _check_reading(self, tool_id: str, args: JsonObject | None) -> None:
        from covalt_git.toolsets.builtin_tools import BUILTINS  # noqa: PLC0415 - as above

        config, principal, tool = self.project.config, self.project.principal, BUILTINS[tool_id]
        if args is not None:
            self.visibility.check_rules([tool], args)
        may_deny = args is None and may_be_denied(self.visibility.rules, tool)
        if may_deny or is_denied_by_role(config, principal, tool):
            raise ForbiddenError(
                f"{acting(config, principal)} may not do this: covalt.yaml denies calls of {tool_id}",
                hint=f"covalt-git policy explain {tool_id}",
            )

    @property
    def manages_chats(self) -> bool:
        """Whether the principal may do what no tool does in a chat, such as delete it."""
        return may_manage_chats(self.project.config, self.project.principal)

    def require_chat_management(self) -> None:
        """Check that the principal may do what no tool does in a chat, such as delete it.

        Raises:
            ForbiddenError: if its role may not.
        """
        self._required.append(self.require_chat_management)
        if not self.manages_chats:
            who = acting(self.project.config, self.project.principal)
            role = self.project.principal.role or self.project.config.default_role
            where = f"the role {role!r}" if role else "a role, and use it with --role,"
            raise ForbiddenError(
                f"{who} may not manage chats", hint=f"add chats: manage to {where} in covalt.yaml"
            )

    def require_export(self, chat: ChatStore, *, stays: bool = False) -> None:
        """Check that the principal may get a chat's store, whose records have the calls of all tools.

        With ``stays``, the copy is a chat of the project, where the rules about its files hold too.

        Check after the refs or objects are read that the principal gets, or under the chat's lock: a call may end
        at any time.

        Raises:
            ForbiddenError: if a tool that the chat has called is hidden from its role, or it may not read each file.
        """
        if not stays:
            self.require_reading("workspace:read_file", None)
        if self.is_admin or self.manages_chats:
            return
        from covalt_git.workspaces.recorded_tools import recorded_tools  # noqa: PLC0415 - few operations need it

        if not all(map(self.visibility.sees, recorded_tools(chat))):
            who = acting(self.project.config, self.project.principal)
            raise ForbiddenError(
                f"{who} may not clone or export this chat: its records have calls of tools that are hidden from it",
                hint="a role with chats: manage in covalt.yaml may; if only deleted branches have such calls, "
                f"so may this role after covalt-git chat gc {chat.id} --now",
            )

    def refusal(self, what: str) -> ForbiddenError:
        """Return the error that the principal's role ``may not ...``, with the roles that may."""
        config, principal = self.project.config, self.project.principal
        hint = admin_roles(config)
        # The role has the right, but a pull may have given it: other roles would be the wrong advice.
        if lacks_trust(config, principal):
            hint = "the user of this machine has not trusted this role to decide: covalt-git trust"
        return ForbiddenError(f"{acting(config, principal)} {what}", hint=hint)

    def chat_index(self) -> ChatQueries:
        """Return the index of chats, which may be out of date: synchronize what you read from it first.

        Raises:
            IndexUnusableError: if it can be neither read nor created.
        """
        if self._chat_index is None:
            self._chat_index = self.project.chat_index()
        return self._chat_index

    def toolset_index(self) -> ToolQueries:
        """Return the index with up-to-date toolsets, whose files are read once for each context.

        Raises:
            IndexUnusableError: when it can be neither read nor created.
        """
        if self._toolset_index is None:
            self._toolset_index = self.project.tool_index()
            self._toolset_index.sync_toolsets()
        return self._toolset_index

    def update_toolset_index(self) -> None:
        """Enter the toolsets that an operation has changed in the index.

        Raises:
            IndexUnusableError: when it can be neither read nor created.
        """
        if self._toolset_index is None:
            self.toolset_index()
        else:
            self._toolset_index.sync_toolsets()

    def chat(self, chat_id: str, reported: ReportedRefs | None = None) -> ChatStore:
        """Return a chat, open for reading until the context is closed.

        With refs that another process ``reported``, a git server is not asked for them.

        Raises:
            UnknownNameError: if the id does not exist; the hint has the most similar one.
        """
        if chat_id not in self._chats:
            self._chats[chat_id] = self.project.chats.open(chat_id, reported)
        return self._chats[chat_id]

    def chat_exists(self, chat_id: str) -> bool:
        """Return whether a chat of the index exists for the principal: the holder of a token has own chats only."""
        return self.project.principal.token is None or self.project.chats.has(chat_id)

    def commit_id(self, chat: ChatStore, name: str) -> str | None:
        """Return the id of the commit that a name means; None for HEAD of a branch without commits.

        Raises:
            UnknownNameError: if the name does not exist; the hint has the most similar one.
        """
        if name == "HEAD" and chat.head() is None:
            return None
        return self.chat_index().resolve(chat, name)

    @contextmanager
    def writing(self, chat: ChatStore) -> Iterator[Writer]:
        """Hold a chat's lock, and update the index afterwards.

        Raises:
            ChatBusyError: if another process holds the lock for too long.
            ForbiddenError: if the role has lost a right while this waited for the lock.
        """
        # Only the first write: the server already has what an earlier one wrote.
        repeats, self._repeats = self._repeats, False
        with self.project.writing(chat, self.waiting, repeats=repeats) as writer:
            # The configuration may have changed during the wait
            # (test_an_operation_of_a_role_that_loses_the_right_meanwhile_changes_nothing).
            self.require_again()
            try:
                yield writer
            finally:
                # Also after an error, because the next write does not report these notes again
                # (tests/operations/test_notes.py).
                if self._report_notes is not None:
                    self._report_notes(writer.fresh_notes())
        self.update_index(chat)

    @contextmanager
    def repeating(self) -> Iterator[None]:
        """Let the first write of the block fail with a LeaseLostError after which the caller repeats the block."""
        self._repeats = True
        try:
            yield
        finally:
            self._repeats = False

    def require_again(self) -> None:
        """Check everything that was required so far with the current ``covalt.yaml``.

        Raises:
            ForbiddenError: if the role may no longer perform the operation.
        """
        from covalt_git.catalog.current_config import current_config  # noqa: PLC0415 - most operations read only

        try:
            self.project = replace(self.project, config=current_config(self.project.root))
        except BrokenConfigError:
            if not self._repairs:
                raise
            # The checks must not be made with the rights of an earlier configuration.
            self.__dict__.pop("project", None)
        # Each check adds itself again, for the next wait.
        required, self._required = self._required, []
        for check in required:
            check()

    def update_index(self, chat: ChatStore) -> None:
        """Enter a chat's new commits in the index; the index is a cache, so a failure is only logged."""
        from covalt_git.index.database import IndexUnusableError  # noqa: PLC0415 - it loads SQLite

        try:
            self.chat_index().sync_chat(chat)
        except IndexUnusableError as error:
            _LOG.warning("%s; the next command brings it up to date", error.message)

    @property
    def follower(self) -> Follower:
        """Receives the events of calls, and may cancel them."""
        from covalt_git.calls.running import Follower  # noqa: PLC0415 - most operations make no calls

        if self._follower is None:
            self._follower = Follower()
        return self._follower

    def engine(self) -> Engine:
        """Return the engine that makes calls; the context's follower receives their events."""
        return self.project.engine(self.waiting, self._follower)

    def approvals(self) -> Approvals:
        """Return the approvals of the project; the context's follower receives events of their calls."""
        return self.project.approvals(self.waiting, self._follower)
