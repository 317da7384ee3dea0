"""Operations on the files of a toolset: read one, fix its misspelt keys, change its text, examples of a page.

A change runs with the next call, so only an admin with the server's own token, or the user of this machine, may make
it.  It is shown before it is made: ``dry_run`` returns the difference, the problems and the change of authority.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from covalt_git.authority import FactChange, compare, read_files
from covalt_git.authority.policy_problems import policy_problems
from covalt_git.errors import Problem, in_order
from covalt_git.git_store.objects import EXECUTABLE, FILE
from covalt_git.git_store.patches import file_patch
from covalt_git.manifests.fixes import fix_text
from covalt_git.manifests.toolset_files import MANIFEST, FileKind
from covalt_git.operations.bundles import find_visible_toolset
from covalt_git.operations.context import Context, ForbiddenError
from covalt_git.operations.namespace_problems import problems_across
from covalt_git.operations.registry import Result, ToolsetRequest, any_of, invalid_field, operation
from covalt_git.render.plan import plan
from covalt_git.system import atomic_write
from covalt_git.toolsets import file_changes
from covalt_git.toolsets.permissions import end_left_over, left_over
from covalt_git.toolsets.project_files import CheckedToolset, conflict_of, contested_claims
from covalt_git.toolsets.state_store import find_toolset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from covalt_git.authority import ProjectSnapshot
    from covalt_git.models.tool import Tool
    from covalt_git.toolsets.file_changes import ToolsetText
    from covalt_git.toolsets.toolset import Toolset

BASE = "The SHA-256 of the file's bytes that were read, in hex."
"""Description of the field ``base`` of a change."""

_MOST_CALLS = 5
"""Recent calls of a tool that a page can show."""

_LOCAL_CHANGE = "Change the toolset although it is imported, which can end its grants."


class GetToolsetFile(ToolsetRequest):
    """Request: a text file of a toolset."""

    path: str = Field(max_length=1000)


class FixToolset(ToolsetRequest):
    """Request: the toolset whose ``toolset.yaml`` is fixed."""

    model_config = any_of("base", dry_run=True)

    base: str | None = Field(
        None, max_length=64, description=f"{BASE}  Required unless ``dry_run`` is set."
    )
    dry_run: bool = Field(default=False, description="Return what would change; write nothing.")
    local_change: bool = Field(default=False, description=_LOCAL_CHANGE)


class UpdateToolsetFile(ToolsetRequest):
    """Request: a file and its new text."""

    path: str = Field(max_length=1000)
    content: str
    base: str = Field(max_length=64, description=BASE)
    dry_run: bool = Field(default=False, description="Return what would change; write nothing.")
    local_change: bool = Field(default=False, description=_LOCAL_CHANGE)


class ToolsetFileText(Result):
    """A text file of a toolset, exactly as it is, with the ``base`` of a change."""

    toolset_id: str
    path: str
    kind: FileKind
    text: str
    base: str = Field(description=BASE)
    problems: tuple[Problem, ...]
    fixable: int = Field(description="Number of its problems that fix_toolset fixes.")
    imported: bool = Field(description="Whether a change needs ``local_change``.")


class HandWrittenChange(Result):
    """A change of a hand-written file, with its effect."""

    base: str = Field(description=BASE)
    sha256: str = Field(description="Of the bytes after the change, in hex.")
    changed: bool = Field(description="Whether the new bytes differ.")
    written: bool = Field(description="False with ``dry_run``, and if nothing changed.")
    diff: str = Field(description="The change as a unified diff, for ``git apply``.")
    problems: tuple[Problem, ...] = Field(
        description="Those of the toolset, or of the file, after the change, and new ones in other files."
    )
    solved: int = Field(description="Number of problems that the change solves.")
    compared_with: Literal["files", "commit"] = Field(
        description="What the authority is compared with: the current files or, if these have errors, git's last commit."
    )
    grown: bool = Field(description="Whether the project permits more after the change.")
    authority: tuple[FactChange, ...] = Field(
        description="The permissions that the change gives and takes, also grants that it ends."
    )
    undo: str = Field(
        description="The command that restores the old file; empty if git's last commit has another one."
    )


class ToolsetFileChange(HandWrittenChange):
    """A change of a toolset's file."""

    toolset_id: str
    path: str
    imported: bool = Field(description="Whether the change needs ``local_change``.")
    left_over: tuple[str, ...] = Field(
        description="MCP servers that the change removes and that have a grant, which then permits nothing."
    )


class ToolsetFixed(ToolsetFileChange):
    """The fixed problems of a ``toolset.yaml``, with their old places, and the change."""

    fixed: tuple[Problem, ...]


class PageExample(Result):
    """A result of a tool that a page can show: of an example that states it, or of a recent call."""

    tool_id: str
    name: str = Field(description="Such as ``example 1`` or ``call ID``.")
    description: str
    data: Any = Field(description="The value of window.__TOOL_DATA__ in the page.")


class PageExamples(Result):
    """The results that a page of a toolset can show."""

    examples: tuple[PageExample, ...]


@operation(errors=(404, 409))
def get_toolset_file(context: Context, request: GetToolsetFile) -> ToolsetFileText:
    """Return a text file of a toolset with its problems, and the ``base`` of a change."""
    toolset = find_visible_toolset(context, request.toolset_id)
    current = file_changes.read_text(toolset, request.path)
    name = _name(toolset, request.path)
    return ToolsetFileText(
        toolset_id=toolset.id,
        path=request.path,
        kind=current.file.kind,
        text=current.text,
        base=current.sha256,
        problems=tuple(
            problem
            for problem in (*toolset.problems, *problems_across(context).get(toolset.id, ()))
            if problem.path == name
        ),
        fixable=len(fix_text(current.text, name).problems) if request.path == MANIFEST else 0,
        imported=toolset.state.imported,
    )


@operation(changes=True, errors=(404, 409), admin="change files of toolsets")
def fix_toolset(context: Context, request: FixToolset) -> ToolsetFixed:
    """Rename the misspelt keys of a toolset.yaml, as ``covalt-git validate --fix`` does; comments and layout stay.

    With ``dry_run``, it returns the difference and writes nothing.  If the file no longer has the SHA-256 ``base``,
    nothing is written and the answer is 409 ``moved``.
    """
    context.require(partial(_check_holder, context))
    if request.base is None and not request.dry_run:
        raise invalid_field("base", "required unless dry_run is true")
    toolset = find_visible_toolset(context, request.toolset_id)
    current = file_changes.read_text(toolset, MANIFEST)
    fixed = fix_text(current.text, _name(toolset, MANIFEST))
    change = _change(context, toolset, current, fixed.text, request)
    # The checks report some misspelt keys only after others are fixed.
    solved_count = max(change.solved, len(fixed.problems))
    return ToolsetFixed.of(change, fixed=fixed.problems, solved=solved_count)


@operation(changes=True, errors=(404, 409), admin="change files of toolsets")
def update_toolset_file(context: Context, request: UpdateToolsetFile) -> ToolsetFileChange:
    """Write a text file of a toolset as UTF-8, exactly as it is sent; its mode is kept.

    With ``dry_run``, it returns the problems and the change of authority, and writes nothing.  If the file no longer has
    the SHA-256 ``base``, nothing is written and the answer is 409 ``moved``.  The next call runs the new file, unless
    its grants have ended.
    """
    context.require(partial(_check_holder, context))
    if "\0" in request.content or len(request.content.encode()) > file_changes.MOST_EDITED:
        raise invalid_field(
            "content",
            f"a text without null characters, of at most {file_changes.MOST_EDITED >> 20} MiB, was expected",
        )
    toolset = find_visible_toolset(context, request.toolset_id)
    current = file_changes.read_text(toolset, request.path)
    return _change(context, toolset, current, request.content, request)


@operation(errors=(404, 409))
def list_page_examples(context: Context, request: GetToolsetFile) -> PageExamples:
    """List results that a page of a toolset can show: those of examples, then those of recent calls."""
    toolset = find_visible_toolset(context, request.toolset_id)
    file_changes.read_text(toolset, request.path)
    tools = [
        tool
        for tool in (toolset.tools if toolset.manifest else ())
        if tool.renderer is not None and tool.renderer.config.get("artifact") == request.path
    ]
    examples = [example for tool in tools for example in _expected(tool)]
    return PageExamples(
        examples=(*examples, *(call for tool in tools for call in _recent(context, tool)))
    )


def _expected(tool: Tool) -> Iterator[PageExample]:
    """Yield the examples of a tool that state their result."""
    for number, example in enumerate(tool.examples, 1):
        if "expected" not in example.model_fields_set:
            continue
        render_plan = plan(
            tool.renderer, args=example.args, result=example.expected, chat_id="example"
        )
        yield PageExample(
            tool_id=tool.tool_id,
            name=f"example {number}",
            description=example.description,
            data=render_plan.config.get("data") if render_plan is not None else None,
        )


def _recent(context: Context, tool: Tool) -> Iterator[PageExample]:
    """Yield the last calls of a tool that a page shows: most examples do not state their result."""
    index = context.chat_index()
    index.sync_chats()
    for chat_id, call_id in index.ended_calls(tool.tool_id, limit=_MOST_CALLS):
        row = index.call(chat_id, call_id) if context.chat_exists(chat_id) else None
        if row is None or row.post_manifest_id is None or row.status != "success":
            continue
        call = context.chat(chat_id).manifest(row.post_manifest_id).tool_call
        if call is None or call.render_plan is None or call.render_plan.renderer != "html":
            continue
        yield PageExample(
            tool_id=tool.tool_id,
            name=f"call {call_id}",
            description=f"a call in {chat_id}",
            data=call.render_plan.config.get("data"),
        )


def _check_holder(context: Context) -> None:
    """Refuse the holder of an issuer's access token, whatever its role: the change is code that runs on this machine."""
    if context.project.principal.token is not None:
        raise ForbiddenError(
            "the holder of an access token may not change files of toolsets",
            hint="use the server's own token, or an editor of the server's machine",
        )


def _name(toolset: Toolset, path: str) -> str:
    return f"toolsets/{toolset.id}/{path}"


def _change(
    context: Context,
    toolset: Toolset,
    current: ToolsetText,
    new_text: str,
    request: FixToolset | UpdateToolsetFile,
) -> ToolsetFileChange:
    """Compare a file with its new text, and write it unless the request is a dry run."""
    if request.base not in {None, current.sha256}:
        raise file_changes.moved(current.file.path)
    if not request.dry_run:
        file_changes.check_local_change(toolset, local_change=request.local_change)
    root, path, name = context.root, current.file.path, _name(toolset, current.file.path)
    content = new_text.encode()
    compared = _compared(context, toolset, path, current.text.encode(), content)
    old_problems, problems = compared.old_problems, compared.problems
    comparison = compare(compared.old, compared.new)
    mode = EXECUTABLE if current.file.executable else FILE
    old_keys = {key_of(problem) for problem in old_problems}
    # As the toolset's page lists them: the copy of one toolset has further ones, such as states of the others.
    listed = (*toolset.problems, *problems_across(context).get(toolset.id, ()))
    listed_keys = {key_of(problem) for problem in listed}
    folder = f"toolsets/{toolset.id}/"
    changed = new_text != current.text
    undo = file_changes.restoring_command(root, toolset.id, path, current.text.encode())
    if changed and not request.dry_run:
        file_changes.replace_text(
            root,
            toolset.id,
            path,
            content,
            base=current.sha256,
            local_change=request.local_change,
        )
        context.update_toolset_index()
        # The review has shown the toolset without these servers: one that comes back needs its grant again.
        end_left_over(find_toolset(root, toolset.id))
    return ToolsetFileChange(
        toolset_id=toolset.id,
        path=path,
        base=current.sha256,
        sha256=hashlib.sha256(content).hexdigest(),
        changed=changed,
        written=changed and not request.dry_run,
        diff=file_patch(name, (mode, current.text.encode()), (mode, content)).decode()
        if changed
        else "",
        problems=tuple(
            problem
            for problem in problems
            if problem.path.startswith(folder)
            or key_of(problem) in listed_keys
            or key_of(problem) not in old_keys
        ),
        # Also in files of other toolsets, whose pages list them.
        solved=solved(
            (problem for problem in (*listed, *compared.old_across) if key_of(problem) in old_keys),
            problems,
        ),
        compared_with="commit" if compared.is_of_commit else "files",
        grown=comparison.grown,
        authority=tuple(change for change in comparison.changes if change.verdict != "neutral"),
        imported=toolset.state.imported,
        undo=undo,
        left_over=_left_over(compared.new, toolset),
    )


def _left_over(new: ProjectSnapshot, old: Toolset) -> tuple[str, ...]:
    """Return the servers with a grant that the toolset has no longer after a change."""
    before = {grant.server for grant in left_over(old)}
    after = (grant.server for one in new.toolsets if one.id == old.id for grant in left_over(one))
    return tuple(sorted({*after} - before))


class _Compared(NamedTuple):
    """A project before and after a change.

    Attributes:
        old_across: the problems before the change that only a comparison with the other toolsets shows.
        is_of_commit: whether the permissions before are those of the last commit.
    """

    old: ProjectSnapshot
    new: ProjectSnapshot
    old_problems: tuple[Problem, ...]
    problems: tuple[Problem, ...]
    old_across: tuple[Problem, ...]
    is_of_commit: bool


def _compared(
    context: Context, toolset: Toolset, path: str, old_content: bytes, content: bytes
) -> _Compared:
    root, name = context.root, _name(toolset, path)
    with file_changes.copied_toolset(root, toolset.id) as copy:
        atomic_write.replace(copy / name, old_content)
        old = read_files(copy)
        old_across = _across(context, copy, old, toolset.id)
        old_problems = problems_in(copy, old)
        authority, is_of_commit = old, False
        # What a toolset with errors permits is not known, so a fix would seem to permit all that the toolset does.
        if not toolset.sound:
            with file_changes.at_last_commit(root, copy, toolset.id) as is_of_commit:
                authority = read_files(copy) if is_of_commit else old
        atomic_write.replace(copy / name, content)
        new = read_files(copy)
        across = _across(context, copy, new, toolset.id)
        problems = problems_in(copy, new)
    return _Compared(
        authority,
        new,
        _distinct(old_problems, old_across),
        _distinct(problems, across),
        old_across,
        is_of_commit,
    )


def _across(
    context: Context, copy: Path, snapshot: ProjectSnapshot, toolset_id: str
) -> tuple[Problem, ...]:
    """Return the namespaces that the toolset of a copy and another toolset declare, in the file of either."""
    changed = _of(snapshot, toolset_id)
    claimants = [
        CheckedToolset.of(changed).claimant if changed and claimant.id == toolset_id else claimant
        for claimant in context.toolset_index().claimants()
    ]
    # The copy has the lines of its toolset, and the project those of the others.
    return tuple(
        conflict_of(copy if claim.toolset_id == toolset_id else context.root, claim, owner).problem
        for claim, owner in contested_claims(context.root, claimants)
        if toolset_id in {claim.toolset_id, owner}
    )


def _of(snapshot: ProjectSnapshot, toolset_id: str) -> Toolset | None:
    return next((toolset for toolset in snapshot.toolsets if toolset.id == toolset_id), None)


def _distinct(problems: Iterable[Problem], across: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return problems with those across toolsets, each of which the copy of one toolset can have too."""
    return tuple({key_of(problem): problem for problem in (*across, *problems)}.values())


def problems_in(root: Path, snapshot: ProjectSnapshot) -> tuple[Problem, ...]:
    """Return the problems that ``validate`` reports for a copy of the project."""
    return in_order([*snapshot.problems, *policy_problems(root)])


def solved(old: Iterable[Problem], new: Iterable[Problem]) -> int:
    """Return how many problems a change solves.

    A problem with the same code in the same file, of something that was renamed, is the same one.
    """
    before = {key_of(problem): problem for problem in old}
    after = {key_of(problem): problem for problem in new}
    gone, fresh = (
        Counter((rows[key].path, rows[key].code) for key in rows.keys() - others.keys())
        for rows, others in ((before, after), (after, before))
    )
    return (gone - fresh).total()


def key_of(problem: Problem) -> tuple[str, str, str, str]:
    """Identify a problem without its line, which an edit above it moves."""
    return problem.path, problem.code, problem.item, problem.message
