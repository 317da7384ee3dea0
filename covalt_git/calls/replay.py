"""Replay of a call on its original files, and a comparison of both outcomes.

A replay runs in a temporary folder and on its own branch (``replay-N``), so that it does not change the user's
workspace and branch.  It is a normal call: it passes the access check, needs approval again if the tool requires
it, and is recorded; if its process dies, the branch has an interrupted call.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.calls.approvals import MayNotApproveError
from covalt_git.calls.concurrent_reads import copy_of, with_home_paths
from covalt_git.calls.engine import CallRequest
from covalt_git.conversations import commit_names
from covalt_git.errors import NEEDS_APPROVAL, CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.json_values.difference import Difference, differences
from covalt_git.models.base import StrictModel
from covalt_git.models.calls import SandboxLevel, ToolsetVersion
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import HEADS
from covalt_git.workspaces.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.calls.concurrent_reads import Copy
    from covalt_git.calls.engine import Engine
    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.catalog.catalog import Found
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import PendingCall
    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.models.commit_record import CallRecord, WorkspaceNote
    from covalt_git.workspaces.chat import ChatStore

Keep = Literal["different", "always", "never"]
"""When to keep the branch of a replay: always, never, or if the outcome differs."""


class NotReplayableError(CovaltError):
    """The commit is not a call, or the call never ran."""

    code = "not_replayable"
    http_status = 409


class ReplayNeedsApprovalError(CovaltError):
    """The replay needs approval; nothing ran.

    Attributes:
        reasons: who requires approval.
        arguments: those of the call, for the user who decides.
        digest: of the recorded call and the code that would run, so that a user approves what they have read.
    """

    code = "asks_first"
    exit_code = NEEDS_APPROVAL
    http_status = 409

    def __init__(self, call: PendingCall, reasons: tuple[str, ...], of: str, digest: str) -> None:
        super().__init__(
            f"{call.tool_id} needs approval: {', '.join(reasons)}",
            hint=f"replay it at a terminal: covalt-git chat replay {call.chat_id} {of}",
        )
        self.reasons = reasons
        self.arguments = call.args
        self.digest = digest


class RanAs(StrictModel):
    """The code that ran, and the level of its sandbox; null if the tool has not run."""

    toolset: ToolsetVersion
    sandbox: SandboxLevel | None


class Replay(NamedTuple):
    """Comparison of a call with its replay.

    Attributes:
        call_id: the original call.
        tool_id: its tool.
        original_manifest_id: the commit of the original call.
        branch: the branch of the replay, if it is kept.
        manifest_id: the commit of the replay, if it is kept.
        differences: of the result, the status and the error, by JSON path.
        changes: the files that differ, from the original call to the replay.
        empty_folders: empty folders after only one of the two calls.
        printed_the_same: whether the output is equal; it does not count as a difference.
        then: how the original call ran.
        now: how the replay ran.
        missing: paths that were in the workspace but not committed, so that the replay did not have them.
    """

    call_id: str
    tool_id: str
    original_manifest_id: str
    branch: str | None
    manifest_id: str | None
    differences: tuple[Difference, ...]
    changes: tuple[FileChange, ...]
    empty_folders: tuple[str, ...]
    printed_the_same: bool
    then: RanAs
    now: RanAs
    missing: tuple[WorkspaceNote, ...]

    @property
    def same(self) -> bool:
        """Whether the result and the files are equal."""
        return not (self.differences or self.changes or self.empty_folders)


def replay(
    engine: Engine,
    chat: ChatStore,
    text: str,
    *,
    approve: bool = False,
    approved: str | None = None,
    reason: str | None = None,
    keep: Keep = "different",
) -> Replay:
    """Run a recorded call again on its original files; ``text`` names its commit.

    The ``reason`` is recorded with the approval.  ``approved`` is the digest of what the user was asked to approve: while
    they read, ``text`` can become the name of another call, and a pull can change the code.

    Raises:
        UnknownCommitError: if the call does not exist for the principal.
        NotReplayableError: if it never ran.
        ReplayNeedsApprovalError: if it needs approval and ``approve`` is false, or ``approved`` is about something else;
            nothing ran.
        MayNotApproveError: if the principal may not approve it; nothing ran.
        CovaltError: as :meth:`Engine.call`.
    """
    manifest, recorded = _find_call(engine, chat, text)
    base = recorded.base or manifest.parent_id
    request = CallRequest(recorded.tool_id, recorded.args)
    # Before the wait for the lock, so that a replay that cannot run fails at once.
    engine.check(request)
    with engine.writing(chat) as writer, _copy_on_branch(writer, base) as copy:
        # Again, because roles, rules, trust and the toolset may have changed while the replay waited for the chat.
        engine, target = engine.decide_again(request)
        call = engine.new_call(copy, target, request, base=base)
        digest = canonical_json.digest(
            {"commit": manifest.id, "args": recorded.args, "definition": target.definition_digest}
        )

        def check(reasons: tuple[str, ...]) -> None:
            # While the user reads the question, a call moves the name of the commit, or a pull changes the code
            # (test_the_user_approves_only_the_call_and_the_code_that_they_were_asked_about).
            if not approve or approved not in {None, digest}:
                raise ReplayNeedsApprovalError(call, reasons, text, digest)
            for tool in target.tools:
                if not engine.catalog.may_approve(tool).allowed:
                    raise MayNotApproveError(engine, tool)

        keeps_branch = False
        copy_writer = Writer(copy, writer.by, holder=writer.holder)
        try:
            outcome = _run(engine, copy_writer, call, target, approve=check, reason=reason)
            result = _compare(copy, manifest, recorded, outcome)
            keeps_branch = keep == "always" or (keep == "different" and not result.same)
        finally:
            if not keeps_branch:
                copy_writer.drop_call(call.id)
                # Also after an error, so that a refused replay leaves no empty branch. The user does not work on it.
                chat.store.swap_ref(HEADS + copy.active_branch(), copy.head(), None)
        return result if keeps_branch else result._replace(branch=None, manifest_id=None)


def _find_call(engine: Engine, chat: ChatStore, text: str) -> tuple[WorkspaceManifest, CallRecord]:
    """Return a call that has run and is visible to the principal."""
    manifest = chat.manifest(commit_names.resolve(chat, text))
    call = manifest.record.call
    if call is None:
        raise NotReplayableError(
            f"{text!r} is not a call: {manifest.title}", hint=f"covalt-git chat log {chat.id}"
        )
    # The same error as for a commit that does not exist: a role must not learn that a hidden tool was called.
    if not engine.catalog.sees(call.tool_id):
        names = [branch.name for branch in chat.branches()]
        raise commit_names.UnknownCommitError(chat.id, text, names)
    if call.sandbox is None:
        raise NotReplayableError(
            f"{call.tool_id} never ran{f': {call.error}' if call.error else ' in a sandbox'}",
            hint=f"make the call instead: covalt-git call {chat.id} {call.tool_id}",
        )
    return manifest, call


@contextmanager
def _copy_on_branch(writer: Writer, base: str | None) -> Iterator[Copy]:
    """Yield the chat with the files of a commit in a temporary folder and on a new branch."""
    branch = branches.new_name(writer.chat, None, "replay")
    with copy_of(writer.chat, base, branch) as copy:
        if base is not None:  # otherwise the call creates the branch's first manifest
            branches.create(writer, branch, base)
        yield copy


def _run(
    engine: Engine,
    writer: Writer,
    call: PendingCall,
    target: Found,
    *,
    approve: Callable[[tuple[str, ...]], None],
    reason: str | None,
) -> CallOutcome:
    """Run the call; if it needs approval, first call ``approve`` with the reasons, which may raise."""
    reasons = engine.catalog.decide_call(target.tools, call.args).reasons
    if reasons:
        approve(reasons)
        approval = engine.ask(writer, call, target, reasons).approval
    else:
        outcome = engine.run(writer, call, target)
        if outcome.approval is None:
            return outcome
        # The tool's decorator requires approval, which is known only after the call has begun.
        approval = outcome.approval
        try:
            approve(approval.reasons)
        except CovaltError:
            writer.decide(approval, "expired", decided_by=engine.principal.id)
            raise
    assert approval is not None
    by = engine.principal.id
    writer.decide(approval, "approved", decided_by=by, decision_reason=reason)
    call = call.model_copy(update={"execution_id": approval.execution_id})
    return engine.run(writer, call, target, confirmed=True)


def _compare(
    copy: Copy, manifest: WorkspaceManifest, recorded: CallRecord, outcome: CallOutcome
) -> Replay:
    """Return the comparison of a recorded call with the outcome of its replay."""
    chat = copy.home
    assert outcome.call.post_manifest_id is not None  # it ran
    post = chat.manifest(outcome.call.post_manifest_id)
    replayed = post.record.call
    assert replayed is not None
    base = recorded.base or manifest.parent_id
    sources = () if base is None else (chat.manifest(base),)
    # A call that ran on a copy with other files than its parent changed none of them, and its commit has the files
    # that it returned.
    end = manifest if recorded.base is None else chat.manifest(recorded.base)
    returned = chat.files(manifest.id) if recorded.base is not None else {}
    folders_then, folders_after = (
        set(commit.record.workspace.empty_folders) for commit in (end, post)
    )
    answer = with_home_paths(_answer_of(replayed), copy, chat)
    return Replay(
        call_id=manifest.record.id,
        tool_id=recorded.tool_id,
        original_manifest_id=manifest.id,
        branch=copy.own_branch,
        manifest_id=post.id,
        differences=differences(_answer_of(recorded), answer),
        changes=tuple(
            change
            for change in chat.changes(end.id, post.id)
            if change.new is None or change.new != returned.get(change.path)
        ),
        empty_folders=tuple(sorted(folders_then ^ folders_after)),
        printed_the_same=recorded.output == with_home_paths(replayed.output, copy, chat),
        then=RanAs(toolset=recorded.toolset, sandbox=recorded.sandbox),
        now=RanAs(toolset=replayed.toolset, sandbox=replayed.sandbox),
        missing=tuple(note for commit in sources for note in commit.record.workspace.not_stored),
    )


def _answer_of(call: CallRecord) -> JsonObject:
    """Return the part of a call's outcome that is compared: status, result and error."""
    error = call.error and {"code": call.error.code, "message": call.error.message}
    return {"status": call.status, "result": call.result, "error": error}
