"""Built-in tools for agents: the files, the history and the branches of the client's chat.

The access check uses their ids, such as ``workspace:read_file``.  Each change is an ``edit`` commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covalt_git.access import confirmation
from covalt_git.errors import CovaltError
from covalt_git.gateway.tool_listing import object_schema
from covalt_git.git_store import is_binary_content
from covalt_git.models.tool import Tool
from covalt_git.models.tool_properties import Annotations
from covalt_git.names import BUILTIN_NAMESPACE
from covalt_git.operations.chats import branches, manifests
from covalt_git.operations.chats import workspace_edits as edits
from covalt_git.operations.chats import workspace_files as files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.operations.chats.manifests import ManifestRow
    from covalt_git.operations.chats.workspace_files import FileDiff
    from covalt_git.operations.context import Context
    from covalt_git.operations.results import Change

MOST_FILE_BYTES = 1 << 20
"""Largest file that a tool returns; resources may be larger."""

MOST_PATCH_CHARACTERS = 256 << 10
"""Largest total length of the patches in a result; further files have no patch."""

MOST_PATHS = 2000
"""Most changed paths in a result."""


class NeedsApprovalError(CovaltError):
    """A rule of the project requires approval, but built-in tools cannot wait for an approval."""

    code = "needs_person"
    http_status = 403


class UnreadableError(CovaltError):
    """A file that cannot be returned as text."""

    code = "unreadable"


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """Result of a built-in tool, the files that it changed, and its commit."""

    value: JsonObject
    changes: Sequence[Change] = field(default=())
    manifest_id: str | None = None


def _text(description: str, **more: Any) -> JsonObject:
    return {"type": "string", "description": description, **more}


_OR_NULL: JsonObject = {"type": ["string", "null"]}
_PATH = _text("Path of a file, relative to the workspace.", minLength=1)
_MANIFEST = _text(
    "A branch, HEAD, the id or id prefix of a commit, or the id of a call. "
    "Default: the current files."
)
_CHANGES: JsonObject = {
    "type": "array",
    "items": object_schema(
        {
            "path": {"type": "string"},
            "kind": {"enum": ["added", "deleted", "modified"]},
            "patch": {"type": "string"},
        },
        ["path", "kind"],
    ),
}


def list_files(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Return the paths of the files and the ids of their blobs."""
    manifest = args.get("manifest", "")
    found = files.get_workspace_files(context, chat_id=chat_id, manifest=manifest)
    listed = [{"path": one.path, "oid": one.oid} for one in found.files]
    return ToolOutcome({"files": listed, "empty_folders": [*found.empty_folders]})


def read_file(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
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
    return ToolOutcome({"path": path, "oid": file.etag, "content": text})


def write_file(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Write a file and commit it."""
    edit = edits.update_workspace_file(
        context,
        chat_id=chat_id,
        path=args["path"],
        content=args["content"],
        base=args.get("base"),
        overwrite="base" not in args,
    )
    facts = edit.model_dump(include={"oid", "manifest_id", "changed"})
    return ToolOutcome({"path": args["path"], **facts}, edit.changes, edit.manifest_id)


def diff(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Return the differences of two commits, with patches."""
    old, new = args.get("old"), args.get("new", "")
    if old is None and new:
        shown = manifests.get_workspace_manifest(context, chat_id=chat_id, manifest=new)
        old = shown.parents[0] if shown.parents else ""
    old = "HEAD" if old is None else old
    found = files.get_workspace_diff(context, chat_id=chat_id, old=old, new=new)
    return ToolOutcome({"changes": [*_with_patches(found.changes)]})


def log(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Return the newest commits of a branch."""
    page = manifests.list_manifests(
        context,
        chat_id=chat_id,
        manifest=args.get("manifest", "HEAD"),
        limit=args.get("limit", 20),
        changes=True,
    )
    heads = branches.list_branches(context, chat_id=chat_id).branches
    return ToolOutcome(
        {
            "manifests": [manifest_facts(one) for one in page.manifests],
            "branches": [{"name": one.name, "manifest_id": one.manifest_id} for one in heads],
            "active_branch": page.active_branch,
        }
    )


def branch(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Create a branch without switching to it."""
    name, start = args["name"], args.get("start")
    created = branches.create_branch(context, chat_id=chat_id, name=name, from_manifest=start)
    return ToolOutcome({"name": created.name, "manifest_id": created.manifest_id})


def checkout(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Switch to a branch."""
    switch = branches.switch_branch(context, chat_id=chat_id, branch=args["branch"])
    return _moved(switch.branch, switch.manifest_id, switch.changes)


def restore(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Restore files from a commit."""
    manifest, paths = args["manifest"], args.get("paths", ())
    restored = edits.restore_workspace(context, chat_id=chat_id, manifest=manifest, paths=paths)
    return _moved(restored.branch, restored.manifest_id, restored.changes)


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


def _moved(branch: str, manifest_id: str | None, changes: Sequence[Change]) -> ToolOutcome:
    facts = {"branch": branch, "manifest_id": manifest_id, "changes": _named(changes)}
    return ToolOutcome(facts, changes, manifest_id)


def _named(changes: Sequence[Change]) -> list[JsonObject]:
    return [{"path": one.path, "kind": one.kind} for one in changes[:MOST_PATHS]]


def _with_patches(changes: Sequence[FileDiff]) -> Iterator[JsonObject]:
    left = MOST_PATCH_CHARACTERS
    for change in changes[:MOST_PATHS]:
        facts: JsonObject = {"path": change.path, "kind": change.kind}
        left -= len(change.patch or "")
        if change.patch is not None and left > 0:
            facts["patch"] = change.patch
        yield facts


_READS = Annotations(read_only=True, destructive=False, idempotent=True, open_world=False)
_WRITES = Annotations(read_only=False, destructive=False, idempotent=True, open_world=False)
_CREATES = Annotations(read_only=False, destructive=False, idempotent=False, open_world=False)


def _builtin(
    name: str,
    description: str,
    arguments: JsonObject,
    result: JsonObject,
    *,
    required: Sequence[str] = (),
    annotations: Annotations = _READS,
) -> Tool:
    return Tool(
        tool_id=f"{BUILTIN_NAMESPACE}:{name}",
        toolset_id=BUILTIN_NAMESPACE,
        name=name.replace("_", " ").title(),
        description=description,
        input_schema=object_schema(arguments, required),
        schema_is_declared=True,
        output_schema=object_schema(result),
        annotations=annotations,
    )


_FILES: JsonObject = {
    "type": "array",
    "items": object_schema({"path": {"type": "string"}, "oid": {"type": "string"}}),
}
_MOVED: JsonObject = {"branch": {"type": "string"}, "manifest_id": _OR_NULL, "changes": _CHANGES}

_TOOLS: tuple[tuple[Tool, Callable[[Context, str, JsonObject], ToolOutcome]], ...] = (
    (
        _builtin(
            "branch",
            "Create a branch of the workspace without switching to it.",
            {
                "name": _text("Name of the new branch.", minLength=1),
                "start": _text("A commit or branch to start from. Default: the current files."),
            },
            {"name": {"type": "string"}, "manifest_id": _OR_NULL},
            required=["name"],
            annotations=_CREATES,
        ),
        branch,
    ),
    (
        _builtin(
            "checkout",
            "Switch to a branch. Uncommitted changes are first committed on the branch before.",
            {"branch": _text("Name of the branch.")},
            _MOVED,
            required=["branch"],
            annotations=_WRITES,
        ),
        checkout,
    ),
    (
        _builtin(
            "diff",
            "Compare two commits. Without arguments: the uncommitted changes. With only new: the "
            "changes of that commit.",
            {"old": _text("The commit or branch before."), "new": _MANIFEST},
            {"changes": _CHANGES},
        ),
        diff,
    ),
    (
        _builtin(
            "list_files",
            "List the files of the workspace.",
            {"manifest": _MANIFEST},
            {"files": _FILES, "empty_folders": {"type": "array", "items": {"type": "string"}}},
        ),
        list_files,
    ),
    (
        _builtin(
            "log",
            "List the newest commits (manifests) of the active or another branch, with their titles, authors and "
            "changed files; and the branches.",
            {
                "manifest": _text("The branch or commit to start from. Default: HEAD."),
                "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 20},
            },
            {
                "manifests": {"type": "array", "items": {"type": "object"}},
                "branches": {"type": "array", "items": {"type": "object"}},
                "active_branch": {"type": "string"},
            },
        ),
        log,
    ),
    (
        _builtin(
            "read_file",
            "Read a text file of the workspace.",
            {"path": _PATH, "manifest": _MANIFEST},
            {
                "path": {"type": "string"},
                "oid": {"type": "string"},
                "content": {"type": "string"},
            },
            required=["path"],
        ),
        read_file,
    ),
    (
        _builtin(
            "restore",
            "Restore files from an earlier commit, in a new commit. Uncommitted changes are committed first.",
            {
                "manifest": _text("A commit or a branch."),
                "paths": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Files and folders to restore. Default: all.",
                },
            },
            _MOVED,
            required=["manifest"],
            annotations=_WRITES,
        ),
        restore,
    ),
    (
        _builtin(
            "write_file",
            "Write a text file of the workspace, and commit it.",
            {
                "path": _PATH,
                "content": _text("The new text of the file."),
                "base": {
                    "type": ["string", "null"],
                    "description": "The oid of the file that was read: if the file has changed since, it "
                    "is not written. null: the file must not exist.",
                },
            },
            {
                "path": {"type": "string"},
                "oid": {"type": "string"},
                "manifest_id": _OR_NULL,
                "changed": {"type": "boolean"},
            },
            required=["path", "content"],
            annotations=_WRITES,
        ),
        write_file,
    ),
)

BUILTINS = {tool.tool_id: tool for tool, _ in _TOOLS}
"""The built-in tools by their ids, sorted."""

CREATES_CHAT = f"{BUILTIN_NAMESPACE}:write_file"
"""The only built-in tool that a client without a chat can call: it creates the chat."""

_RUNS = {tool.tool_id: run for tool, run in _TOOLS}


def run(context: Context, chat_id: str, tool: Tool, args: JsonObject) -> ToolOutcome:
    """Run a built-in tool on a chat.

    Raises:
        NeedsApprovalError: if a rule of the project requires approval.
        CovaltError: as the operation.
    """
    reasons = confirmation(context.project.config, tool, args)
    if reasons:
        raise NeedsApprovalError(
            f"{tool.tool_id} needs approval ({', '.join(reasons)}), but calls of built-in tools cannot be pending",
            hint=f"ask the user to make this change in the chat {chat_id} on the pages of covalt-git serve",
        )
    return _RUNS[tool.tool_id](context, chat_id, args)
