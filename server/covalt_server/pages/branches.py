"""Page actions on branches and chats: restore, undo, merge, rename, fork, delete."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from flask import Blueprint, flash, make_response, render_template, request

from covalt_git.errors import CovaltError
from covalt_git.operations.chats import (
    branches,
    call_undos,
    chats,
    manifests,
    merges,
    workspace_edits,
)
from covalt_server import request_context
from covalt_server.forms.resolutions import Chosen, check_hunks, check_newest, undecided
from covalt_server.pages import layout
from covalt_server.pages.chats import diff_of
from covalt_server.pages.merged_meanwhile import merged_meanwhile
from covalt_server.pages.workspace import with_breaks_of
from covalt_server.render import code, differences, previews
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from werkzeug.wrappers import Response

    from covalt_git.operations.chats.call_undos import CallUndone
    from covalt_git.operations.chats.merges import (
        Conflict,
        ConflictList,
        Merged,
        WaitingConflict,
    )

pages = Blueprint("branches", __name__)

CHOICE = "choice:"
"""Prefix of the name of a field that resolves a conflict; the path follows."""

_NUMBER = re.compile(r"[0-9]{1,6}")
_MARKER = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
_HUNK = re.compile(
    r"^<{7} [^\n]*\n(?P<ours>.*?)^={7}\r?\n(?P<theirs>.*?)^>{7} [^\n]*(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)


_EDIT_BY_COMMAND = "covalt-git chat resolve prints it with --markers, and takes it with --with FILE"
_EDIT_AFTER_UNDO = "choose a version, and edit the file after the undo"

_OUTCOMES = {
    "merged": "Merged {branch} into {into}.",
    "fast_forward": "Fast-forwarded {into} to {branch}.",
}


@pages.post("/chats/<chat_id>/restore")
def restore(chat_id: str) -> Response:
    """Restore all files, or the file at ``path``, from a commit."""
    path = request.form.get("path")
    manifest = request.form.get("manifest", "")
    outcome = ask(
        workspace_edits.restore_workspace,
        chat_id=chat_id,
        manifest=manifest,
        paths=(path,) if path else (),
        on_branch=request.form.get("branch") or None,
    )
    message = (
        f"Restored in a new commit on {outcome.branch}."
        if outcome.made
        else "The files already match that commit."
    )
    if outcome.hint:
        flash(outcome.hint)
    if path:
        return layout.back("workspace.file", message, chat_id=chat_id, path=path)
    return layout.back("conversation.chat", message, chat_id=chat_id)


@pages.get("/chats/<chat_id>/undo")
def undo_preview(chat_id: str) -> str:
    """Show which change an undo takes back."""
    plan = ask(workspace_edits.undo_change, chat_id=chat_id, dry_run=True)
    row, old, new = None, "HEAD", ""
    if plan.undoes is not None:
        row = ask(manifests.get_workspace_manifest, chat_id=chat_id, manifest=plan.undoes)
        old, new = row.parents[0] if row.parents else "", row.id
    return render_template(
        "undo_change.html",
        chat_id=chat_id,
        plan=plan,
        row=row,
        diff=diff_of(chat_id, old, new),
        patch=differences.DiffRenderer(),
    )


@pages.post("/chats/<chat_id>/undo")
def undo(chat_id: str) -> Response:
    """Undo the last change of the files; refused if it is another one than the preview showed."""
    commit = request.form.get("commit") or None
    outcome = ask(workspace_edits.undo_change, chat_id=chat_id, commit=commit)
    if outcome.hint:
        flash(outcome.hint)
    return layout.back("conversation.chat", "Undone in a new commit.", chat_id=chat_id)


@pages.post("/chats/<chat_id>/redo")
def redo(chat_id: str) -> Response:
    ask(workspace_edits.redo_change, chat_id=chat_id)
    return layout.back("conversation.chat", "Redone in a new commit.", chat_id=chat_id)


@pages.get("/chats/<chat_id>/merge")
def merge_preview(chat_id: str) -> str:
    """Show the result of a merge before it is made, with a choice for each conflict."""
    preview = ask(
        merges.merge_branch,
        chat_id=chat_id,
        branch=request.args.get("branch", ""),
        again="again" in request.args,
        dry_run=True,
        patches=_patches(),
    )
    return _merge_page(chat_id, preview)


@pages.post("/chats/<chat_id>/merge")
def merge(chat_id: str) -> Response | str:
    """Merge a branch into the active one, with the form's resolutions of conflicts.

    If the merge is refused, show the form again with the reason and the choices, which would be lost otherwise.
    """
    form = request.form
    branch, again = form.get("branch", ""), "again" in form
    fields = {"chat_id": chat_id, "branch": branch, "again": again}
    choices = {path: _chosen(path, decision) for path, decision in _choices().items()}
    edited = form.get("edit")

    def planned(text_of: str | None = None) -> Merged:
        return ask(merges.merge_branch, **fields, dry_run=True, text_of=text_of)

    if (plan := planned()).status == "already_merged":
        return merged_meanwhile(chat_id, plan, has_choices=bool(choices))
    choices = _compared(choices, planned)
    if edited is not None:
        return _merge_page(chat_id, planned(), _editing(choices, planned(edited), edited))
    try:
        for path, choice in choices.items():
            if choice.decision == "content":
                choices[path] = _with_breaks(choice, path, planned(path).conflicts)
        check_newest(choices)
        check_hunks(choices, planned().conflicts)
        decisions = [{"path": path} | choice.resolution() for path, choice in choices.items()]
        if form.get("step") == "show":
            result = ask(
                merges.merge_branch,
                **fields,
                resolutions=decisions,
                dry_run=True,
                patches=_patches(),
            )
            return _merge_page(chat_id, planned(), choices, result=result)
        outcome = ask(merges.merge_branch, **fields, resolutions=decisions)
    except CovaltError as error:
        # Another time, because a change may have come since then.
        choices = _compared(choices, planned)
        return make_response(_merge_page(chat_id, planned(), choices, error), error.http_status)
    if outcome.status == "already_merged":
        return merged_meanwhile(chat_id, outcome, has_choices=bool(choices))
    if outcome.status == "conflicts":  # new conflicts since the preview, or one without a choice
        return _merge_page(chat_id, outcome, choices, undecided(outcome.conflicts, choices))
    if any(conflict.decision == "both" for conflict in outcome.conflicts):
        count = sum(conflict.decision == "both" for conflict in outcome.conflicts)
        which = "1 conflict is" if count == 1 else f"{count} conflicts are"
        flash(f"Merged {outcome.branch} into {outcome.into}, but {which} open.", "warn")
        return layout.back("branches.conflicts", chat_id=chat_id)
    message = _OUTCOMES[outcome.status].format(branch=outcome.branch, into=outcome.into)
    return layout.back("conversation.chat", message, chat_id=chat_id)


@pages.get("/chats/<chat_id>/calls/<call_id>/undo")
def undo_call_preview(chat_id: str, call_id: str) -> str:
    """Show what an undo of a call would change on a branch, with a choice for each conflict."""
    branch = request.args.get("branch") or None
    return _undo_page(chat_id, _undo_call(chat_id, call_id, branch, dry_run=True))


@pages.post("/chats/<chat_id>/calls/<call_id>/undo")
def undo_call(chat_id: str, call_id: str) -> Response | str:
    """Undo a call on the branch that the preview showed, or show what the form's choices change.

    With a conflict that has no choice, show the choices again, also if the conflict is new since then.
    """
    form = request.form
    branch, edited, step = form.get("branch") or None, form.get("edit"), form.get("step")
    choices = {path: _chosen(path, decision) for path, decision in _choices().items()}

    def planned(text_of: str | None = None) -> CallUndone:
        return _undo_call(chat_id, call_id, branch, dry_run=True, text_of=text_of)

    choices = _compared(choices, planned)
    if step == "choose":
        return _undo_page(chat_id, planned(), choices)
    try:
        if edited is not None:
            choices = _editing(choices, planned(edited), edited, _EDIT_AFTER_UNDO)
            return _undo_page(chat_id, planned(), choices)
        for path, choice in choices.items():
            if choice.decision == "content":
                choices[path] = _with_breaks(choice, path, planned(path).conflicts)
        check_newest(choices)
        check_hunks(choices, planned().conflicts)
        decisions = [{"path": path} | choice.resolution() for path, choice in choices.items()]
        outcome = _undo_call(
            chat_id, call_id, branch, resolutions=decisions, dry_run=step == "show"
        )
    except CovaltError as error:
        choices = _compared(choices, planned)
        return make_response(_undo_page(chat_id, planned(), choices, error), error.http_status)
    if outcome.status == "conflicts":
        return _undo_page(chat_id, planned(), choices, undecided(outcome.conflicts, choices))
    if step == "show":
        return _undo_page(chat_id, outcome, choices, is_shown=True)
    if outcome.status == "undone":
        message = f"Undone in a new commit on {outcome.branch}."
        return layout.back("conversation.chat", message, chat_id=chat_id)
    # Not in green: the user asked for an undo, and no file has changed.
    kept = "Nothing was changed: you kept the later lines."
    gone = f"Nothing to undo: {outcome.branch} no longer has the changes of this call."
    flash(kept if outcome.status == "kept" else gone, "warn")
    return layout.back("conversation.chat", chat_id=chat_id)


@pages.get("/chats/<chat_id>/conflicts")
def conflicts(chat_id: str) -> str:
    """List the unresolved conflicts of merges."""
    return _conflicts_page(chat_id)


@pages.post("/chats/<chat_id>/conflicts")
def resolve(chat_id: str) -> Response | str:
    """Resolve one conflict; on an error, show the conflicts again with the reason and the choices."""
    path, edited = request.form.get("path", ""), request.form.get("edit")

    def listed_with(text_of: str | None) -> ConflictList:
        return ask(merges.list_conflicts, chat_id=chat_id, text_of=text_of)

    choices = _compared({path: _chosen(path, request.form.get("decision", ""))}, listed_with)
    if edited is not None:
        return _conflicts_page(chat_id, choices=_editing(choices, listed_with(edited), edited))
    try:
        if choices[path].decision == "content":
            choices[path] = _with_breaks(choices[path], path, listed_with(path).conflicts)
        check_newest(choices)
        if choices[path].decision == "hunks":
            check_hunks(choices, ask(merges.list_conflicts, chat_id=chat_id).conflicts)
        outcome = ask(
            merges.resolve_conflict, chat_id=chat_id, path=path, **choices[path].resolution()
        )
    except CovaltError as error:
        choices = _compared(choices, listed_with)
        return make_response(_conflicts_page(chat_id, error, choices), error.http_status)
    page = "branches.conflicts" if outcome.conflicts else "conversation.chat"
    return layout.back(page, "Resolved.", chat_id=chat_id)


def _chosen(path: str, decision: str) -> Chosen:
    """Return the fields of a form about the conflict at a path."""
    form = request.form
    numbered: dict[str, dict[int, str]] = {"hunk": {}, "lines": {}}
    for name, value in form.items():
        prefix, _, rest = name.partition(":")
        number, _, of = rest.partition(":")
        if prefix in numbered and of == path and _NUMBER.fullmatch(number):
            numbered[prefix][int(number)] = value
    return Chosen(
        decision,
        numbered["hunk"],
        form.get(f"versions:{path}"),
        form.get(f"content:{path}"),
        form.get(f"merged:{path}", ""),
        stale=f"stale:{path}" in form,
        replaces=f"replaces:{path}" in form,
        ids=numbered["lines"],
    )


def _compared(
    choices: Mapping[str, Chosen],
    planned: Callable[[str | None], Merged | ConflictList | CallUndone],
) -> dict[str, Chosen]:
    """Return the choices as they are about the conflicts as these are now; ``planned`` lists them with one text."""
    compared = {}
    for path, choice in choices.items():
        conflicts = planned(path if choice.content is not None else None).conflicts
        conflict = next((row for row in conflicts if path in {row.path, row.saved_as}), None)
        if conflict is None:
            compared[path] = choice
            continue
        if choice.content is not None:
            content = with_breaks_of(conflict.text or "", choice.content)
            choice = choice._replace(content=content)  # noqa: PLW2901 - the same choice
        compared[path] = choice.compared(conflict.text or "", conflict.hunks)
    return compared


def _editing(
    choices: dict[str, Chosen],
    listing: Merged | ConflictList | CallUndone,
    path: str,
    hint: str = _EDIT_BY_COMMAND,
) -> dict[str, Chosen]:
    """Return choices with the text of one conflict to edit; ``hint`` is the way to edit another text.

    Raises:
        CovaltError: if a form could not send the text back unchanged.
    """
    text = _text(listing.conflicts, path)
    if text is None or not previews.preview(path, text.encode()).editable:
        raise CovaltError(
            f"the merge of {path!r} cannot be edited in the browser",
            hint=hint,
            code="not_editable",
            http_status=409,
        )
    choice = choices.get(path) or _chosen(path, "")
    conflict = next(row for row in listing.conflicts if path in {row.path, row.saved_as})
    merged, versions = text, None
    if conflict.hunks is not None:
        text = _with_decisions(text, choice.hunks, len(conflict.hunks.hunks))
        versions = conflict.hunks.versions
    return choices | {path: choice.edits(text, merged, versions)}


def _with_decisions(text: str, decisions: dict[int, str], count: int) -> str:
    """Return a text with the decided hunks, of ``count`` hunks, in place of their conflict markers.

    A conflict can have several parts between markers, because equal lines of both sides are outside of them.  So only a
    text with one part for each hunk is changed.
    """
    if len(_HUNK.findall(text)) != count:
        return text
    numbers = iter(range(1, count + 1))

    def decided(part: re.Match[str]) -> str:
        ours, theirs = part["ours"], part["theirs"]
        texts = {"ours": ours, "theirs": theirs, "both": ours + theirs}
        return texts.get(decisions.get(next(numbers), ""), part[0])

    return _HUNK.sub(decided, text)


def _with_breaks(
    choice: Chosen, path: str, conflicts: Sequence[Conflict | WaitingConflict]
) -> Chosen:
    """Return a choice whose text has the line breaks of the merge, because a browser sends all as CR LF.

    Raises:
        CovaltError: if the text still has conflict markers.
    """
    text = with_breaks_of(_text(conflicts, path) or "", choice.content or "")
    if _MARKER.search(text):
        raise CovaltError(
            f"the result of {path!r} still has conflict markers",
            hint="choose the lines, and delete the lines that begin with <<<<<<<, ======= and >>>>>>>",
            code="conflict_markers",
            http_status=400,
        )
    return choice._replace(content=text)


def _text(conflicts: Sequence[Conflict | WaitingConflict], path: str) -> str | None:
    return next(
        (conflict.text for conflict in conflicts if path in {conflict.path, conflict.saved_as}),
        None,
    )


@pages.post("/chats/<chat_id>/branches/rename")
def rename(chat_id: str) -> Response:
    name = request.form.get("name", "").strip()
    ask(branches.rename_branch, chat_id=chat_id, branch=request.form.get("branch", ""), name=name)
    return layout.back("conversation.chat", "Renamed.", chat_id=chat_id)


@pages.post("/chats/<chat_id>/branches/delete")
def delete_branch(chat_id: str) -> Response:
    """Delete a branch; with ``force`` also if it has commits that no other branch has."""
    ask(
        branches.delete_branch,
        chat_id=chat_id,
        branch=request.form.get("branch", ""),
        force="force" in request.form,
    )
    message = "Deleted. Its commits are kept for 30 days."
    return layout.back("conversation.chat", message, chat_id=chat_id)


@pages.post("/chats/<chat_id>/fork")
def fork(chat_id: str) -> Response:
    """Create a chat with the same history, and show it."""
    chat = ask(
        chats.fork_chat, chat_id=chat_id, title=request.form.get("title", "").strip() or None
    )
    return layout.back("conversation.chat", "Forked. This is the new chat.", chat_id=chat.id)


@pages.post("/chats/<chat_id>/rename")
def rename_chat(chat_id: str) -> Response:
    ask(chats.rename_chat, chat_id=chat_id, title=request.form.get("title", "").strip())
    return layout.back("conversation.chat", "Renamed.", chat_id=chat_id)


@pages.post("/chats/<chat_id>/delete")
def delete_chat(chat_id: str) -> Response:
    """Delete a chat permanently, if the user typed its id."""
    if request.form.get("confirm", "").strip() != chat_id:
        flash("Not deleted: type the id of the chat to confirm.", "warn")
        return layout.back("conversation.chat", chat_id=chat_id)
    ask(chats.delete_chat, chat_id=chat_id)
    return layout.back("chats.chat_list", "Deleted, with its history and its folder.")


def _merge_page(
    chat_id: str,
    merge: Merged,
    choices: Mapping[str, Chosen] = MappingProxyType({}),
    error: CovaltError | None = None,
    *,
    result: Merged | None = None,
) -> str:
    """Show a merge; ``result`` is what it would change with the choices, by default without any."""
    return render_template(
        "merge.html",
        chat_id=chat_id,
        merge=merge,
        result_of=result or merge,
        others=_others(chat_id, merge) if merge.conflicts and result is None else None,
        patch=differences.DiffRenderer(),
        choices=choices,
        error=error,
        lines=code.highlighted,
    )


def _others(chat_id: str, merge: Merged) -> Merged | None:
    """Return what a merge changes without its conflicts; None if that is not known."""
    try:
        return ask(
            merges.merge_branch,
            chat_id=chat_id,
            branch=merge.branch,
            again=merge.again,
            conflicts="ours",
            dry_run=True,
            patches=_patches(),
        )
    except CovaltError:  # it was renamed or deleted meanwhile
        return None


def _patches() -> int:
    """Return how many files of a merge are shown with their differences, which the role may not read everywhere."""
    may_read = request_context.context().may_do("workspace:read_file")
    return layout.MOST_PATCHES if may_read else 0


def _choices() -> dict[str, str]:
    """Return the choices of a form by the paths of the conflicts."""
    return {
        name.removeprefix(CHOICE): decision
        for name, decision in request.form.items()
        if name.startswith(CHOICE) and decision
    }


def _undo_call(chat_id: str, call_id: str, branch: str | None, **fields: Any) -> CallUndone:
    most = layout.MOST_PATCHES
    return ask(
        call_undos.undo_call, chat_id=chat_id, call=call_id, branch=branch, patches=most, **fields
    )


def _undo_page(
    chat_id: str,
    undo: CallUndone,
    choices: Mapping[str, Chosen] = MappingProxyType({}),
    error: CovaltError | None = None,
    *,
    is_shown: bool = False,
) -> str:
    """Show an undo; ``is_shown`` if its changes are those of the choices, which then cannot be changed."""
    commit = ask(manifests.get_workspace_manifest, chat_id=chat_id, manifest=undo.call_manifest_id)
    return render_template(
        "undo_call.html",
        chat_id=chat_id,
        undo=undo,
        row=commit,
        branches=ask(branches.list_branches, chat_id=chat_id).branches,
        choices=choices,
        is_shown=is_shown,
        others=_undo_call(
            chat_id, undo.call_id, undo.branch, conflicts="ours", dry_run=True
        ).changes
        if undo.conflicts and not is_shown
        else (),
        error=error,
        lines=code.highlighted,
        patch=differences.DiffRenderer(),
    )


def _conflicts_page(
    chat_id: str,
    error: CovaltError | None = None,
    choices: Mapping[str, Chosen] = MappingProxyType({}),
) -> str:
    listing = ask(merges.list_conflicts, chat_id=chat_id)
    return render_template(
        "conflicts.html",
        chat_id=chat_id,
        conflicts=listing.conflicts,
        stopped=listing.stopped,
        choices=choices,
        error=error,
        lines=code.highlighted,
    )
