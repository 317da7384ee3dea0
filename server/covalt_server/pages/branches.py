"""Page actions on branches and chats: restore, undo, merge, rename, fork, delete."""

from __future__ import annotations

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
from covalt_server.pages import layout
from covalt_server.render import code, differences
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from werkzeug.wrappers import Response

    from covalt_git.operations.chats.call_undos import CallUndone
    from covalt_git.operations.chats.merges import Merged

pages = Blueprint("branches", __name__)

CHOICE = "choice:"
"""Prefix of the name of a field that resolves a conflict; the path follows."""

_OUTCOMES = {
    "merged": "Merged.",
    "fast_forward": "Fast-forwarded.",
    "already_merged": "Nothing to merge.",
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


@pages.post("/chats/<chat_id>/undo")
def undo(chat_id: str) -> Response:
    """Undo the last change of the files."""
    outcome = ask(workspace_edits.undo_change, chat_id=chat_id)
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
    )
    return _merge_page(chat_id, preview)


@pages.post("/chats/<chat_id>/merge")
def merge(chat_id: str) -> Response | str:
    """Merge a branch into the active one, with the form's resolutions of conflicts.

    If the merge is refused, show the form again with the reason and the choices, which would be lost otherwise.
    """
    choices = _choices()
    decisions = [{"path": path, "decision": way} for path, way in choices.items()]
    branch, again = request.form.get("branch", ""), "again" in request.form
    fields = {"chat_id": chat_id, "branch": branch, "again": again}
    try:
        outcome = ask(merges.merge_branch, **fields, resolutions=decisions)
    except CovaltError as error:
        page = _merge_page(
            chat_id, ask(merges.merge_branch, **fields, dry_run=True), choices, error
        )
        return make_response(page, error.http_status)
    if outcome.status == "conflicts":  # new conflicts since the preview, or one without a choice
        return _merge_page(chat_id, outcome, choices)
    if any(conflict.decision == "both" for conflict in outcome.conflicts):
        return layout.back("branches.conflicts", "Merged.", chat_id=chat_id)
    return layout.back("conversation.chat", _OUTCOMES[outcome.status], chat_id=chat_id)


@pages.get("/chats/<chat_id>/calls/<call_id>/undo")
def undo_call_preview(chat_id: str, call_id: str) -> str:
    """Show what an undo of a call would change on a branch, with a choice for each conflict."""
    branch = request.args.get("branch") or None
    return _undo_page(chat_id, _undo_call(chat_id, call_id, branch, dry_run=True))


@pages.post("/chats/<chat_id>/calls/<call_id>/undo")
def undo_call(chat_id: str, call_id: str) -> Response | str:
    """Undo a call on the branch that the preview showed.

    With a conflict that has no choice, show the preview again, also if the conflict is new since then.
    """
    branch, choices = request.form.get("branch") or None, _choices()
    decisions = [{"path": path, "decision": way} for path, way in choices.items()]
    try:
        outcome = _undo_call(chat_id, call_id, branch, resolutions=decisions)
    except CovaltError as error:
        preview = _undo_call(chat_id, call_id, branch, dry_run=True)
        return make_response(_undo_page(chat_id, preview, choices, error), error.http_status)
    if outcome.status == "conflicts":
        return _undo_page(chat_id, outcome, choices)
    message = f"Undone in a new commit on {outcome.branch}."
    if outcome.status == "nothing_to_undo":
        message = f"Nothing to undo: {outcome.branch} no longer has the changes of this call."
    return layout.back("conversation.chat", message, chat_id=chat_id)


@pages.get("/chats/<chat_id>/conflicts")
def conflicts(chat_id: str) -> str:
    """List the unresolved conflicts of merges."""
    return _conflicts_page(chat_id)


@pages.post("/chats/<chat_id>/conflicts")
def resolve(chat_id: str) -> Response:
    """Resolve one conflict; on an error, show the conflicts again with the reason."""
    form = request.form
    try:
        outcome = ask(
            merges.resolve_conflict,
            chat_id=chat_id,
            path=form.get("path", ""),
            decision=form.get("decision", ""),
        )
    except CovaltError as error:
        return make_response(_conflicts_page(chat_id, error), error.http_status)
    page = "branches.conflicts" if outcome.conflicts else "conversation.chat"
    return layout.back(page, "Resolved.", chat_id=chat_id)


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
    choices: Mapping[str, str] = MappingProxyType({}),
    error: CovaltError | None = None,
) -> str:
    return render_template(
        "merge.html",
        chat_id=chat_id,
        merge=merge,
        choice=CHOICE,
        choices=choices,
        error=error,
        lines=code.highlighted,
    )


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
    choices: Mapping[str, str] = MappingProxyType({}),
    error: CovaltError | None = None,
) -> str:
    commit = ask(manifests.get_workspace_manifest, chat_id=chat_id, manifest=undo.call_manifest_id)
    return render_template(
        "undo_call.html",
        chat_id=chat_id,
        undo=undo,
        row=commit,
        branches=ask(branches.list_branches, chat_id=chat_id).branches,
        choice=CHOICE,
        choices=choices,
        error=error,
        lines=code.highlighted,
        patch=differences.DiffRenderer(),
    )


def _conflicts_page(chat_id: str, error: CovaltError | None = None) -> str:
    conflict_rows = ask(merges.list_conflicts, chat_id=chat_id).conflicts
    return render_template(
        "conflicts.html",
        chat_id=chat_id,
        conflicts=conflict_rows,
        error=error,
        lines=code.highlighted,
    )
