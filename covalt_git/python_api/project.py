"""Project of the Python API: its tools, toolsets and chats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.manifests.project_root import find_root
from covalt_git.operations import audit, needs, search, tools, toolsets, validation
from covalt_git.operations.calls import approvals
from covalt_git.operations.chats import chats
from covalt_git.operations.formats import conversions
from covalt_git.python_api.chat import Chat, call_result
from covalt_git.python_api.session import Session

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from covalt_git.errors import Problem
    from covalt_git.operations.audit import AuditVerified
    from covalt_git.operations.formats.conversions import Converted
    from covalt_git.operations.needs import UserNeed
    from covalt_git.operations.search import SearchedKind, SearchResults
    from covalt_git.operations.tools import ToolRow
    from covalt_git.operations.toolsets import ToolsetRow
    from covalt_git.python_api.chat import CallResult


def open_project(path: str | os.PathLike[str] = ".", *, role: str | None = None) -> Project:
    """Open the project that contains a path.

    Args:
        path: The project's folder, or a file or folder in it.
        role: The role of ``covalt.yaml`` to act under; by default its ``default_role``.

    Raises:
        CovaltError: when there is no project, or its ``covalt.yaml`` has errors.
    """
    # Now, not at each call: the program may change its folder meanwhile.
    return Project(find_root(Path(path)), role)


class Project:
    """An open project; use it as a context manager, or close it.

    All methods may be called from several threads.  Each method reads the current files of the project, so a
    changed toolset or ``covalt.yaml`` needs no new object.
    """

    def __init__(self, root: Path, role: str | None) -> None:
        self._session = Session(root, role)

    def __repr__(self) -> str:
        return f"Project({str(self.root)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the project.

        Closing the last open project of this process also ends the processes of tools, and the connections to MCP
        servers.
        """
        self._session.close()

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self._session.root

    @property
    def tools(self) -> tuple[ToolRow, ...]:
        """The tools that the role may see, by toolset."""
        groups = self._session.perform(tools.list_tools).groups
        return tuple(tool for group in groups for tool in group.tools)

    @property
    def toolsets(self) -> tuple[ToolsetRow, ...]:
        """The toolsets with at least one tool that the role may see."""
        return self._session.perform(toolsets.list_toolsets).toolsets

    @property
    def needs(self) -> tuple[UserNeed, ...]:
        """What needs a decision or a repair that the role can make, such as pending approvals and conflicts."""
        return self._session.perform(needs.list_needs).needs

    @property
    def chats(self) -> tuple[Chat, ...]:
        """The chats, newest first."""
        return tuple(
            Chat(self._session, row.id) for row in self._session.perform(chats.list_chats).chats
        )

    def chat(self, chat_id: str) -> Chat:
        """Return a chat.

        Raises:
            CovaltError: with the code ``unknown_chat``.
        """
        return Chat(self._session, self._session.perform(chats.get_chat, chat_id=chat_id).id)

    def create_chat(self, chat_id: str | None = None, *, title: str = "") -> Chat:
        """Create a chat with an empty workspace; by default its id is the next of c1, c2 and so on.

        Raises:
            CovaltError: if a chat with the id exists already, or the id is invalid.
        """
        return Chat(
            self._session, self._session.perform(chats.create_chat, chat_id=chat_id, title=title).id
        )

    def open_chat(self, chat_id: str, *, create: bool = False, title: str = "") -> Chat:
        """Return a chat; with ``create``, it is created if it does not exist, with this title.

        Raises:
            CovaltError: ``unknown_chat`` without ``create``, or if the id is invalid.
        """
        try:
            return self.chat(chat_id)
        except UnknownNameError:
            if not create:
                raise
        try:
            return self.create_chat(chat_id, title=title)
        except CovaltError:  # another thread or process has created it meanwhile
            # The error may also be that of an invalid id, which no other thread can have created.
            if chat_id not in [chat.id for chat in self.chats]:
                raise
            return self.chat(chat_id)

    def search_tools(self, text: str, *, limit: int = 20) -> tuple[ToolRow, ...]:
        """Return the tools whose name, description, parameters or tags match a text, best first.

        Args:
            text: Words or a question.
            limit: The maximum number of tools, 1 to 100.
        """
        return self._session.perform(tools.search_tools, query=text, limit=limit).tools

    def search(
        self,
        text: str,
        *,
        kind: SearchedKind | None = None,
        chat: str | None = None,
        limit: int = 10,
    ) -> SearchResults:
        """Search messages, files of the active branches, arguments of calls, chats, tools and toolsets.

        Args:
            text: Words that a result has all of, or phrases in quotes; the last word may be a beginning.
            kind: Only results of this kind.
            chat: Only messages, files and calls of this chat.
            limit: The maximum number of results of each kind, 1 to 200.

        Raises:
            CovaltError: ``unknown_chat``.
        """
        return self._session.perform(
            search.search, query=text, kind=kind, chat_id=chat, limit=limit
        )

    def validate(self) -> tuple[Problem, ...]:
        """Return the problems of all files, in the order of the files; none of their code runs."""
        return self._session.perform(validation.validate).problems

    def export_audit(
        self, *, since: str | None = None, tool: str | None = None, chat: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield calls, approvals, and refused and asked calls, oldest first; for admins only.

        Args:
            since: Only events from this time on, such as ``2026-11-20T17:24:00Z``.
            tool: Only events of this tool.
            chat: Only events of this chat.

        Raises:
            CovaltError: ``forbidden``, if tools may be hidden from the role.
        """
        file = self._session.perform(audit.export_audit, since=since, tool_id=tool, chat_id=chat)
        return _json_lines(file.stream)

    def verify_audit(
        self, chat: str | None = None, *, allowed_signers: Sequence[str] | None = None
    ) -> AuditVerified:
        """Check signatures, digests, parents and the list of foreign commits of one chat, or of all; for admins only.

        Args:
            chat: The chat.
            allowed_signers: Lines of OpenSSH's allowed-signers format; by default the key of ``audit.sign_key``.
        """
        signers = None if allowed_signers is None else tuple(allowed_signers)
        return self._session.perform(audit.verify_audit, chat_id=chat, allowed_signers=signers)

    def convert(
        self,
        path: str | os.PathLike[str],
        *,
        to: str,
        source: str | None = None,
        output: str | os.PathLike[str] | None = None,
    ) -> Converted:
        """Convert tools to another format; no tool runs, and no connection is made.

        Args:
            path: A file, a folder or a ZIP.
            to: The format of the output, one of ``covalt-git formats``.
            source: The format of the input; by default it is recognized from the content.
            output: The file or folder to write, which must not exist; by default the result has the files.

        Raises:
            CovaltError: ``bad_format`` with all problems of the input.
        """
        return self._session.perform(
            conversions.convert_file,
            path=Path(path),
            target_format=to,
            source_format=source,
            output=None if output is None else Path(output),
        )

    def approve(
        self,
        execution_id: str,
        *,
        next_calls: int | None = None,
        same: Sequence[str] = (),
        answers: Mapping[str, Any] | None = None,
    ) -> CallResult:
        """Approve a pending call, and run it; a script that made the call continues here.

        Args:
            execution_id: The approval.
            next_calls: Number of further calls of the tool in the same script that need no approval, 1 to 100.
            same: Names of arguments that must be the same in these further calls.
            answers: The answers to the questions of the call by their keys, such as
                ``{"answer": {"action": "accept", "content": {"size": 2}}}``.

        Raises:
            CovaltError: with the code ``asked_again``, if the files or the tool have changed since the request; the
            hint names the new approval.
        """
        answer = self._session.perform(
            approvals.approve_call,
            execution_id=execution_id,
            next_calls=next_calls,
            same=tuple(same),
            answers=None if answers is None else dict(answers),
        )
        return call_result(answer)

    def deny(self, execution_id: str, *, reason: str | None = None) -> CallResult:
        """Deny a pending call; it never runs.  Its caller sees the reason."""
        return call_result(
            self._session.perform(approvals.deny_call, execution_id=execution_id, reason=reason)
        )


def _json_lines(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    with stream:
        yield from map(json.loads, stream)
