"""Pages of a chat: its history with its branches, a commit, and a comparison of two commits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from flask import Blueprint, render_template, request, url_for

from covalt_git.conversations.commit_names import SHOWN_DIGITS
from covalt_git.conversations.history import layout
from covalt_git.errors import CovaltError
from covalt_git.index.history import HistoryNode
from covalt_git.operations.chats import (
    branches,
    chats,
    manifests,
    merges,
    workspace_edits,
    workspace_files,
)
from covalt_server import request_context
from covalt_server.pages import layout as shell
from covalt_server.render import history_graph
from covalt_server.render.differences import MOST_PATCH_LINES, DiffRenderer, Gap
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup
    from werkzeug.wrappers import Response

    from covalt_git.models.chats import Branch
    from covalt_git.models.commit_record import Source
    from covalt_git.operations.chats.chats import ChatDetail
    from covalt_git.operations.chats.manifests import ManifestRow
    from covalt_git.operations.chats.workspace_files import WorkspaceDiff
    from covalt_server.render.differences import Way

pages = Blueprint("chats", __name__)

PAGE = 100
"""Number of commits on one page of a history."""

_COMMAND = re.compile(
    r"restore: (?:undo of (?P<undo>[0-9a-f]{12})|redo, takes back (?P<redo>[0-9a-f]{12}))"
)
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_RETRIED: frozenset[Source] = frozenset({"tool_run", "message"})
_AFTERWARDS = {"history": "chats.history", "files": "workspace.files"}


@pages.get("/chats")
def chat_list() -> str:
    listing = ask(chats.list_chats)
    return render_template("chat_list.html", chats=listing.chats, damaged=listing.damaged)


@pages.post("/chats")
def make() -> Response:
    title = request.form.get("title", "").strip()
    chat_id = request.form.get("chat_id", "").strip() or None
    chat = ask(chats.create_chat, title=title, chat_id=chat_id)
    return shell.back("conversation.chat", "Created.", chat_id=chat.id)


@pages.get("/chats/<chat_id>/history")
def history(chat_id: str) -> str:
    """Show the commits of a chat, newest first, and the status of its folder."""
    branch = request.args.get("branch") or None
    before_id = request.args.get("before") or None
    path = request.args.get("path") or None
    chat = ask(chats.get_chat, chat_id=chat_id)
    page = ask(
        manifests.list_manifests,
        chat_id=chat_id,
        branch=branch,
        before=before_id,
        path=path,
        limit=PAGE,
    )
    lanes, cells = _graph(chat, branch, before_id, page.manifests, has_all=path is None)
    merged = any(row.source == "merge" for row in page.manifests)
    return render_template(
        "history.html",
        chat=chat,
        rows=page.manifests,
        more=page.more,
        lanes=lanes,
        cells=cells,
        branch=branch,
        before=before_id,
        path=path,
        conflicts=len(ask(merges.list_conflicts, chat_id=chat_id).conflicts) if merged else 0,
        undone=_undone(page.manifests),
        suggested={True: suggested(chat.branches, "tool_run"), False: suggested(chat.branches)},
    )


def _undone(rows: Sequence[ManifestRow]) -> set[str]:
    """Return the ids of the rows that a later undo among the rows took back, unless a redo reverted the undo."""
    starts: set[str] = set()
    reverted: set[str] = set()
    for row in rows:  # the newest first, so that a redo comes before its undo
        command = _COMMAND.fullmatch(row.title) if row.source == "restore" else None
        if command is None:
            continue
        if command["redo"]:
            reverted.add(command["redo"])
        elif row.id[:SHOWN_DIGITS] not in reverted:
            starts.add(command["undo"])
    return {row.id for row in rows if row.id[:SHOWN_DIGITS] in starts}


@pages.get("/chats/<chat_id>/states/<manifest>")
def state(chat_id: str, manifest: str) -> str:
    """Show one commit of a chat: its source and its changes."""
    commit = ask(manifests.get_workspace_manifest, chat_id=chat_id, manifest=manifest)
    parent = commit.parents[0] if commit.parents else ""
    heads = ask(branches.list_branches, chat_id=chat_id).branches
    return render_template(
        "state.html",
        chat_id=chat_id,
        state=commit,
        diff=diff_of(chat_id, parent, commit.id),
        patch=patches(chat_id, commit.id),
        parent=parent,
        branches=heads,
        may_restore=shell.may_restore(),
        heads_here=[head for head in heads if head.manifest_id == commit.id],
        choices=choices(chat_id, heads),
        suggested=suggested(heads, commit.source),
    )


@pages.post("/chats/<chat_id>/branches")
def branch(chat_id: str) -> Response:
    """Create a branch, and check it out if the form requests it."""
    form = request.form
    name = form.get("name", "").strip() or form.get("suggested", "")
    if not name:
        name = suggested(ask(chats.get_chat, chat_id=chat_id).branches)
    start = request.form.get("from_manifest") or None
    new = ask(branches.create_branch, chat_id=chat_id, name=name, from_manifest=start)
    if "switch" not in request.form:
        return shell.back("conversation.chat", f"Created {new.name}.", chat_id=chat_id)
    ask(branches.switch_branch, chat_id=chat_id, branch=new.name)
    message = f"Created {new.name}. The files in the folder are now those of {new.name}."
    return shell.back("conversation.chat", message, chat_id=chat_id)


@pages.post("/chats/<chat_id>/switch")
def switch(chat_id: str) -> Response:
    place = ask(branches.switch_branch, chat_id=chat_id, branch=request.form.get("branch", ""))
    message = f"Switched to {place.branch}."
    if merged := request.form.get("merge"):
        return shell.back("branches.merge_preview", message, chat_id=chat_id, branch=merged)
    return _afterwards(chat_id, message)


@pages.post("/chats/<chat_id>/edits")
def save(chat_id: str) -> Response:
    """Commit the uncommitted changes of the folder."""
    saved = ask(workspace_edits.save_edits, chat_id=chat_id)
    return _afterwards(chat_id, "Committed." if saved.changed else shell.UNCHANGED)


@pages.get("/chats/<chat_id>/diff")
def difference(chat_id: str) -> str:
    """Show the differences between two commits, or between a commit and the current folder."""
    old, new = request.args.get("old", "HEAD"), request.args.get("new", "")
    heads = ask(branches.list_branches, chat_id=chat_id).branches
    return render_template(
        "difference.html",
        chat_id=chat_id,
        old=old,
        new=new,
        diff=diff_of(chat_id, old, new),
        patch=patches(chat_id, new),
        choices=choices(chat_id, heads, old, new),
    )


@pages.get("/chats/<chat_id>/diff/lines")
def hidden_lines(chat_id: str) -> str:
    """Show lines of a file that its patch does not contain: as rows of the patch, or without htmx as a page."""
    args = request.args
    path, new = args.get("path", ""), args.get("new", "")
    gap = Gap(*(_number(args.get(name, "")) for name in Gap._fields))
    gap = gap._replace(start=max(gap.start, 1))
    way: Way = "up" if args.get("way") == "up" else "down"
    file = ask(workspace_files.get_workspace_file, chat_id=chat_id, path=path, manifest=new)
    with file.stream:
        text = file.stream.read().decode("utf-8", "replace")
    # Lines as git counts them: they end at line feeds.
    lines = text.removesuffix("\n").split("\n")
    rows = patches(chat_id, new).excerpt(path, lines, gap, way)
    if "HX-Request" in request.headers:
        return rows
    return render_template("difference_lines.html", chat_id=chat_id, path=path, new=new, rows=rows)


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


_MOST_COUNTED = 1 << 20
"""Bytes of a file whose lines are counted for a page."""


def patches(
    chat_id: str, new: str, *, most: int = MOST_PATCH_LINES, rest: str = ""
) -> DiffRenderer:
    """Return the renderer of the patches of a page, with links to the hidden lines of the commit ``new``."""

    def hidden_url(path: str, gap: Gap, way: Way) -> str:
        return url_for(
            "chats.hidden_lines", chat_id=chat_id, new=new, path=path, way=way, **gap._asdict()
        )

    def length_of(path: str) -> int | None:
        try:
            file = ask(workspace_files.get_workspace_file, chat_id=chat_id, path=path, manifest=new)
        except CovaltError:  # the role may not read it, or it is a link
            return None
        with file.stream:
            if file.size > _MOST_COUNTED:
                return None
            return len(file.stream.read().removesuffix(b"\n").split(b"\n"))

    is_split = request.args.get("view") == "split"
    return DiffRenderer(most, rest, is_split, hidden_url, length_of)


def diff_of(chat_id: str, old: str, new: str) -> WorkspaceDiff:
    """Return the differences between two commits, with as many patches as a page shows."""
    most = shell.MOST_PATCHES
    diff = workspace_files.get_workspace_diff
    return ask(diff, chat_id=chat_id, old=old, new=new, patches=most)


def _graph(
    chat: ChatDetail,
    branch: str | None,
    before_id: str | None,
    rows: Sequence[ManifestRow],
    *,
    has_all: bool,
) -> tuple[int, list[Markup]]:
    """Return the number of lanes of the graph of some rows, and the cell of each row.

    The layout starts at the newest row, so that lines continue across pages.  If commits are omitted (not
    ``has_all``), no lines are drawn between the others.
    """
    heads = {chat_branch.name: chat_branch.manifest_id for chat_branch in chat.branches}
    head = heads.get(branch) if branch else None
    if has_all:
        index = request_context.context().chat_index()
        nodes = index.history_nodes(chat.id, head=head, limit=len(rows), before=before_id)
        laid = layout(nodes, trunk=head or chat.active_manifest_id)[len(nodes) - len(rows) :]
    else:
        laid = layout(HistoryNode(row.id, ()) for row in rows)
    lanes = history_graph.lanes_of(laid)
    kinds = ["" if row.files_changed else "hollow" for row in rows]
    cells = [
        history_graph.svg(row, lanes, kind=kind) for row, kind in zip(laid, kinds, strict=False)
    ]
    return min(lanes, history_graph.MOST_WIDE), cells


def suggested(branches: Sequence[Branch], source: Source = "edit") -> str:
    """Return an available name for a branch at a commit of ``source``: ``edit-1``, ``retry-2``."""
    return available_name(branches, "retry" if source in _RETRIED else "edit")


def available_name(branches: Sequence[Branch], word: str) -> str:
    """Return the first available one of the names ``word-1``, ``word-2``, ..."""
    taken = {branch.name for branch in branches}
    return next(
        name for number in range(1, len(taken) + 2) if (name := f"{word}-{number}") not in taken
    )


def _afterwards(chat_id: str, message: str) -> Response:
    page = _AFTERWARDS.get(request.form.get("to", ""), "conversation.chat")
    return shell.back(page, message, chat_id=chat_id)


MOST_RECENT = 20
SHORT = 7


class SelectOption(NamedTuple):
    """One option of a select: its value and its label."""

    value: str
    label: str


def choices(
    chat_id: str, heads: Sequence[Branch], *chosen: str
) -> dict[str, tuple[SelectOption, ...]]:
    """Return the options by heading; they include the ``chosen`` ones."""
    recent = ask(manifests.list_manifests, chat_id=chat_id, limit=MOST_RECENT).manifests
    active = next(head.name for head in heads if head.active)
    groups = {
        "Branches": (
            SelectOption("HEAD", f"{active} (active)"),
            *(
                SelectOption(head.name, head.name)
                for head in heads
                if head.manifest_id and not head.active
            ),
        ),
        "Last commits": tuple(
            SelectOption(commit.id, f"{commit.id[:SHORT]} {commit.title}") for commit in recent
        ),
    }
    option_values = {choice.value for group in groups.values() for choice in group} | {""}
    others = tuple(SelectOption(text, text[:40]) for text in chosen if text not in option_values)
    return {"Chosen": others, **groups} if others else groups
