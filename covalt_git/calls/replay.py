"""Replaying a call: once more, on the files it had then, and what came out differently.

It runs in a folder of its own, on a branch of its own (``replay-N``), so that the person's folder and
branch stay as they are; what it does is recorded as any call's is, and a process that dies over it
leaves an interrupted call there.  It is a call like others, too: whoever replays it has to be allowed
to make it, and where a person has to be asked, one has to approve it again.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.access import confirmation
from covalt_git.calls.approvals import MayNotApproveError
from covalt_git.calls.concurrent_reads import with_home_paths
from covalt_git.calls.engine import Request, version_of
from covalt_git.calls.preconditions import is_waived
from covalt_git.conversations import commit_names
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values.difference import Difference, differences
from covalt_git.models.calls import PendingCall
from covalt_git.names import new_id
from covalt_git.workspaces import branches, commits
from covalt_git.workspaces.chat import HEADS, ChatStore
from covalt_git.workspaces.switching import write_folder
from covalt_git.workspaces.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.calls.engine import Engine
    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.catalog.catalog import Found
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import Approval, ApprovalState, SandboxLevel, ToolsetVersion
    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.models.commit_record import CallRecord, PathNote

Keep = Literal["different", "always", "never"]
"""When the branch of a replay is kept."""

_FOLDER = "replay-"


class NotReplayableError(CovaltError):
    """What is to be replayed is no call that has run."""

    code = "not_replayable"
    http_status = 409


class AsksFirstError(CovaltError):
    """A person has to approve the call before it runs again; nothing ran.

    Attributes:
        reasons: why one is asked.
    """

    code = "asks_first"
    http_status = 409

    def __init__(self, call: PendingCall, reasons: tuple[str, ...], of: str) -> None:
        super().__init__(
            f"{call.tool_id} waits for a person: {', '.join(reasons)}",
            hint=f"approve it: covalt-git chat replay {call.chat_id} {of} --yes",
        )
        self.reasons = reasons


class Ran(NamedTuple):
    """How a call ran: which code, behind which walls."""

    toolset: ToolsetVersion
    sandbox: SandboxLevel | None


class Replay(NamedTuple):
    """What came of a call that was made once more.

    Attributes:
        call_id: the call that was replayed.
        tool_id: its tool.
        original_manifest_id: what the call made.
        branch: the branch that keeps the replay; None where it is not kept.
        manifest_id: what the replay made, if it is kept.
        differences: of the result, the status and the error, by JSON path.
        changes: the files that are others, from then to now.
        empty_folders: those that there were only then, or are only now.
        printed_the_same: whether it printed the same, which alone makes no difference.
        then: how it ran then.
        now: how it ran now.
        missing: what was in the folder then and in no manifest, so that the replay did not have it.
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
    then: Ran
    now: Ran
    missing: tuple[PathNote, ...]

    @property
    def same(self) -> bool:
        """Whether the result and the files are the same."""
        return not (self.differences or self.changes or self.empty_folders)


@dataclass(slots=True)
class _Elsewhere(ChatStore):
    """A chat as a call sees it that runs in another folder and on another branch of the same store."""

    home: ChatStore
    on: str

    def __post_init__(self) -> None:
        """Share the store, which whoever opened it closes."""
        self.store = self.home.store
        self.records = self.home.records
        self.foreign = self.home.foreign

    def active_branch(self) -> str:
        """Return the branch of the replay."""
        return self.on

    def head(self) -> str | None:
        """Return the manifest of that branch."""
        return self.store.read_ref(HEADS + self.on)


def replay(
    engine: Engine, chat: ChatStore, text: str, *, approve: bool = False, keep: Keep = "different"
) -> Replay:
    """Run a recorded call again on its own files; ``text`` names it as it names a manifest.

    Raises:
        UnknownNameError: when there is no such call, or none that exists for the principal.
        NotReplayableError: when it never ran.
        AsksFirstError: when a person has to be asked, and ``approve`` is false; nothing ran.
        MayNotApproveError: when the principal may not approve it; nothing ran.
        CovaltError: and what else :meth:`Engine.call` raises.
    """
    manifest, recorded = _recorded(engine, chat, text)
    base = recorded.base or manifest.parent_id
    request = Request(recorded.tool_id, recorded.args)
    engine.check(request)
    with engine.writing(chat) as writer, _elsewhere(writer, base) as there:
        # Again, because the toolset may have been edited while this waited for the chat.
        found = engine.check(request)
        call = PendingCall(
            id=new_id(),
            chat_id=chat.id,
            branch=there.on,
            tool_id=recorded.tool_id,
            args=recorded.args,
            status="running",
            by=engine.principal.id,
            role=engine.principal.role,
            started_at=commits.now(),
            base=base,
            toolset=version_of(found),
        )

        def check(reasons: tuple[str, ...]) -> None:
            if not approve:
                raise AsksFirstError(call, reasons, text)
            _check_may_approve(engine, found)

        kept = False
        again = Writer(there, writer.by)
        try:
            outcome = _run(engine, again, call, found, approved_by=check)
            done = _compared(there, manifest, recorded, outcome)
            kept = keep == "always" or (keep == "different" and not done.same)
        finally:
            if not kept:
                again.drop_call(call.id)
                chat.store.swap_ref(HEADS + there.on, there.head(), None)
        return done if kept else done._replace(branch=None, manifest_id=None)


def _recorded(engine: Engine, chat: ChatStore, text: str) -> tuple[WorkspaceManifest, CallRecord]:
    """Return a call that has run, as far as it exists for the principal."""
    manifest = chat.manifest(commit_names.resolve(chat, text))
    call = manifest.record.call
    if call is None:
        raise NotReplayableError(
            f"{text!r} is no call: {manifest.title}", hint=f"covalt-git chat log {chat.id}"
        )
    if not engine.catalog.sees(call.tool_id):
        raise UnknownNameError("call", text, (), list_with=f"covalt-git chat log {chat.id}")
    if call.sandbox is None:
        raise NotReplayableError(
            f"{call.tool_id} never ran: {call.error}",
            hint=f"make the call instead: covalt-git call {chat.id} {call.tool_id}",
        )
    return manifest, call


@contextmanager
def _elsewhere(writer: Writer, base: str | None) -> Iterator[_Elsewhere]:
    """Yield the chat with the files of a manifest in a folder, and on a branch, of their own."""
    chat = writer.chat
    for left in chat.folder.glob(f"{_FOLDER}*"):
        shutil.rmtree(left, ignore_errors=True)  # by a process that died while it held the lock
    state = chat.state(base)
    scratch = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=chat.folder))
    try:
        there = _Elsewhere(
            chat.id, scratch, chat.config, chat, branches.new_name(chat, None, "replay")
        )
        write_folder(chat.store, state, there.workspace)
        if base is not None:  # else the call itself makes the branch's first manifest
            branches.create(writer, there.on, base)
        yield there
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run(
    engine: Engine,
    writer: Writer,
    call: PendingCall,
    found: Found,
    *,
    approved_by: Callable[[tuple[str, ...]], None],
) -> CallOutcome:
    """Run the call; where a person has to be asked, once ``approved_by`` lets the reasons pass."""
    reasons = confirmation(engine.config, found.tool, call.args)
    if reasons:
        approved_by(reasons)
        asked = engine.ask(writer, call, found.tool, reasons).approval
    else:
        waived = is_waived(engine.config, found.tool, call.args)
        outcome = engine.run(writer, call, found, confirmed=waived)
        if outcome.approval is None:
            return outcome
        asked = outcome.approval  # its decorator asks, which only running it could tell
        try:
            approved_by(asked.reasons)
        except CovaltError:
            _settle(writer, asked, "expired", by=engine.principal.id)
            raise
    assert asked is not None
    _settle(writer, asked, "approved", by=engine.principal.id)
    call = call.model_copy(update={"execution_id": asked.execution_id})
    return engine.run(writer, call, found, confirmed=True)


def _check_may_approve(engine: Engine, found: Found) -> None:
    if not engine.catalog.may_approve(found.tool).allowed:
        raise MayNotApproveError(engine, found.tool)


def _settle(writer: Writer, approval: Approval, state: ApprovalState, *, by: str) -> None:
    changes = {"state": state, "decided_by": by, "decided_at": commits.now()}
    writer.put_approval(approval.model_copy(update=changes), before=approval)


def _compared(
    there: _Elsewhere, manifest: WorkspaceManifest, recorded: CallRecord, outcome: CallOutcome
) -> Replay:
    """Return what differs between a recorded call and the outcome of its replay."""
    chat = there.home
    assert outcome.call.post_manifest_id is not None  # it ran
    post = chat.manifest(outcome.call.post_manifest_id)
    again = post.record.call
    assert again is not None
    base = recorded.base or manifest.parent_id
    before = () if base is None else (chat.manifest(base),)
    # A call that read other files than those it was recorded on changed none of them.
    end = manifest if recorded.base is None else chat.manifest(recorded.base)
    then, now = (set(one.record.workspace.empty_folders) for one in (end, post))
    said = with_home_paths(_answer_of(again), there, there.home)
    return Replay(
        call_id=manifest.record.id,
        tool_id=recorded.tool_id,
        original_manifest_id=manifest.id,
        branch=there.on,
        manifest_id=post.id,
        differences=differences(_answer_of(recorded), said),
        changes=tuple(chat.changes(end.id, post.id)),
        empty_folders=tuple(sorted(then ^ now)),
        printed_the_same=recorded.output == with_home_paths(again.output, there, there.home),
        then=Ran(recorded.toolset, recorded.sandbox),
        now=Ran(again.toolset, again.sandbox),
        missing=tuple(note for one in before for note in one.record.workspace.not_stored),
    )


def _answer_of(call: CallRecord) -> JsonObject:
    """Return what a call answered, as far as that is to be the same when it is made again."""
    error = call.error and {"code": call.error.code, "message": call.error.message}
    return {"status": call.status, "result": call.result, "error": error}
