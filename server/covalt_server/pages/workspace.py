"""Pages of a chat's files: the tree at a commit, one file, editing, uploads and deletion."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from flask import Blueprint, make_response, render_template, request

from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import EXECUTABLE, FILE, LINK
from covalt_git.git_store.patches import change_patch
from covalt_git.models.chats import FileChange, FileState
from covalt_git.operations.chats import chats, manifests, workspace_edits, workspace_files
from covalt_git.operations.chats.tables import read_table
from covalt_git.tabular.csv_rows import SUFFIXES, CsvRows
from covalt_git.toolsets.file_changes import moved
from covalt_git.workspaces import trees
from covalt_server import request_context
from covalt_server.api import http
from covalt_server.pages import layout
from covalt_server.pages.chats import choices
from covalt_server.pages.preview import is_web_page
from covalt_server.render import code, differences, markdown, tables
from covalt_server.render.file_tree import tree
from covalt_server.render.previews import BREAK, preview
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup
    from werkzeug.wrappers import Response

    from covalt_git.operations.chats.manifests import ManifestDetail
    from covalt_git.operations.chats.workspace_files import WorkspaceFile
    from covalt_git.operations.results import Change
    from covalt_git.workspaces.chat import ChatStore
    from covalt_server.render.previews import Preview


pages = Blueprint("workspace", __name__)

MOST_STATES = 10
"""Number of commits on the page of a file."""

_READ = 200
"""Number of commits that are read at once in the search for the last call."""

_MODES = {FILE: "100644", EXECUTABLE: "100755, executable", LINK: "120000, a link"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file of the tree with its recent changes.

    ``changed`` is the kind of change in the commit ``by``, at index ``place`` of its changes; ``unsaved`` is the kind of
    uncommitted change.  ``file`` is None for a file that is in the workspace only and not in the commit.
    """

    path: str
    file: WorkspaceFile | None
    changed: str | None = None
    place: int = 0
    by: str = ""
    unsaved: str | None = None


@pages.get("/chats/<chat_id>/files")
def files(chat_id: str) -> str:
    """Show the tree of files at a commit, with the forms that add files."""
    at = request.args.get("at") or "HEAD"
    listing = ask(workspace_files.get_workspace_files, chat_id=chat_id, manifest=at)
    chat = ask(chats.get_chat, chat_id=chat_id)
    is_now = listing.manifest_id == chat.active_manifest_id
    state = _state(chat_id, listing.manifest_id)
    edits = chat.status.changes if is_now else ()
    leaves = _leaves(listing.files, _latest(chat_id, state) if state else (), edits)
    return render_template(
        "workspace_files.html",
        chat=chat,
        at=at,
        is_now=is_now,
        state=state,
        tree=tree(leaves, listing.empty_folders),
        edits=edits,
        choices=choices(chat_id, chat.branches, at),
        most_bytes=workspace_edits.most_upload_bytes(request_context.context()),
    )


@pages.get("/chats/<chat_id>/files/<path:path>")
def file(chat_id: str, path: str) -> str | Response:
    """Show one file at a commit, by its type; with ``?view=source`` its text."""
    at = request.args.get("at") or "HEAD"
    context = request_context.context()
    chat = context.chat(chat_id)
    context.require_reading("workspace:read_file", {"path": path, "manifest": at})
    view = request.args.get("view", "")
    if view == "edit" and (edited := read_text(chat, path)) is not None:
        return _editor(chat, path, edited.text, base=edited.oid)
    manifest_id = request_context.context().commit_id(chat, at)
    content = chat.read_file(manifest_id, path)
    entry = chat.find_file(manifest_id, path)
    assert manifest_id is not None
    assert entry is not None
    file_preview = preview(path, content)
    table = None
    if view != "source" and _is_table(path, content, file_preview):
        if (answer := tables.without_empty_fields()) is not None:
            return answer
        read = partial(ask, read_table, chat_id=chat_id, path=path, manifest=manifest_id)
        table = tables.view(read)
    is_now = manifest_id == chat.head()
    editable = is_now and file_preview.editable and entry.mode != LINK
    history = ask(
        manifests.list_manifests,
        chat_id=chat_id,
        manifest=manifest_id,
        path=path,
        limit=MOST_STATES,
    )
    unsaved = ask(chats.get_chat, chat_id=chat_id).status.changes if is_now else ()
    return render_template(
        "workspace_file.html",
        chat_id=chat_id,
        path=path,
        at=at,
        manifest_id=manifest_id,
        file=entry,
        mode=_MODES.get(entry.mode, f"{entry.mode:o}"),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        media_type=mimetypes.guess_type(path)[0],
        preview=file_preview,
        table=table,
        is_table=table is not None or file_preview.kind == "table",
        body=None if table else _body(path, file_preview, source=view == "source"),
        source=view == "source",
        is_page=is_web_page(path) and entry.mode != LINK,
        is_now=is_now,
        has_current=is_now or chat.find_file(chat.head(), path) is not None,
        branch=chat.active_branch(),
        editable=editable,
        unsaved=any(change.path == path for change in unsaved),
        states=history.manifests,
        complete=not history.more,
    )


@pages.post("/chats/<chat_id>/files/<path:path>")
def save(chat_id: str, path: str) -> Response:
    """Save a file as one commit; on an error, show the editor with the typed text."""
    return _saved(chat_id, path, base=request.form.get("base") or None)


@pages.get("/chats/<chat_id>/new-file")
def new_file(chat_id: str) -> str:
    return _editor(
        request_context.context().chat(chat_id), request.args.get("path", "").strip(), "", base=None
    )


@pages.post("/chats/<chat_id>/new-file")
def create(chat_id: str) -> Response:
    return _saved(chat_id, request.form.get("path", "").strip(), base=None)


@pages.post("/chats/<chat_id>/uploads")
def upload(chat_id: str) -> Response:
    """Add files to the workspace as one commit."""
    request_context.context().chat(chat_id)
    # Before `request.files` reads the body: the limit of other forms is smaller than an upload.
    request.max_content_length = workspace_edits.most_upload_bytes(request_context.context())
    chosen = tuple(http.upload(file) for file in request.files.getlist("files") if file.filename)
    if not chosen:
        raise CovaltError("no file was chosen", hint="go back and choose one or more")
    folder = request.form.get("folder", "").strip().strip("/")
    outcome = ask(workspace_edits.upload_files, chat_id=chat_id, folder=folder, files=chosen)
    message = "Uploaded." if outcome.changed else layout.UNCHANGED
    return layout.back("workspace.files", message, chat_id=chat_id)


@pages.post("/chats/<chat_id>/deletions")
def delete(chat_id: str) -> Response:
    """Delete a file as one commit."""
    ask(
        workspace_edits.delete_workspace_file,
        chat_id=chat_id,
        path=request.form.get("path", ""),
        base=request.form.get("base", ""),
        branch=request.form.get("branch") or None,
    )
    return layout.back(
        "workspace.files", "Deleted. The history still contains it.", chat_id=chat_id
    )


def _state(chat_id: str, manifest_id: str | None) -> ManifestDetail | None:
    if manifest_id is None:
        return None
    return ask(manifests.get_workspace_manifest, chat_id=chat_id, manifest=manifest_id)


def _latest(chat_id: str, state: ManifestDetail) -> tuple[ManifestDetail, ...]:
    """Return the commits whose changes are marked: the last call up to a commit, and the commit itself.

    A message, an upload or an edit after the call does not remove the marks of the call; the next call does.
    """
    if state.source == "tool_run":
        return (state,)
    index = request_context.context().chat_index()
    history = partial(index.manifests, chat_id, head=state.id, first_parents=True, limit=_READ)
    page = history()
    while (run := next((row for row in page.rows if row.source == "tool_run"), None)) is None:
        if not page.more:
            return (state,)
        page = history(before=page.rows[-1].id)
    call_commit = _state(chat_id, run.id)
    assert call_commit is not None
    return call_commit, state


def _leaves(
    files: Sequence[WorkspaceFile], commits: Sequence[ManifestDetail], edits: Sequence[Change]
) -> dict[str, Leaf]:
    lately = {
        change.path: (change.kind, place, commit.id)
        for commit in commits
        for place, change in enumerate(commit.changes, 1)
    }
    unsaved: dict[str, str] = {edit.path: edit.kind for edit in edits}
    leaves = {path: Leaf(path, None, unsaved=kind) for path, kind in unsaved.items()}
    for file in files:
        kind, place, by = lately.get(file.path, (None, 0, ""))
        leaves[file.path] = Leaf(file.path, file, kind, place, by, unsaved.get(file.path))
    return leaves


def _is_table(path: str, content: bytes, file_preview: Preview) -> bool:
    """Return whether a file is shown as a table: a CSV file, also in UTF-16 or with null characters."""
    if file_preview.kind == "binary":
        return path.lower().endswith(SUFFIXES) and CsvRows(content).encoding != "latin-1"
    return file_preview.kind == "table" or (
        file_preview.kind == "encoded" and path.lower().endswith(SUFFIXES)
    )


def _body(path: str, file_preview: Preview, *, source: bool) -> Markup | None:
    """Return the HTML of a text; None for files that are not text."""
    if file_preview.kind in {"empty", "image", "binary"}:
        return None
    if file_preview.kind == "document" and not source:
        return markdown.rendered(file_preview.text)
    if file_preview.pretty is not None and not source:
        return code.highlighted(file_preview.pretty, language="json")
    return code.highlighted(file_preview.text, path=path)


# Editing


def _saved(chat_id: str, path: str, *, base: str | None) -> Response:
    chat = request_context.context().chat(chat_id)
    typed = request.form.get("content", "")
    try:
        old_file = read_text(chat, path)
        typed = with_breaks_of(old_file.text if old_file is not None else "", typed)
        # The first save was refused, so the same button must not replace the newer file without a question.
        if "stale" in request.form and "replaces" not in request.form:
            raise moved(path)
        outcome = ask(
            workspace_edits.update_workspace_file,
            chat_id=chat_id,
            path=path,
            content=typed,
            base=base,
            branch=request.form.get("branch") or None,
        )
    except CovaltError as error:
        # The typed text must not be lost: show the editor again, with the error.
        return make_response(_again(chat, path, typed, base, error), error.http_status)
    message = "Saved." if outcome.changed else layout.UNCHANGED
    return layout.back("workspace.file", message, chat_id=chat_id, path=path)


def with_breaks_of(old_text: str, typed: str) -> str:
    """Return the typed text with the line breaks of ``old_text``; a browser sends all of them as CR LF."""
    line_break = BREAK.search(old_text)
    return (line_break[0] if line_break else "\n").join(BREAK.split(typed))


def _again(chat: ChatStore, path: str, typed: str, base: str | None, error: CovaltError) -> str:
    """Return the editor with an error; if the file changed meanwhile, based on the newer version."""
    if error.code != "moved":
        return _editor(chat, path, typed, base=base, error=error)
    there = read_text(chat, path)
    if there is None:
        return _editor(chat, path, typed, base=None, error=error)
    patch = differences.diff(patch_of(chat, path, typed))
    return _editor(chat, path, typed, base=there.oid, error=error, patch=patch)


def _editor(
    chat: ChatStore,
    path: str,
    text: str,
    *,
    base: str | None,
    error: CovaltError | None = None,
    patch: Markup | None = None,
) -> str:
    return render_template(
        "workspace_edit.html",
        chat_id=chat.id,
        path=path,
        text=text,
        base=base,
        branch=chat.active_branch(),
        language=code.language_of(text, path=path),
        error=error,
        patch=patch,
    )


class FolderText(NamedTuple):
    """A text file of the workspace, and the blob id that it has or would have."""

    text: str
    oid: str


def read_text(chat: ChatStore, path: str) -> FolderText | None:
    """Return a text file of the workspace; None if it does not exist.

    Raises:
        CovaltError: ``not_editable``, if it is not a text that a form can submit unchanged.
    """
    with chat.scan_in_memory() as scan:
        entry = trees.find(chat.store, scan.tree, path)
        if entry is None:
            return None
        content = chat.store.read_blob(entry.oid)
    if entry.mode == LINK or not preview(path, content).editable:
        raise CovaltError(
            f"{path!r} cannot be edited in the browser",
            hint="download it, change it, and upload it again",
            code="not_editable",
            http_status=409,
        )
    return FolderText(content.decode("utf-8"), entry.oid)


def patch_of(chat: ChatStore, path: str, typed: str) -> str:
    """Return the git patch from the workspace's file to the text ``typed``."""
    with chat.scan_in_memory() as scan:
        there = trees.find(chat.store, scan.tree, path)
        oid = chat.store.write_blob(typed.encode())
        new = FileState(mode=there.mode if there else FILE, oid=oid)
        return change_patch(chat.store, FileChange(path=path, old=there, new=new))
