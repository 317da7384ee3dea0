"""Chat of the Python API: calls of tools in its workspace, its history and its messages."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from covalt_git.operations.calls import calls
from covalt_git.operations.chats import (
    branches,
    call_undos,
    chats,
    manifests,
    merges,
    messages,
    tables,
)
from covalt_git.operations.chats import workspace_edits as edits
from covalt_git.operations.chats import workspace_files as files
from covalt_git.operations.registry import RequestFile
from covalt_git.system.node_folder import data_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from covalt_git.file_edits.uploads import Uploaded
    from covalt_git.models.calls import CallError, RenderPlan
    from covalt_git.models.chats import Branch
    from covalt_git.operations.calls.calls import CallAnswer
    from covalt_git.operations.chats.call_undos import CallUndone
    from covalt_git.operations.chats.manifests import ManifestRow
    from covalt_git.operations.chats.merges import Merged
    from covalt_git.operations.chats.messages import MessageRow
    from covalt_git.operations.chats.tables import TablePage
    from covalt_git.operations.chats.workspace_files import FileDiff, WorkspaceFile
    from covalt_git.operations.registry import Operation, RequestT, ResultT
    from covalt_git.python_api.session import Session


class FinishedResult(NamedTuple):
    """A call of a tool that has ended.

    Attributes:
        id: The call's id.
        status: ``success`` or ``error``; ``running`` only for a repeated call whose first one has not ended.
        value: The result of the tool.
        error: The error, with ``code``, ``message`` and ``hint``; None for other statuses.
        commit: The commit with the call and its files; None if the call has none.
        render_plan: How the tool's author wants the value to be shown; None if this is not defined.
        files_changed: The paths that it added, changed or deleted.
        output: The text that the tool printed.
        execution_id: The approval that the call waited for; None without one.
        reasons: Empty.
    """

    id: str
    status: Literal["success", "error", "running"]
    value: Any
    error: CallError | None
    commit: str | None
    render_plan: RenderPlan | None
    files_changed: tuple[str, ...]
    output: str
    execution_id: str | None
    reasons: tuple[str, ...]


class PendingResult(NamedTuple):
    """A call of a tool that waits until a user approves or denies it.

    It has the attributes of :class:`FinishedResult`, without a result.

    Attributes:
        execution_id: The approval that the call waits for, for :meth:`Project.approve`.
        reasons: Why it needs approval.
    """

    id: str
    status: Literal["pending"]
    value: None
    error: CallError | None
    commit: str | None
    render_plan: RenderPlan | None
    files_changed: tuple[str, ...]
    output: str
    execution_id: str
    reasons: tuple[str, ...]


CallResult = FinishedResult | PendingResult
"""A call of a tool: type checkers know by its ``status`` which of the two it is."""


def call_result(answer: CallAnswer) -> CallResult:
    """Return the result of an operation."""
    common: dict[str, Any] = {
        "id": answer.id,
        "error": answer.error_detail,
        "commit": answer.post_manifest_id,
        "render_plan": answer.render_plan,
        "files_changed": tuple(change.path for change in answer.changes),
        "output": answer.output,
        "execution_id": answer.execution_id,
        "reasons": answer.reasons,
    }
    # Two types, so that type checkers know that a pending call has no value.
    if answer.status == "pending":
        return PendingResult(status="pending", value=None, **common)
    return FinishedResult(status=answer.status, value=answer.result, **common)


class Chat:
    """A chat of a project: its workspace, branches and messages.

    The argument ``at`` of the methods is a branch, ``HEAD``, a commit id or its beginning, a message id, a call id,
    or the application's own id of a message.  ``~N`` after it goes N commits back.
    """

    def __init__(self, session: Session, chat_id: str) -> None:
        self._session = session
        self.id = chat_id

    def __repr__(self) -> str:
        return f"Chat({self.id!r})"

    @property
    def workspace(self) -> Path:
        """The folder of its files, which you may edit."""
        return data_of(self._session.root) / "chats" / self.id / "workspace"

    def call(
        self,
        tool_id: str,
        args: Mapping[str, Any] | None = None,
        *,
        message_id: str | None = None,
        call_id: str | None = None,
        token_file: Path | None = None,
    ) -> CallResult:
        """Call a tool, and wait until it has ended.

        Args:
            tool_id: Such as ``data-lab:summarize``.
            args: Its arguments, which are JSON values.
            message_id: The message that the call is made for.
            call_id: An idempotency key, a UUID of version 7: a repeated call returns the first result.
            token_file: A file with an access token of an issuer, for tools that require one.

        Returns:
            The result.  A tool that fails has the status ``error``; a call that needs approval has
            ``pending`` and an ``execution_id``.

        Raises:
            CovaltError: if the call is refused: an unknown tool, invalid arguments, no permission.
        """
        answer = self._session.perform(
            calls.call_tool,
            token_file,
            chat_id=self.id,
            tool_id=tool_id,
            args=dict(args or {}),
            message_id=message_id,
            call_id=call_id,
        )
        return call_result(answer)

    def snapshot(self) -> str | None:
        """Commit the uncommitted changes of the workspace; return the commit that has its files.

        Return None if the chat has no commit and its workspace is empty.
        """
        return self._run(edits.save_edits).manifest_id

    def checkout(self, branch: str) -> None:
        """Check out a branch; uncommitted changes are committed on the old branch first."""
        self._run(branches.switch_branch, branch=branch)

    def branch(self, name: str, at: str | None = None) -> str:
        """Create a branch and return its commit; by default it starts at the current workspace."""
        return self._run(branches.create_branch, name=name, from_manifest=at).manifest_id

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The branches, by name; one is ``active``."""
        return self._run(branches.list_branches).branches

    def merge(
        self,
        branch: str,
        *,
        prefer: Literal["ours", "theirs", "union", "both"] | None = None,
        again: bool = False,
    ) -> Merged:
        """Merge a branch into the active one.

        Args:
            branch: The branch to merge.
            prefer: How to decide conflicts; by default a conflict stops the merge.
            again: Whether to merge again what an undo or restore took back after an earlier merge.

        Returns:
            The result; with conflicts its ``status`` is ``conflicts``, and nothing has changed.
        """
        return self._run(merges.merge_branch, branch=branch, conflicts=prefer, again=again)

    def diff(self, old: str = "HEAD", new: str | None = None) -> tuple[FileDiff, ...]:
        """Return the files that differ, with patches; by default from ``HEAD`` to the current workspace.

        Patches of large files are left out, and all patches beyond a total size.
        """
        return self._run(files.get_workspace_diff, old=old, new=new or "").changes

    def log(self, branch: str | None = None, *, limit: int = 100) -> tuple[ManifestRow, ...]:
        """Return the newest commits of a branch, or of all branches; at most 500."""
        return self._run(manifests.list_manifests, branch=branch, limit=limit).manifests

    def files(self, at: str = "HEAD") -> tuple[WorkspaceFile, ...]:
        """Return the files of a commit, with path, size in bytes and sha256."""
        return self._run(files.get_workspace_files, manifest=at).files

    def read(self, path: str, at: str = "HEAD") -> bytes:
        """Return the content of a file of a commit.

        Raises:
            CovaltError: with the code ``unknown_file``.
        """
        with self._run(files.get_workspace_file, path=path, manifest=at).stream as stream:
            return stream.read()

    def table(
        self,
        path: str,
        *,
        where: Sequence[str] = (),
        sort: str | None = None,
        descending: bool = False,
        offset: int = 0,
        limit: int = 100,
        at: str = "HEAD",
    ) -> TablePage:
        """Return rows of a CSV file of a commit.

        Args:
            path: The file.
            where: Conditions, such as ``name~apple`` (contains), ``size<3``, ``size>3`` and ``name=apple``.
            sort: The column to sort by: a title, or ``#1``.  Numbers sort as numbers, and empty cells come last.
            descending: Whether to sort from the largest to the smallest.
            offset: Number of rows to skip.
            limit: At most this many rows, up to 1,000.
            at: The commit.

        Raises:
            CovaltError: with the code ``unknown_file``, ``no_table``, ``unknown_column`` or ``bad_condition``.
        """
        return self._run(
            tables.read_table,
            path=path,
            manifest=at,
            where="\n".join(where),
            sort=sort,
            descending=descending,
            offset=offset,
            limit=limit,
        )

    def upload(self, name: str, content: bytes, *, folder: str = "") -> Uploaded:
        """Add a file to the workspace, and commit it.

        If another file has the name, the new file gets a number; the result has its ``path``.
        """
        uploads = (RequestFile(name, BytesIO(content)),)
        return self._run(edits.upload_files, files=uploads, folder=folder).files[0]

    def restore(self, at: str, *paths: str) -> str | None:
        """Restore files and folders, or all files, to a commit; return the new commit.

        Uncommitted changes are committed first, so nothing is lost.
        """
        return self._run(edits.restore_workspace, manifest=at, paths=paths).manifest_id

    def undo(self) -> str | None:
        """Undo the last change of the files; return the new commit.

        Uncommitted changes are committed and undone first.  Another undo goes one change further back.

        Raises:
            CovaltError: with the code ``nothing_to_undo``.
        """
        return self._run(edits.undo_change).manifest_id

    def undo_call(
        self,
        call: str,
        *,
        branch: str | None = None,
        conflicts: Literal["ours", "theirs", "union"] | None = None,
        dry_run: bool = False,
    ) -> CallUndone:
        """Undo the changes of files by one call in a new commit, and keep later changes.

        Args:
            call: The id of the call, the end of its id, or the name of its commit.
            branch: The branch to change; by default the active one.
            conflicts: The resolution of conflicts with later changes; by default such a conflict stops the undo, and
                the result has the status ``conflicts``.
            dry_run: Only return what would change.
        """
        return self._run(
            call_undos.undo_call, call=call, branch=branch, conflicts=conflicts, dry_run=dry_run
        )

    def redo(self) -> str | None:
        """Revert the last undo, unless files have changed since; return the new commit.

        Raises:
            CovaltError: with the code ``nothing_to_redo``.
        """
        return self._run(edits.redo_change).manifest_id

    @property
    def messages(self) -> tuple[MessageRow, ...]:
        """The messages of the conversation, each after its parent."""
        return self._run(messages.list_messages).messages

    def add_message(
        self, text: str | None = None, *, role: str = "user", ref: str | None = None
    ) -> str:
        """Add a message after the last one of the active branch, and return its id.

        Args:
            text: The text; it is optional with ``ref``.
            role: ``user``, ``assistant``, ``system``, ``tool`` or another one.
            ref: The application's own id of the message.
        """
        message_id = self._run(messages.add_message, text=text, role=role, ref=ref).message_id
        assert message_id is not None  # the commit of a message has its id
        return message_id

    def rename(self, title: str) -> None:
        """Change the title; the id stays."""
        self._run(chats.rename_chat, title=title)

    def delete(self) -> None:
        """Delete the chat with its history and its workspace."""
        self._run(chats.delete_chat)

    def _run(self, operation: Operation[RequestT, ResultT], /, **fields: object) -> ResultT:
        return self._session.perform(operation, chat_id=self.id, **fields)
