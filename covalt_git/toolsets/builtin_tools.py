"""Built-in tools: the files, the history and the branches of a chat's workspace.

They belong to no toolset, and run in the process of covalt-git.  The access check uses their ids, such as
``workspace:read_file``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.json_values import object_schema
from covalt_git.models.tool import Tool
from covalt_git.models.tool_properties import EVERY_CALLER, Annotations, Caller
from covalt_git.names import BUILTIN_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.json_values import JsonObject

NAME = "Built-in"
"""Name of their group in lists of tools."""


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


_READS = Annotations(read_only=True, destructive=False, idempotent=True, open_world=False)
_WRITES = Annotations(read_only=False, destructive=False, idempotent=True, open_world=False)
_RUNS = Annotations(read_only=False, destructive=False)
"""Of a script: its calls can do more, and each is decided by itself."""
_CREATES = Annotations(read_only=False, destructive=False, idempotent=False, open_world=False)


def _builtin(
    name: str,
    description: str,
    arguments: JsonObject,
    result: JsonObject | None,
    *,
    required: Sequence[str] = (),
    annotations: Annotations = _READS,
    callers: tuple[Caller, ...] = EVERY_CALLER,
) -> Tool:
    return Tool(
        tool_id=f"{BUILTIN_NAMESPACE}:{name}",
        toolset_id=BUILTIN_NAMESPACE,
        name=name.replace("_", " ").title(),
        description=description,
        input_schema=object_schema(arguments, required),
        kind="builtin",
        schema_is_declared=True,
        # A recorded result cannot contain the id of its own commit; only MCP clients get it with the result.
        output_schema=result
        and object_schema(result, [name for name in result if name != "manifest_id"]),
        annotations=annotations,
        annotations_are_own=True,
        callers=callers,
    )


_FILES: JsonObject = {
    "type": "array",
    "items": object_schema({"path": {"type": "string"}, "oid": {"type": "string"}}),
}
_MOVED: JsonObject = {"branch": {"type": "string"}, "manifest_id": _OR_NULL, "changes": _CHANGES}

_TOOLS = (
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
    _builtin(
        "checkout",
        "Switch to a branch. Uncommitted changes are first committed on the active branch.",
        {"branch": _text("Name of the branch.")},
        _MOVED,
        required=["branch"],
        annotations=_WRITES,
        callers=("direct",),  # the calls of a script are on its branch
    ),
    _builtin(
        "diff",
        "Compare two commits. Without arguments: the uncommitted changes. With only new: the "
        "changes of that commit.",
        {"old": _text("The commit or branch before."), "new": _MANIFEST},
        {"changes": _CHANGES},
    ),
    _builtin(
        "list_files",
        "List the files of the workspace.",
        {"manifest": _MANIFEST},
        {"files": _FILES, "empty_folders": {"type": "array", "items": {"type": "string"}}},
    ),
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
    _builtin(
        "run_script",
        "Run a script with tools.search({query}), tools.describe.tool({path}), tools.PATH({...}). "
        "Pauses for approvals. See covalt://guide/scripts.",
        {
            "script": {"type": "string"},
            "language": {"enum": ["python", "javascript"], "default": "python"},
            "args": {"type": "object"},
        },
        # Without a schema of the result: search mode lists this tool in each conversation, and it has to be short.
        None,
        required=["script"],
        annotations=_RUNS,
        callers=("direct",),
    ),
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
)

BUILTINS = {tool.tool_id: tool for tool in _TOOLS}
"""The built-in tools by their ids, sorted."""

_WRITE_FILE = f"{BUILTIN_NAMESPACE}:write_file"
RUN_SCRIPT = f"{BUILTIN_NAMESPACE}:run_script"
"""The tool whose call is a script, which makes other calls."""

READ_FILE = f"{BUILTIN_NAMESPACE}:read_file"

CREATE_CHATS = frozenset({_WRITE_FILE, RUN_SCRIPT})
"""The built-in tools that an MCP client without a chat can call: they create the chat."""

RECORDED = frozenset({f"{BUILTIN_NAMESPACE}:restore", _WRITE_FILE, RUN_SCRIPT})
"""The built-in tools whose calls are commits; calls of the others are not recorded."""


def is_recorded(tool_id: str) -> bool:
    """Return whether calls of a tool are recorded in commits; ``tool_id`` is its id or path."""
    name = tool_id.replace(".", ":", 1)
    return name not in BUILTINS or name in RECORDED
