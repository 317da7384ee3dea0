"""Operation that lists what needs a decision or a repair of the user, from the index and the toolsets' files.

It reads no history of a chat.  A store is opened only of chats that may have an open conflict, or uncommitted changes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from covalt_git import timestamps
from covalt_git.access import NamedTool
from covalt_git.calls.servers import mcp_calls
from covalt_git.catalog import toolset_cache
from covalt_git.connections.definition import Name
from covalt_git.connections.token_store import SignInFile, SignInFileError
from covalt_git.credentials.command import SecretCommand
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError, Problem, listed
from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.grants.status import acting_grants, missing_grants
from covalt_git.merging import branch_merge, resolving
from covalt_git.models.calls import MAY_BE_SCRIPTS, main_argument
from covalt_git.operations import project_updates
from covalt_git.operations.calls.approvals import indexed_approvals
from covalt_git.operations.chats.chats import ChatRow, indexed_chats, synced_chats
from covalt_git.operations.chats.merges import waiting_conflicts
from covalt_git.operations.context import Context
from covalt_git.operations.credentials.logins import sign_in_entries
from covalt_git.operations.credentials.secrets import unset_secrets
from covalt_git.operations.namespace_problems import problems_across
from covalt_git.operations.registry import EmptyRequest, PathText, Result, operation
from covalt_git.operations.results import DamagedChat
from covalt_git.operations.toolsets import ToolsetRow, list_toolsets
from covalt_git.sources import listing_failures, refresh
from covalt_git.text import display
from covalt_git.toolsets.permissions import unreadable_consent, untrusted_words
from covalt_git.workspaces.switching import WorkingFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from covalt_git.index.chat_queries import LastCall
    from covalt_git.models.chats import FileChange
    from covalt_git.toolsets.toolset import Toolset
    from covalt_git.workspaces.chat import ChatStore

NeedKind = Literal[
    "approval",
    "conflict",
    "broken_toolset",
    "grant",
    "trust",
    "secret",
    "sign_in",
    "source",
    "edits",
    "failed_call",
    "project",
]

MOST_CHATS = 8

MOST_SCANNED = 20
"""Number of chats, the last active ones, whose workspaces are scanned for uncommitted changes."""

_MOST_GRANTS = 4
"""Missing grants that a message names."""

_MOST_WHY = 300
"""Characters of a server's error in a message."""

_EDITS_AGE = timedelta(hours=1)
_MOST_CACHE_BYTES = (
    1 << 20
)  # of a stat cache, whose workspace has about 10,000 files, and is scanned in 30 ms
_DECIDED = ("denied:", "cancelled:")
"""Errors of calls that ended so because a user wanted it."""


class UserNeed(Result):
    """One thing that the role can do something about.

    ``chat_id``, ``call_id``, ``execution_id``, ``toolset_id``, ``secret``, ``namespace``, ``branch``, ``path`` and
    ``line`` name what it is about, as far as the ``kind`` has them.
    """

    kind: NeedKind
    message: str = Field(description="What is the matter, in one line.")
    command: str = Field(description="The command that shows it, or what to do.")
    since: str | None = Field(None, description="Since when; null if that is not known.")
    chat_id: str | None = None
    branch: str | None = Field(None, description="The branch whose merge conflicts stopped.")
    call_id: str | None = None
    execution_id: str | None = None
    toolset_id: str | None = None
    secret: str | None = Field(None, description="The name of a secret without a value.")
    namespace: str | None = Field(None, description="Of a source's tools.")
    path: PathText | None = Field(None, description="The file with the first problem.")
    line: int | None = None


class NeedList(Result):
    """What needs the user, by kind."""

    needs: tuple[UserNeed, ...]
    unscanned: tuple[str, ...] = Field(
        description="Chats whose workspaces were not scanned for uncommitted changes, because other chats were active"
        " later, or they have more than about 10,000 files."
    )
    damaged: tuple[DamagedChat, ...]
    chats: tuple[ChatRow, ...] = Field(
        description="The chats that were active last, at most eight, the last active one first."
    )


@operation()
def list_needs(context: Context, _: EmptyRequest) -> NeedList:
    """List what needs the user: decisions, conflicts, broken toolsets, missing permissions, failures.

    Only what the role can act on is listed.  Uncommitted changes are those that are older than an hour.
    """
    damaged = synced_chats(context)
    chats = sorted(indexed_chats(context), key=lambda chat: chat.active_at, reverse=True)
    unreadable = {chat.chat_id for chat in damaged}
    readable = [chat for chat in chats if chat.id not in unreadable]
    edits, unscanned = _edits(context, readable)
    needs = [
        *_approvals(context),
        *_conflicts(context, readable),
        *_of_project(context),
        *_of_toolsets(context),
        *edits,
        *_failed_calls(context, readable),
    ]
    return NeedList(
        needs=tuple(needs), unscanned=unscanned, damaged=damaged, chats=tuple(chats[:MOST_CHATS])
    )


def _approvals(context: Context) -> Iterator[UserNeed]:
    for approval in indexed_approvals(context, "pending"):
        if approval.may_settle:
            subject = main_argument(approval.tool_id, approval.args)
            yield UserNeed(
                kind="approval",
                message=f"{approval.tool_id} needs approval{': ' if subject else ''}{subject}",
                command=f"covalt-git approval show {approval.execution_id}",
                since=approval.created_at,
                chat_id=approval.chat_id,
                call_id=approval.call_id,
                execution_id=approval.execution_id,
            )


def _conflicts(context: Context, chats: Iterable[ChatRow]) -> Iterator[UserNeed]:
    if not context.may_do("workspace:restore"):
        return
    merged = set(context.chat_index().chats_with_merges())
    for row in chats:
        if row.id not in merged:
            continue
        with suppress(BrokenStoreError):
            chat = context.chat(row.id)
            command = f"covalt-git chat resolve {chat.id}"
            paths = _unresolved(context, chat)
            if paths:
                count = f"{len(paths)} conflicts" if len(paths) > 1 else "a conflict"
                message = f"{count} to resolve: {listed(paths)}"
                yield UserNeed(kind="conflict", message=message, command=command, chat_id=chat.id)
            branch = branch_merge.stopped_branch(chat)
            if branch is not None:
                message = f"conflicts stopped the merge of {branch} into {row.active_branch}"
                yield UserNeed(
                    kind="conflict",
                    message=message,
                    command=command,
                    chat_id=chat.id,
                    branch=branch,
                )


def _unresolved(context: Context, chat: ChatStore) -> list[str]:
    """Return the paths of the unresolved conflicts on the active branch.

    Only if a merge of any branch has one, the history of the branch and the workspace are read.
    """
    merges = [chat.manifest(oid) for oid in context.chat_index().merges(chat.id)]
    saved = [
        conflict.saved_as
        for merge in merges
        for conflict in (merge.record.merge.conflicts if merge.record.merge else ())
        if conflict.saved_as is not None
    ]
    in_folder = any(os.path.lexists(chat.workspace / path) for path in saved)
    if not in_folder and not resolving.unresolved(chat, merges, chat.state(chat.head()).tree):
        return []
    with chat.scan_in_memory() as scan:
        return [conflict.path for conflict in waiting_conflicts(chat, scan)]


def _of_project(context: Context) -> Iterator[UserNeed]:
    """Yield why a node does not run the newest commit of its project."""
    behind = project_updates.behind(context.root) if context.is_admin else None
    if behind is not None:
        yield UserNeed(kind="project", message=behind.why, command=behind.command)


def _of_toolsets(context: Context) -> list[UserNeed]:
    """Return what toolsets need: first all that have errors, then grants, secrets and sources."""
    if not context.is_admin:
        return []
    rows = list_toolsets(context).toolsets
    problems, across = context.toolset_index().problems, problems_across(context)
    broken = [
        _broken(
            row,
            next(
                problem
                for problem in (*problems(row.id), *across.get(row.id, ()))
                if problem.severity == "error"
            ),
        )
        for row in rows
        if row.errors or not row.sound
    ]
    toolsets = _Toolsets.of(context)
    needs = [
        need
        for row in rows
        if row.sound and row.enabled
        for need in toolsets.needs(row, toolset_cache.toolset(context.project.root, row.id))
    ]
    kinds: tuple[NeedKind, ...] = ("grant", "trust", "secret", "sign_in", "source")
    # A file of secrets that cannot be used is one thing to do, whatever number of secrets need it.
    distinct: dict[tuple[NeedKind, str], UserNeed] = {}
    for need in needs:
        distinct.setdefault((need.kind, need.message), need)
    return broken + sorted(distinct.values(), key=lambda need: kinds.index(need.kind))


def _broken(row: ToolsetRow, problem: Problem) -> UserNeed:
    # A namespace that another toolset has concerns the tools of that server only.
    effect = "" if row.sound else ", so none of its tools can be called"
    others = f", and {row.errors - 1} more" if row.errors > 1 else ""
    return UserNeed(
        kind="broken_toolset",
        message=f"the toolset {row.id!r} has errors{effect}: {problem.message}{others}",
        command=f"covalt-git validate toolsets/{row.id}",
        toolset_id=row.id,
        path=problem.path,
        line=problem.line or None,
    )


class _Toolsets(NamedTuple):
    """What all toolsets of a project have in common for this list."""

    context: Context
    command: SecretCommand | None
    store: SecretStore

    @classmethod
    def of(cls, context: Context) -> _Toolsets:
        command = SecretCommand.of(context.project.root, context.project.config.secret_command)
        return cls(context, command, SecretStore.of_this_machine())

    def needs(self, row: ToolsetRow, toolset: Toolset) -> Iterator[UserNeed]:
        """Yield what an enabled toolset without errors needs."""
        grants = missing_grants(toolset) if row.lacks_grants else []
        if grants:
            first = "; ".join(grant.why for grant in grants[:_MOST_GRANTS])
            rest = len(grants) - _MOST_GRANTS
            yield UserNeed(
                kind="grant",
                message=f"{first}; and {rest} more" if rest > 0 else first,
                command=grants[0].command
                if len(grants) == 1
                else f"covalt-git grant add {row.id} --requested",
                toolset_id=row.id,
            )
        if row.not_trusted:
            words = untrusted_words(toolset, self.context.project.config)
            error = unreadable_consent(toolset, self.context.project.config)
            if words or error is not None:
                yield UserNeed(
                    kind="trust",
                    message=f"the toolset {row.id!r} has permissions that are not trusted on this machine: {listed(words)}"
                    if error is None
                    else error.message,
                    command="covalt-git trust" if error is None else error.hint,
                    toolset_id=row.id,
                )
        for secret in unset_secrets(toolset, self.command, self.store):
            yield UserNeed(
                kind="secret",
                message=secret.why
                if secret.of_file
                else f"the secret {secret.name} of {row.id} {secret.why}",
                command=secret.hint,
                toolset_id=row.id,
                secret=secret.name,
            )
        yield from self._sign_ins(toolset)
        ungranted = {grant.server for grant in grants}
        for source in refresh.sources_of(self.context.project.root, toolset):
            # A server without its grant can be neither started nor listed.
            if source.enabled and source.declared.id not in ungranted:
                yield from self._of_source(source)

    def _sign_ins(self, toolset: Toolset) -> Iterator[UserNeed]:
        """Yield the granted sign-ins that are missing, or whose token cannot be renewed."""
        entries = sign_in_entries(toolset)
        granted = acting_grants(toolset).secrets if entries else {}
        for entry in entries:
            name, server = entry.reference_name, f"{toolset.id}/{entry.id}"
            if name not in granted:
                continue  # the sign-in itself needs the grant, and the missing grant of a tool is listed
            why = ""
            try:
                file = SignInFile.of(
                    Name(self.context.project.root, toolset.id, name), entry.digest
                )
                stored = file.read()
                if stored is None:
                    why = f"{server} needs a sign-in"
                elif stored.is_dead:
                    why = f"the sign-in to {server} has expired"
            except SignInFileError as error:
                why = f"the sign-in to {server} cannot be used: {error.message}"
            if why:
                command = f"covalt-git auth login {server}"
                yield UserNeed(kind="sign_in", message=why, command=command, toolset_id=toolset.id)

    def _of_source(self, source: refresh.ToolSource) -> Iterator[UserNeed]:
        name, waits = source.shown_id, source.to_accept
        message, command = "", f"covalt-git source refresh {name}"
        failure = self._failure(source)
        if source.program_waits:
            message = f"{name} waits until you accept the program that it is started from"
            command = f"covalt-git source diff {name}"
        elif source.lock is None or not source.lock.is_listed:
            error = listing_failures.failure_of(self.context.root, source)
            message = f"{name} was never asked for its tools"
            if error is not None:
                # The last line: a server that did not start says why in the end of its stderr.
                why = display.shorten(error.message.strip().splitlines()[-1], _MOST_WHY)
                message = f"{name} did not list its tools: {why}"
        elif failure is not None:
            message = f"{name} fails: {failure}"
            command = f"covalt-git source show {name}"
        elif waits:
            count = f"{len(waits)} tools" if len(waits) > 1 else f"the tool {waits[0].name}"
            message = f"{name} has {count} to accept"
            command = f"covalt-git source diff {name}"
        if message:
            yield UserNeed(
                kind="source",
                message=message,
                command=command,
                toolset_id=source.toolset.id,
                namespace=source.namespace,
            )

    def _failure(self, source: refresh.ToolSource) -> str | None:
        """Return the error of a connection of this process that failed; None if none has."""
        errors = (
            connection.error
            for connection in mcp_calls.health(self.context.project.root)
            if (connection.toolset_id, connection.server_id, connection.state)
            == (source.toolset.id, source.declared.id, "failed")
        )
        return next(errors, None)


def _edits(context: Context, chats: Sequence[ChatRow]) -> tuple[list[UserNeed], tuple[str, ...]]:
    """Return the uncommitted changes of chats, the last active ones first, and the chats that were not scanned."""
    if not context.may_do("workspace:write_file"):
        return [], ()
    latest = timestamps.written(
        datetime.fromisoformat(timestamps.now()).astimezone(UTC) - _EDITS_AGE
    )
    needs, unscanned = [], [row.id for row in chats[MOST_SCANNED:]]
    for row in chats[:MOST_SCANNED]:
        with suppress(BrokenStoreError):
            chat = context.chat(row.id)
            if _is_large(chat):
                unscanned.append(row.id)
                continue
            if any(call.status == "running" for call in chat.calls()):
                continue  # the changes may be those of its tool
            changes, since = _old_edits(chat)
            if changes and since < latest:
                count = len(changes)
                what = f"{count} uncommitted changes" if count > 1 else "an uncommitted change"
                paths = listed([change.path for change in changes])
                needs.append(
                    UserNeed(
                        kind="edits",
                        message=f"{what}: {paths}",
                        command=f"covalt-git chat diff {row.id}",
                        since=since,
                        chat_id=row.id,
                    )
                )
    return needs, tuple(unscanned)


def _is_large(chat: ChatStore) -> bool:
    try:
        return chat.stat_cache.file.stat().st_size > _MOST_CACHE_BYTES
    except OSError:
        return False


def _old_edits(chat: ChatStore) -> tuple[list[FileChange], str]:
    """Return the uncommitted changes of a workspace, and when the first of these files was changed."""
    folder = WorkingFolder(chat)
    with suppress(CovaltError), chat.scan_in_memory() as scan:
        changes = folder.edits(scan.tree, folder.announced())
        times = [_changed_ns(chat.workspace, change.path) for change in changes]
        return changes, timestamps.of_ns(min(times, default=0))
    return [], ""


def _changed_ns(workspace: Path, path: str) -> int:
    """Return the change time of a file, or of the folder from which it was deleted."""
    place = workspace / path
    while not os.path.lexists(place) and place != workspace:
        place = place.parent
    try:
        return os.lstat(place).st_ctime_ns
    except OSError:
        return 0


def _failed_calls(context: Context, chats: Iterable[ChatRow]) -> Iterator[UserNeed]:
    last_calls = {call.chat_id: call for call in context.chat_index().last_calls()}
    for row in chats:
        call = last_calls.get(row.id)
        if call is not None and _needs_repair(context, call):
            code, _, text = (call.error or "").partition(": ")
            # The message of a failed script can name hidden tools.
            why = (
                code if call.tool_id.startswith(MAY_BE_SCRIPTS) else text.partition("\n")[0] or code
            )
            yield UserNeed(
                kind="failed_call",
                message=f"{_called(call.tool_id, call.object)} failed: {why}",
                command=f"covalt-git chat show {row.id} {call.id}",
                since=call.started_at,
                chat_id=row.id,
                call_id=call.id,
            )


def _needs_repair(context: Context, call: LastCall) -> bool:
    """Return whether a call failed that the role sees and could make again."""
    if call.status != "error" or (call.error or "").startswith(_DECIDED):
        return False
    visibility = context.visibility
    return (
        visibility.sees_call(call.tool_id, call.result)
        and visibility.may_call(NamedTool(call.tool_id)).allowed
    )


def _called(tool_id: str, subject: str) -> str:
    return f"{tool_id} {subject}".rstrip()
