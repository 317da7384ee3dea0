"""Calls of built-in tools that do not write files: each is an operation on a chat.

Such a call is not recorded.  It makes no commit, except that ``checkout`` first commits uncommitted changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.calls.builtin_calls import MOST_PATHS
from covalt_git.calls.outcomes import CallOutcome
from covalt_git.calls.telemetry import observe_call
from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import is_binary_content
from covalt_git.models.calls import ToolCall
from covalt_git.names import new_id
from covalt_git.operations.chats import branches, manifests
from covalt_git.operations.chats import workspace_files as files
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import HEADS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.calls.engine import CallRequest
    from covalt_git.catalog.catalog import Found
    from covalt_git.json_values import JsonObject
    from covalt_git.operations.chats.manifests import ManifestRow
    from covalt_git.operations.chats.workspace_files import FileDiff
    from covalt_git.operations.context import Context
    from covalt_git.operations.results import Change
    from covalt_git.workspaces.chat import ChatStore

MOST_FILE_BYTES = 1 << 20
"""Largest file that a tool returns; resources may be larger."""

MOST_PATCH_CHARACTERS = 256 << 10
"""Largest total length of the patches in a result; further files have no patch."""


class UnreadableError(CovaltError):
    """A file that cannot be returned as text."""

    code = "unreadable"


def make_unrecorded_call(
    context: Context, chat: ChatStore, request: CallRequest, entry: Found
) -> CallOutcome:
    """Make a call that is not recorded; ``entry`` is the result of :meth:`.Engine.check`.

    Raises:
        CovaltError: ``needs_person``, if a rule of the project requires approval of it.
        CovaltError: as the operation.
    """

    def check_no_approval() -> None:
        context.visibility.check_rules([entry.tool], request.args)
        reasons = context.visibility.decide_call([entry.tool], request.args).reasons
        if reasons:
            raise CovaltError(
                f"{request.tool_id} needs approval ({', '.join(reasons)}), but its calls are not recorded and cannot be pending",
                hint=f"the user can do this in the chat {chat.id} on the pages of covalt-git serve",
                code="needs_person",
                http_status=403,
            )

    # Checked again under the chat's lock: a rule may be written while the call waits
    # (tests/security/test_rights_that_end_during_a_wait.py).
    with context.engine().decisions.recording(
        request.tool_id, request.args, parent=request.script and request.script.script_id
    ):
        context.require(check_no_approval)
    context.engine().spend_token(entry, chat, request.call_id or new_id())
    with observe_call(chat.id, request.tool_id, request.call_id) as observed:
        outcome = _run(context, chat, request, entry.tool.tool_id)
        observed.set_outcome(outcome)
        return outcome


def _run(context: Context, chat: ChatStore, request: CallRequest, tool_id: str) -> CallOutcome:
    branch, started_at = chat.active_branch(), commits.now()
    value = _TOOLS[tool_id](context, chat.id, request.args)
    # Read after the call: a checkout first commits the user's edits to the branch that it leaves, and these are not
    # its own changes.
    left = chat.store.read_ref(HEADS + branch)
    call = ToolCall(
        id=request.call_id or new_id(),
        chat_id=chat.id,
        message_id=request.message_id,
        tool_id=tool_id,
        args=request.args,
        result=value,
        status="success",
        started_at=started_at,
        finished_at=commits.now(),
        pre_manifest_id=left,
    )
    return CallOutcome(call, changes=tuple(chat.changes(left, chat.head())))


def list_files(context: Context, chat_id: str, args: JsonObject) -> JsonObject:
    """Return the paths of the files and the ids of their blobs."""
    manifest = args.get("manifest", "")
    listing = files.get_workspace_files(context, chat_id=chat_id, manifest=manifest)
    listed = [{"path": file.path, "oid": file.oid} for file in listing.files]
    return {"files": listed, "empty_folders": [*listing.empty_folders]}


def read_file(context: Context, chat_id: str, args: JsonObject) -> JsonObject:
    """Return the text of a file."""
    path, manifest = args["path"], args.get("manifest", "")
    file = files.get_workspace_file(context, chat_id=chat_id, path=path, manifest=manifest)
    if file.size > MOST_FILE_BYTES:
        message = f"{path!r} has {file.size} bytes (at most {MOST_FILE_BYTES})"
        raise UnreadableError(message, hint="read it as a resource")
    content = file.stream.read()
    if is_binary_content(content):
        raise UnreadableError(f"{path!r} is not a text file", hint="read it as a resource")
    text = content.decode("utf-8", "replace")
    return {"path": path, "oid": file.etag, "content": text}


def diff(context: Context, chat_id: str, args: JsonObject) -> JsonObject:
    """Return the differences of two commits, with patches."""
    old, new = args.get("old"), args.get("new", "")
    if old is None and new:
        manifest = manifests.get_workspace_manifest(context, chat_id=chat_id, manifest=new)
        old = manifest.parents[0] if manifest.parents else ""
    old = "HEAD" if old is None else old
    difference = files.get_workspace_diff(context, chat_id=chat_id, old=old, new=new)
    return {"changes": [*_with_patches(difference.changes)]}


def log(context: Context, chat_id: str, args: JsonObject) -> JsonObject:
    """Return the newest commits of a branch."""
    page = manifests.list_manifests(
        context,
        chat_id=chat_id,
        manifest=args.get("manifest", "HEAD"),
        limit=args.get("limit", 20),
        changes=True,
    )
    heads = branches.list_branches(context, chat_id=chat_id).branches
    return {
        "manifests": [manifest_facts(row) for row in page.manifests],
        "branches": [{"name": head.name, "manifest_id": head.manifest_id} for head in heads],
        "active_branch": page.active_branch,
    }


def branch(context: Context, chat_id: str, args: JsonObject) -> JsonObject:
    """Create a branch without switching to it."""
    name, start = args["name"], args.get("start")
    created = branches.create_branch(context, chat_id=chat_id, name=name, from_manifest=start)
    return {"name": created.name, "manifest_id": created.manifest_id}


def checkout(context: Context, chat_id: str, args: JsonObject) -> JsonObject:
    """Switch to a branch."""
    switch = branches.switch_branch(context, chat_id=chat_id, branch=args["branch"])
    changes = _named(switch.changes)
    return {"branch": switch.branch, "manifest_id": switch.manifest_id, "changes": changes}


def manifest_facts(manifest: ManifestRow) -> JsonObject:
    """Return a commit as JSON for agents: its title, its author and the files that it changed."""
    return {
        "id": manifest.id,
        "parents": [*manifest.parents],
        "title": manifest.title,
        "created_at": manifest.created_at,
        "by": manifest.by,
        "changes": _named(manifest.changes or ()),
    }


def _named(changes: Sequence[Change]) -> list[JsonObject]:
    return [{"path": change.path, "kind": change.kind} for change in changes[:MOST_PATHS]]


def _with_patches(changes: Sequence[FileDiff]) -> Iterator[JsonObject]:
    left = MOST_PATCH_CHARACTERS
    for change in changes[:MOST_PATHS]:
        facts: JsonObject = {"path": change.path, "kind": change.kind}
        left -= len(change.patch or "")
        if change.patch is not None and left > 0:
            facts["patch"] = change.patch
        yield facts


_TOOLS = {
    "workspace:branch": branch,
    "workspace:checkout": checkout,
    "workspace:diff": diff,
    "workspace:list_files": list_files,
    "workspace:log": log,
    "workspace:read_file": read_file,
}
