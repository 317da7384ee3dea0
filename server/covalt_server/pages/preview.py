"""Page of a preview, and the pane that shows one at the side of the conversation."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from flask import Blueprint, current_app, render_template, request, session, url_for

from covalt_git.errors import UnknownNameError
from covalt_git.git_store.objects import FOLDER, LINK
from covalt_git.operations.chats import chats
from covalt_git.operations.chats.manifests import manifest_row
from covalt_git.workspaces import trees
from covalt_server import request_context
from covalt_server.pages.chats import SHORT, SelectOption, choices
from covalt_server.preview.files import INDEX
from covalt_server.preview.keys import PreviewedCommit
from covalt_server.request_context import ask
from covalt_server.security import SESSION_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.index.history import HistoryRow
    from covalt_git.workspaces.chat import ChatStore
    from covalt_server.preview.keys import AnyPreviewKeys

pages = Blueprint("preview", __name__)

_HTML = (".html", ".htm")
WIDTHS = ("", "375", "768", "1280")
"""Widths of a frame in pixels: that of its pane, of a phone, a tablet and a desktop."""

MOST_CHANGES = 12
"""Number of changed files above a preview."""

_MOST_COMMITS = 60
"""Number of commits of a branch in which changed files are searched."""

_BULK = 500
"""Number of files of a commit, such as an upload, from which on its files are not listed."""

_FIRST_BRANCH = "main"


@pages.app_template_test("web_page")
def is_web_page(path: str) -> bool:
    """Return whether a file is a web page by its name."""
    return path.lower().endswith(_HTML)


class ChangedFile(NamedTuple):
    """A file that a branch has changed, with the kind of the change since the branch's start."""

    path: str
    kind: str

    @property
    def is_page(self) -> bool:
        return is_web_page(self.path) and self.kind != "deleted"


class _BranchCommits(NamedTuple):
    """The commit that a branch starts from, None without one, and its visible commits, newest first."""

    start: str | None
    rows: list[HistoryRow]


class OtherSide(NamedTuple):
    """What a preview is compared with.

    Attributes:
        name: The branch or commit that the reader chose, as the query has it.
        branch: The branch that it follows; None for a commit.
        label: The heading of its frame.
        url: Where its frame begins; empty if it has no file at the path.
        manifest_id: Its commit.
    """

    name: str
    branch: str | None
    label: str
    url: str
    manifest_id: str | None


class Pane(NamedTuple):
    """A preview in a page.

    Attributes:
        path: The file or folder that is shown; None if the branch has no HTML file.
        url: Where the frame begins; empty if the commit has no file at the path.
        manifest_id: The commit whose files are served.
        at: The commit that the reader chose; empty while the preview follows the branch.
        branch: The branch that it follows.
        width: One of the widths; empty for the width of the pane.
        changes: The files that the branch changed last, newest first.
        commits: The options of the picker by heading.
        label: The heading of the frame in a comparison.
        compare_with: The branch that a link offers to compare with; None without one.
        other: What the preview is compared with; None without a comparison.
    """

    path: str | None
    url: str
    manifest_id: str
    at: str
    branch: str
    width: str
    changes: tuple[ChangedFile, ...]
    commits: dict[str, tuple[SelectOption, ...]]
    label: str = ""
    compare_with: str | None = None
    other: OtherSide | None = None


@pages.get("/chats/<chat_id>/preview/", defaults={"path": ""})
@pages.get("/chats/<chat_id>/preview/<path:path>")
def page(chat_id: str, path: str) -> str:
    """Show a file or folder of a commit as a web page; without ``?at=``, of the active branch.

    With ``?compare=``, the same path of a second branch or commit is beside it.
    """
    chat = request_context.context().chat(chat_id)
    branch, head = chat.active_branch(), chat.head()
    at, compare = (request.args.get(name) or "" for name in ("at", "compare"))
    if at in chat.branch_names():
        branch, head = at, chat.branch(at).manifest_id
    manifest_id = request_context.context().commit_id(chat, at or "HEAD")
    url = _url_of(chat, manifest_id, path)
    other = _other_side(chat, compare, path) if compare else None
    # A comparison also shows a page that one side lacks.
    if manifest_id is None or not (url or (other and other.url)):
        listed = f"covalt-git chat files {chat_id}"
        raise UnknownNameError("file", path, chat.files(manifest_id), list_with=listed)
    chat_detail = ask(chats.get_chat, chat_id=chat_id)
    branch_commits = _commits_of(chat, branch, head)
    at = "" if at == "HEAD" else at
    return render_template(
        "preview.html",
        chat=chat_detail,
        pane=Pane(
            path=path,
            url=url,
            manifest_id=manifest_id,
            at=at,
            branch=branch,
            width=_width(),
            changes=tuple(_changes(chat, branch_commits, head)),
            commits=choices(chat_id, chat_detail.branches, *filter(None, (at, compare))),
            label=at[:SHORT] if at and at != branch else branch,
            other=other,
        ),
        widths=WIDTHS,
    )


def _other_side(chat: ChatStore, name: str, path: str) -> OtherSide:
    branch = chat.active_branch() if name == "HEAD" else name
    is_branch = branch in chat.branch_names()
    manifest_id = request_context.context().commit_id(chat, name)
    return OtherSide(
        name=name,
        branch=branch if is_branch else None,
        label=branch if is_branch else name[:SHORT],
        url=_url_of(chat, manifest_id, path),
        manifest_id=manifest_id,
    )


def pane_of(chat_id: str, branch: str, head: str | None) -> Pane | None:
    """Return the pane for the conversation of a branch; None if it has nothing to show.

    The query may have the file (``preview``), the commit (``at``) and the width.
    """
    if head is None:
        return None
    context = request_context.context()
    chat = context.chat(chat_id)
    branch_commits = _commits_of(chat, branch, head)
    rows = branch_commits.rows
    changes = tuple(_changes(chat, branch_commits, head))
    at = request.args.get("at") or ""
    manifest_id = context.commit_id(chat, at) if at else head
    assert manifest_id is not None
    path = _page_of(chat, manifest_id, changes) or _earlier_page(chat, manifest_id)
    if path is None and not changes:
        return None
    commits = [
        SelectOption(row.id, f"{row.id[:SHORT]} {manifest_row(context, row).title}") for row in rows
    ]
    others = {
        other.manifest_id: other.name
        for other in chat.branches()
        if other.manifest_id and other.manifest_id not in {head, *(row.id for row in rows)}
    }
    if at and manifest_id not in {*others, *(row.id for row in rows)}:
        commits.append(SelectOption(manifest_id, manifest_id[:SHORT]))
    return Pane(
        path=path,
        url="" if path is None else _url_of(chat, manifest_id, path),
        manifest_id=manifest_id,
        at=manifest_id if at else "",
        branch=branch,
        width=_width(),
        changes=changes,
        commits={
            "Branch": (SelectOption("", f"newest of {branch}"),),
            "Other branches": tuple(
                SelectOption(oid, f"newest of {name}") for oid, name in others.items()
            ),
            "Commits": tuple(commits),
        },
        # An earlier commit is compared with the newest one of its branch.
        compare_with=branch if at else _other_branch(chat, head, path),
    )


def shared_page(chat_id: str, sides: Sequence[tuple[str, str | None]]) -> str | None:
    """Return the web page to preview on two branches, which both have; None without one.

    ``sides`` are the names of the branches with their last commits.
    """
    chat = request_context.context().chat(chat_id)
    heads = [head for _, head in sides if head is not None]
    if len(heads) != len(sides):
        return None
    for branch, head in sides:
        path = _page_of(
            chat, heads[0], tuple(_changes(chat, _commits_of(chat, branch, head), head))
        ) or _earlier_page(chat, heads[0])
        if path and all(_entry_mode(chat, commit, path) not in {None, LINK} for commit in heads):
            return path
    return None


def _page_of(chat: ChatStore, manifest_id: str, changes: Sequence[ChangedFile]) -> str | None:
    """Return the path that the query names, else the index page, else the page that changed last."""
    index = next(
        (change.path for change in changes if change.is_page and change.path.endswith(f"/{INDEX}")),
        None,
    )
    last = next((change.path for change in changes if change.is_page), None)
    for path in (request.args.get("preview"), INDEX, index, last):
        if path and _entry_mode(chat, manifest_id, path) not in {None, LINK}:
            return path
    return None


def _earlier_page(chat: ChatStore, manifest_id: str) -> str | None:
    """Return the web page that the history of a commit changed last: a new branch has changed none itself."""
    index = request_context.context().chat_index()
    page = index.manifests(chat.id, head=manifest_id, limit=_MOST_COMMITS, first_parents=True)
    for row in page.rows:
        if not row.changed_files or row.changed_files > _BULK or not _is_visible(row):
            continue
        parent = row.parents[0] if row.parents else None
        paths = [
            change.path
            for change in chat.tree_changes(chat.state(parent).tree, row.tree_id)
            if is_web_page(change.path)
            and _entry_mode(chat, manifest_id, change.path) not in {None, LINK}
        ]
        if paths:
            return min(paths, key=lambda path: (not path.endswith(f"/{INDEX}"), path))
    return None


def _entry_mode(chat: ChatStore, manifest_id: str, path: str) -> int | None:
    tree = chat.state(manifest_id).tree
    entry = trees.find_entry(chat.store, tree, path.removesuffix("/"))
    if entry is None or (path.endswith("/") and entry.mode != FOLDER):
        return None
    return entry.mode


def _other_branch(chat: ChatStore, head: str, path: str | None) -> str | None:
    """Return the branch to compare a page with: the active one, or the first other one that has it."""
    names = sorted(chat.branch_names(), key=lambda name: (name != chat.active_branch(), name))
    for name in names:
        other_head = chat.branch(name).manifest_id
        if path is not None and other_head not in {None, head} and _url_of(chat, other_head, path):
            return name
    return None


def _url_of(chat: ChatStore, manifest_id: str | None, path: str) -> str:
    """Return the URL of a file in a preview of its commit, for the session of the request; empty without the file."""
    if manifest_id is None or _entry_mode(chat, manifest_id, path) in {None, LINK}:
        return ""
    keys: AnyPreviewKeys = current_app.config["COVALT_PREVIEWS"]
    key = keys.key(PreviewedCommit(session.get(SESSION_ID, ""), chat.id, manifest_id))
    return url_for("preview_files.file", key=key, path=path)


def _width() -> str:
    width = request.args.get("width", "")
    return width if width in WIDTHS else ""


def _commits_of(chat: ChatStore, branch: str, head: str | None) -> _BranchCommits:
    """Return the start and the last commits of a branch that changed files, newest first, without those of the first branch.

    Calls of tools that are hidden from the role are left out.
    """
    index = request_context.context().chat_index()
    index.sync_chat(chat)
    page = index.manifests(chat.id, head=head, limit=_MOST_COMMITS, first_parents=True)
    rows, start = page.rows, None
    if branch != _FIRST_BRANCH and _FIRST_BRANCH in chat.branch_names():
        shared = index.first_parents(chat.id, chat.branch(_FIRST_BRANCH).manifest_id)
        rows = tuple(takewhile(lambda row: row.id not in shared, rows))
        start = next(iter(rows[-1].parents), None) if rows else head
    return _BranchCommits(start, [row for row in rows if row.changed_files and _is_visible(row)])


def _is_visible(row: HistoryRow) -> bool:
    """Return whether the role may know what a commit changed: the paths are arguments of its call."""
    by_tool = row.source == "tool_run" or row.tool_id is not None
    return not by_tool or request_context.context().visibility.sees(row.tool_id or "")


def _changes(
    chat: ChatStore, branch_commits: _BranchCommits, head: str | None
) -> Iterator[ChangedFile]:
    """Yield the files that commits changed, each once, with their last changes first.

    Without those that are now as at the branch's start.
    """
    old, new = chat.state(branch_commits.start).tree, chat.state(head).tree
    paths: set[str] = set()
    for row in branch_commits.rows:
        if row.changed_files > _BULK:
            continue
        parent = row.parents[0] if row.parents else None
        for change in chat.tree_changes(chat.state(parent).tree, row.tree_id):
            if change.path in paths:
                continue
            paths.add(change.path)
            # Two searches for each path: a comparison of the trees would read all folders that differ.
            earlier, after = (trees.find(chat.store, tree, change.path) for tree in (old, new))
            if earlier != after:
                kind = "added" if earlier is None else "deleted" if after is None else "modified"
                yield ChangedFile(change.path, kind)
            if len(paths) == MOST_CHANGES:
                return
