"""Operations on merges: merge a branch, list conflicts and resolve them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import Base64Bytes, Field

from covalt_git.errors import CovaltError
from covalt_git.merging import branch_merge, resolving
from covalt_git.merging.branch_merge import MergeStatus
from covalt_git.merging.line_merge import HunkDecision
from covalt_git.merging.merge_conflicts import Choice, Choices, Hunks
from covalt_git.models.commit_record import ConflictKind, MergeDecision, MergeSide, WorkspaceNotes
from covalt_git.operations.chats.workspace_files import FileDiff, diff_of
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    ChatRequest,
    EquivalentCall,
    InvalidRequestError,
    PathText,
    Request,
    Result,
    operation,
)
from covalt_git.operations.results import Change, Notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.merging.branch_merge import Merge
    from covalt_git.models.commit_record import MergeConflict
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.snapshot import Snapshot


_ABOUT: dict[ConflictKind, str] = {
    "text": "both changed the same lines",
    "binary": "both changed this binary file",
    "add_add": "both added it, with different content",
    "modify_delete": "one deleted it, the other changed it",
    "link": "both changed where the link leads",
    "type": "it is a file on one of them, a link on the other",
    "file_folder": "it is a file on one of them, a folder on the other",
}

_LINES = (
    "The conflicting lines with those of the base and some context, in git's style diff3; null: a side is "
    "deleted, not text, or larger than 512 KiB."
)
TEXT_OF = "The path of an unresolved conflict that gets its ``text``, to edit it."
_TEXT = (
    "The merged text with git's conflict markers, if the request's ``text_of`` is the path. If a side deleted the file: the "
    "text of the other side. null if a side is not text in UTF-8, or larger than 512 KiB."
)
_HUNKS = "The decision about each hunk, in order, with the decision ``hunks``; the other lines are merged."
_VERSIONS = (
    "The conflict's ``versions`` when it was shown: the decision is refused if a version has changed since; null: it "
    "is about the current versions."
)
_CONTENT = "The resolved content of the file."
_BASE64 = "The resolved content as base64, if it is not UTF-8; instead of ``content``."

_BASE64_PATTERN = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

MOST_PATCHES = 2_000
"""Maximum number of files with a patch in one answer."""

UndoDecision = Literal["ours", "theirs", "union"]


class Resolution(Request):
    """The resolution of one conflict."""

    path: str = Field(max_length=4096)
    decision: MergeDecision | Literal["hunks"] = Field(
        description="ours: the active branch's version; theirs: the other; union: the lines of both; "
        "both: keep both as files; hunks: a side, or the lines of both, for each hunk; content: the text in "
        "``content``."
    )
    hunks: tuple[HunkDecision, ...] = Field((), max_length=10_000, description=_HUNKS)
    versions: str | None = Field(None, max_length=64, description=_VERSIONS)
    content: str | None = Field(None, description=_CONTENT)
    content_base64: Base64Bytes | None = Field(
        None, description=_BASE64, json_schema_extra={"pattern": _BASE64_PATTERN}
    )


class UndoResolution(Request):
    """The resolution of one conflict of an undo."""

    path: str = Field(max_length=4096)
    decision: Literal[UndoDecision, "hunks", "content"] = Field(
        description="ours: the version of the branch stays; theirs: the version from before the call, without later"
        " changes of the file; union: the lines of both; hunks: a side, or the lines of both, for each hunk; content:"
        " the text in ``content``."
    )
    hunks: tuple[HunkDecision, ...] = Field((), max_length=10_000, description=_HUNKS)
    versions: str | None = Field(None, max_length=64, description=_VERSIONS)
    content: str | None = Field(None, description=_CONTENT)
    content_base64: Base64Bytes | None = Field(
        None, description=_BASE64, json_schema_extra={"pattern": _BASE64_PATTERN}
    )


class MergeBranch(ChatRequest):
    """A branch to merge into the active one."""

    branch: str = Field(max_length=200)
    message: str = Field("", max_length=500, description="The subject of the merge.")
    conflicts: Literal["ours", "theirs", "union", "both"] | None = Field(
        None,
        description="The resolution of all conflicts that are not in ``resolutions``; null: such a "
        "conflict stops the merge.",
    )
    resolutions: tuple[Resolution, ...] = Field((), max_length=1000)
    fast_forward: bool = Field(
        default=True,
        description="Whether to fast-forward if that is possible, instead of a merge commit.",
    )
    again: bool = Field(
        default=False,
        description="Whether to merge again what was merged before, and taken back by an undo or restore.",
    )
    dry_run: bool = Field(default=False, description="Return the result without merging.")
    text_of: str | None = Field(
        None, max_length=4096, description=f"{TEXT_OF} Only with ``dry_run``."
    )
    patches: int = Field(
        0,
        ge=0,
        le=MOST_PATCHES,
        description="Maximum number of changed files with a patch. Only with ``dry_run``.",
    )


class ListConflicts(ChatRequest):
    """A chat whose conflicts to list."""

    text_of: str | None = Field(None, max_length=4096, description=TEXT_OF)


class ResolveConflict(ChatRequest):
    """A conflict of an earlier merge, or one that stopped the last merge; and its resolution."""

    path: str = Field(max_length=4096, description="Its path, or that of the other version.")
    decision: Literal["ours", "theirs", "union", "content", "hunks"]
    hunks: tuple[HunkDecision, ...] = Field((), max_length=10_000, description=_HUNKS)
    versions: str | None = Field(None, max_length=64, description=_VERSIONS)
    content: str | None = Field(None, description=_CONTENT)
    content_base64: Base64Bytes | None = Field(
        None, description=_BASE64, json_schema_extra={"pattern": _BASE64_PATTERN}
    )


class ConflictHunk(Result):
    """Adjacent lines that both sides changed differently."""

    line: int = Field(description="The number of the first line on the active branch.")
    base: str
    ours: str
    theirs: str
    versions: str = Field(
        description="An id of the lines of the three sides, also if they are not valid UTF-8."
    )


class ConflictHunks(Result):
    """The hunks of a file in conflict."""

    hunks: tuple[ConflictHunk, ...]
    merged: int = Field(description="The number of changes without a conflict, which are merged.")
    versions: str = Field(description="An id of the three versions.")


class Conflict(Result):
    """A path that both branches changed differently."""

    path: PathText
    kind: ConflictKind
    deleted: MergeSide | None = Field(description="Which side deleted it.")
    about: str = Field(description="A description of the conflict.")
    decision: MergeDecision | None = Field(description="null: it is not resolved.")
    decisions: tuple[MergeDecision, ...] = Field(
        description="The possible decisions, besides ``content``."
    )
    saved_as: PathText | None = Field(description="The path of the other version.")
    lines: str | None = Field(description=f"{_LINES} null also if it is resolved.")
    hunks: ConflictHunks | None = Field(
        None, description="null if ``lines`` is, or if the hunks have more than 400 lines."
    )
    text: str | None = Field(None, description=_TEXT)


class Merged(Result):
    """The result of a merge or of its dry run; with the status ``conflicts``, nothing has changed."""

    status: MergeStatus
    branch: str
    into: str
    base_id: str | None = Field(description="The merge base.")
    manifest_id: str | None = Field(
        description="The last commit of the active branch; null if it is not made."
    )
    changes: tuple[Change, ...]
    patches: tuple[FileDiff, ...] = Field(
        (),
        description="The differences that the merge would make, if the request asks for ``patches``.",
    )
    truncated: bool = Field(
        default=False, description="Whether differences are left out because of the limits."
    )
    conflicts: tuple[Conflict, ...]
    workspace: Notes
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")
    taken_back_by: str | None = Field(
        description="The undo or restore because of which the files lack changes of the branch that were "
        "merged before; ``again`` merges them."
    )
    again: bool = Field(description="Whether such changes are merged again.")


class WaitingConflict(Result):
    """An unresolved conflict of a merge that kept both versions."""

    path: PathText
    kind: ConflictKind
    deleted: MergeSide | None = Field(description="Which side deleted it.")
    about: str = Field(description="A description of the conflict.")
    decisions: tuple[Literal["ours", "theirs", "union"], ...] = Field(
        description="The possible decisions, besides ``content``."
    )
    saved_as: PathText = Field(description="The path of the other version.")
    branch: str = Field(description="The branch that was merged.")
    manifest_id: str = Field(description="The merge commit.")
    base_id: str | None = Field(description="The merge base.")
    lines: str | None = Field(description=_LINES)
    hunks: ConflictHunks | None = Field(
        description="null if ``lines`` is, or if the hunks have more than 400 lines."
    )
    text: str | None = Field(description=_TEXT)


class ConflictList(Result):
    """The unresolved conflicts, by path, and those of a merge that stopped."""

    conflicts: tuple[WaitingConflict, ...]
    stopped: Merged | None = Field(
        description="A new preview of the last merge into the active branch, if conflicts stopped it."
    )


class ConflictResolved(Result):
    """The commit of the resolution, and the remaining conflicts."""

    branch: str = Field(description="The active branch.")
    manifest_id: str
    changes: tuple[Change, ...]
    conflicts: tuple[WaitingConflict, ...]
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")


def written(resolutions: Iterable[Resolution | UndoResolution]) -> Iterator[EquivalentCall]:
    """Yield calls that write the texts of resolutions."""
    for resolution in resolutions:
        for content in _contents(resolution):
            # A text of the request itself is a write: a role that may only restore could put any text into a file by
            # it (tests/security/test_operations_by_role.py).
            text = content.decode(errors="replace")
            yield EquivalentCall("workspace:write_file", {"path": resolution.path, "content": text})


def _written(request: MergeBranch) -> Iterator[EquivalentCall]:
    return written(request.resolutions)


@operation(changes=True, errors=(404, 409), needs=("workspace:restore",), calls=_written)
def merge_branch(context: Context, request: MergeBranch) -> Merged:
    """Merge a branch into the active one; uncommitted changes are committed first.

    If both branches changed the same lines and the request does not resolve this conflict, nothing is merged: the
    ``status`` is ``conflicts``, and ``resolve_conflict`` can make the merge.  With ``both``, the active
    branch's file is kept, and the other version is added as a file until ``resolve_conflict`` resolves it.
    """
    chat = context.chat(request.chat_id)
    rest = {None: Choice(request.conflicts)} if request.conflicts else {}
    choices: Choices = rest | {
        resolution.path: choice_of(resolution) for resolution in request.resolutions
    }
    if request.dry_run:
        with chat.scan_in_memory() as snapshot:
            merge = branch_merge.preview(
                chat,
                snapshot,
                request.branch,
                choices,
                fast_forward=request.fast_forward,
                again=request.again,
                text_of=request.text_of,
            )
            check_reading(context, merge.texts)
            patches = request.patches
            check_reading(context, (change.path for change in merge.changes[:patches]))
            return _merged(chat, merge, WorkspaceNotes(), patches)
    with context.writing(chat) as writer:
        merge = branch_merge.merge(
            writer,
            request.branch,
            choices,
            message=request.message,
            fast_forward=request.fast_forward,
            again=request.again,
            # The role chooses the branch's name, which becomes a part of this path
            # (test_a_rule_about_a_path_holds_for_the_other_version_of_a_conflict).
            check_path=partial(_check_path, context),
        )
    return _merged(chat, merge, writer.fresh_notes())


@operation(errors=(404,))
def list_conflicts(context: Context, request: ListConflicts) -> ConflictList:
    """List the unresolved conflicts of merges, and those that stopped the last merge."""
    chat = context.chat(request.chat_id)
    with chat.scan_in_memory() as scan:
        conflicts = waiting_conflicts(chat, scan, request.text_of)
    stopped = _stopped(chat, request.text_of)
    unresolved: list[Conflict | WaitingConflict] = [*conflicts]
    unresolved += stopped.conflicts if stopped else ()
    for conflict in unresolved:
        if conflict.text is not None:
            check_reading(context, filter(None, (conflict.path, conflict.saved_as)))
    return ConflictList(conflicts=conflicts, stopped=stopped)


def _resolved(request: ResolveConflict) -> Iterator[EquivalentCall]:
    """Yield a call that writes the file; the other version may have changed since the merge, and be any text."""
    # No arguments, so that any rule about write_file counts
    # (test_a_changed_other_version_is_not_put_into_a_file_that_a_rule_keeps).
    if request.decision != "ours":
        yield EquivalentCall("workspace:write_file", None)


@operation(changes=True, errors=(404, 409), needs=("workspace:restore",), calls=_resolved)
def resolve_conflict(context: Context, request: ResolveConflict) -> ConflictResolved:
    """Resolve a conflict: the file gets the chosen version, and the file with the other version is deleted.

    If the conflict stopped the last merge into the active branch, this makes that merge; its other conflicts
    stay unresolved, with both versions as files.
    """
    chat = context.chat(request.chat_id)
    choice = choice_of(request)
    with context.writing(chat) as writer:
        changes = resolving.resolve(
            writer, request.path, choice, check_path=partial(_check_path, context)
        )
    head = chat.head()
    assert head is not None  # the resolution is a commit
    with chat.scan_in_memory() as scan:
        conflicts = waiting_conflicts(chat, scan)
    return ConflictResolved(
        branch=chat.active_branch(),
        manifest_id=head,
        changes=changes,
        conflicts=conflicts,
        notes=writer.fresh_notes(),
    )


def check_reading(context: Context, paths: Iterable[str]) -> None:
    """Check that no rule denies to read files whose text is returned as a whole."""
    for path in paths:
        context.require_reading("workspace:read_file", {"path": path})


def _check_path(context: Context, path: str) -> None:
    """Check that the role may write a file at the path where the other version of a conflict is saved."""
    context.require_tool("workspace:write_file", {"path": path})


def _stopped(chat: ChatStore, text_of: str | None) -> Merged | None:
    """Return a new preview of the merge that conflicts stopped; None if it no longer has conflicts."""
    merge = branch_merge.stopped(chat)
    if merge is None:
        return None
    try:
        with chat.scan_in_memory() as snapshot:
            preview = branch_merge.preview(
                chat, snapshot, merge.branch, again=merge.again, text_of=text_of
            )
    except CovaltError:  # its branch is deleted, for example
        return None
    return _merged(chat, preview, WorkspaceNotes()) if preview.status == "conflicts" else None


def waiting_conflicts(
    chat: ChatStore, scan: Snapshot, text_of: str | None = None
) -> tuple[WaitingConflict, ...]:
    """Return the unresolved conflicts in a scan of a chat's workspace; the one at ``text_of`` with its text."""
    ours = chat.active_branch()
    return tuple(
        WaitingConflict.of(
            conflict,
            about=about_conflict(conflict, ours, conflict.branch),
            decisions=resolving.possible(chat, conflict, scan.tree),
            lines=resolving.lines(chat, conflict, scan.tree),
            hunks=hunks_of(resolving.hunks(chat, conflict, scan.tree)),
            text=decoded(resolving.text(chat, conflict, scan.tree))
            if text_of in {conflict.path, conflict.saved_as}
            else None,
        )
        for conflict in resolving.waiting(chat, chat.head(), scan.tree)
    )


def choice_of(request: Resolution | ResolveConflict | UndoResolution) -> Choice:
    """Return the decision of a request about one conflict.

    Raises:
        InvalidRequestError: if a decision lacks its content or hunks, or another decision has them.
    """
    contents = _contents(request)
    if len(contents) != (request.decision == "content"):
        raise InvalidRequestError(
            "pass one content with the decision 'content', and none with other decisions"
        )
    if bool(request.hunks) != (request.decision == "hunks"):
        raise InvalidRequestError(
            "pass a decision about each hunk with the decision 'hunks', and none with other decisions"
        )
    # The record of the merge has the format of older versions: the text with decisions about hunks is content.
    decision = "content" if request.decision == "hunks" else request.decision
    content = contents[0] if contents else b""
    return Choice(decision, content, request.hunks, request.versions)


def hunks_of(found: Hunks | None) -> ConflictHunks | None:
    """Return the hunks of a conflict as a result has them."""
    if found is None:
        return None
    hunks = (
        ConflictHunk(
            line=hunk.line,
            **{
                side: b"".join(getattr(hunk, side)).decode(errors="replace")
                for side in ("base", "ours", "theirs")
            },
            versions=hunk.versions,
        )
        for hunk in found.hunks
    )
    return ConflictHunks(hunks=tuple(hunks), merged=found.merged, versions=found.versions)


def decoded(text: bytes | None) -> str | None:
    """Return a text; None if it is not UTF-8, because it could not be sent back unchanged."""
    try:
        return None if text is None else text.decode()
    except UnicodeDecodeError:
        return None


def _contents(request: Resolution | ResolveConflict | UndoResolution) -> list[bytes]:
    """Return the content of a resolution; more than one is an error of the request."""
    text = None if request.content is None else request.content.encode()
    return [content for content in (text, request.content_base64) if content is not None]


def about_conflict(conflict: MergeConflict, ours: str, theirs: str) -> str:
    """Describe a conflict between two branches of these names."""
    if conflict.deleted is not None:
        without, changed = (ours, theirs) if conflict.deleted == "ours" else (theirs, ours)
        return f"{without} deleted it, {changed} changed it"
    return _ABOUT[conflict.kind]


def _merged(chat: ChatStore, merge: Merge, fresh: WorkspaceNotes, patches: int = 0) -> Merged:
    diff = diff_of(chat, merge.changes, patches) if patches else None
    return Merged.of(
        merge,
        patches=() if diff is None else diff.changes,
        truncated=diff is not None and diff.truncated,
        conflicts=tuple(
            Conflict.of(
                conflict,
                about=about_conflict(conflict, merge.into, merge.branch),
                decisions=merge.possible.get(conflict.path, ()),
                lines=merge.lines.get(conflict.path),
                hunks=hunks_of(merge.hunks.get(conflict.path)),
                text=decoded(merge.texts.get(conflict.path)),
            )
            for conflict in merge.conflicts
        ),
        workspace=merge.notes,
        notes=fresh,
    )
