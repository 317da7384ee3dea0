"""The built-in tools: the files, the history and the branches of the client's own chat.

An agent branches, looks back and goes back by itself with them.  They are decided about as
``workspace.read_file`` and so on, and what they change is saved as edits are everywhere.
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
"""How large a file may be that a tool returns; a resource may be larger."""

MOST_PATCH_CHARACTERS = 256 << 10
"""How long all patches of one answer are at most; the files beyond are named."""

MOST_PATHS = 2000
"""How many changed paths one answer names."""


class NeedsPersonError(CovaltError):
    """A rule of the project wants a person to be asked, which these tools cannot wait for."""

    code = "needs_person"
    http_status = 403


class UnreadableError(CovaltError):
    """A file that cannot be returned as text."""

    code = "unreadable"


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool returns, and which files it changed on the way to which manifest."""

    value: JsonObject
    changes: Sequence[Change] = field(default=())
    manifest_id: str | None = None


def _text(description: str, **more: Any) -> JsonObject:
    return {"type": "string", "description": description, **more}


_OR_NULL: JsonObject = {"type": ["string", "null"]}
_PATH = _text("Path of a file, relative to the workspace.", minLength=1)
_MANIFEST = _text(
    "A branch, HEAD, the id of a manifest or its beginning, or the id of a call. "
    "Left out: the files as they are now."
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
    """Return the paths of the files, and git's ids of their contents."""
    manifest = args.get("manifest", "")
    found = files.get_workspace_files(context, chat_id=chat_id, manifest=manifest)
    listed = [{"path": one.path, "oid": one.oid} for one in found.files]
    return ToolOutcome({"files": listed, "empty_folders": [*found.empty_folders]})


def read_file(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Return the text of a file."""
    path, manifest = args["path"], args.get("manifest", "")
    file = files.get_workspace_file(context, chat_id=chat_id, path=path, manifest=manifest)
    if file.size > MOST_FILE_BYTES:
        raise UnreadableError(f"{path!r} has {file.size} bytes", hint="read it as a resource")
    content = file.stream.read()
    if is_binary_content(content):
        raise UnreadableError(f"{path!r} is no text", hint="read it as a resource")
    text = content.decode("utf-8", "replace")
    return ToolOutcome({"path": path, "oid": file.etag, "content": text})


def write_file(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Write a file as a manifest of its own."""
    done = edits.update_workspace_file(
        context,
        chat_id=chat_id,
        path=args["path"],
        content=args["content"],
        base=args.get("base"),
        overwrite="base" not in args,
    )
    facts = done.model_dump(include={"oid", "manifest_id", "changed"})
    return ToolOutcome({"path": args["path"], **facts}, done.changes, done.manifest_id)


def diff(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Return what differs between two states, with patches."""
    old, new = args.get("old"), args.get("new", "")
    if old is None and new:
        shown = manifests.get_workspace_manifest(context, chat_id=chat_id, manifest=new)
        old = shown.parents[0] if shown.parents else ""
    old = "HEAD" if old is None else old
    found = files.get_workspace_diff(context, chat_id=chat_id, old=old, new=new)
    return ToolOutcome({"changes": [*_with_patches(found.changes)]})


def log(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Return the newest manifests of a branch."""
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
    """Make a branch; the files stay as they are."""
    name, start = args["name"], args.get("start")
    made = branches.create_branch(context, chat_id=chat_id, name=name, from_manifest=start)
    return ToolOutcome({"name": made.name, "manifest_id": made.manifest_id})


def checkout(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Bring the files to a branch."""
    done = branches.switch_branch(context, chat_id=chat_id, branch=args["branch"])
    return _moved(done.branch, done.manifest_id, done.changes)


def restore(context: Context, chat_id: str, args: JsonObject) -> ToolOutcome:
    """Bring files back to what they were."""
    manifest, paths = args["manifest"], args.get("paths", ())
    done = edits.restore_workspace(context, chat_id=chat_id, manifest=manifest, paths=paths)
    return _moved(done.branch, done.manifest_id, done.changes)


def manifest_facts(manifest: ManifestRow) -> JsonObject:
    """Return what is told of a manifest: what made it, and which files it changed."""
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
_MAKES = Annotations(read_only=False, destructive=False, idempotent=False, open_world=False)


def _builtin(
    name: str,
    description: str,
    takes: JsonObject,
    gives: JsonObject,
    *,
    needed: Sequence[str] = (),
    annotations: Annotations = _READS,
) -> Tool:
    return Tool(
        tool_id=f"{BUILTIN_NAMESPACE}:{name}",
        toolset_id=BUILTIN_NAMESPACE,
        name=name.replace("_", " ").title(),
        description=description,
        input_schema=object_schema(takes, needed),
        schema_is_declared=True,
        output_schema=object_schema(gives),
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
            "Make a branch of the workspace; the files stay as they are.",
            {
                "name": _text("Name of the new branch.", minLength=1),
                "start": _text("Where it begins. Left out: what is there now."),
            },
            {"name": {"type": "string"}, "manifest_id": _OR_NULL},
            needed=["name"],
            annotations=_MAKES,
        ),
        branch,
    ),
    (
        _builtin(
            "checkout",
            "Bring the files to a branch. What was edited is saved on the branch before.",
            {"branch": _text("Name of the branch.")},
            _MOVED,
            needed=["branch"],
            annotations=_WRITES,
        ),
        checkout,
    ),
    (
        _builtin(
            "diff",
            "Tell what differs between two states of the files. Without arguments: what was edited "
            "since the last manifest. With only new: what that manifest changed.",
            {"old": _text("The state before: a manifest or a branch."), "new": _MANIFEST},
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
            "Tell what happened: the newest manifests of the active branch or of another one, each a "
            "state of the files with what made it; and the branches.",
            {
                "manifest": _text("Where to begin: a branch or a manifest."),
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
            needed=["path"],
        ),
        read_file,
    ),
    (
        _builtin(
            "restore",
            "Bring files back to what they were in a manifest, as a new state: nothing is lost.",
            {
                "manifest": _text("A manifest or a branch."),
                "paths": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Files and folders to bring back. Left out: all.",
                },
            },
            _MOVED,
            needed=["manifest"],
            annotations=_WRITES,
        ),
        restore,
    ),
    (
        _builtin(
            "write_file",
            "Write a text file of the workspace; the history keeps what it was.",
            {
                "path": _PATH,
                "content": _text("The whole text."),
                "base": {
                    "type": ["string", "null"],
                    "description": "The oid that was read: where the file is another by now, nothing "
                    "is written. null: there is to be no such file.",
                },
            },
            {
                "path": {"type": "string"},
                "oid": {"type": "string"},
                "manifest_id": _OR_NULL,
                "changed": {"type": "boolean"},
            },
            needed=["path", "content"],
            annotations=_WRITES,
        ),
        write_file,
    ),
)

BUILTINS = {tool.tool_id: tool for tool, _ in _TOOLS}
"""The built-in tools by their ids, sorted."""

CREATES_CHAT = f"{BUILTIN_NAMESPACE}:write_file"
"""The built-in tool that a client without a chat can call; it creates the chat."""

_RUNS = {tool.tool_id: run for tool, run in _TOOLS}


def run(context: Context, chat_id: str, tool: Tool, args: JsonObject) -> ToolOutcome:
    """Run a built-in tool on a chat.

    Raises:
        NeedsPersonError: when a rule of the project has a person asked.
        CovaltError: when it cannot be done.
    """
    reasons = confirmation(context.project.config, tool, args)
    if reasons:
        raise NeedsPersonError(
            f"{', '.join(reasons)} a person, who has to do this",
            hint=f"change the chat {chat_id} on the pages of covalt-git serve",
        )
    return _RUNS[tool.tool_id](context, chat_id, args)
