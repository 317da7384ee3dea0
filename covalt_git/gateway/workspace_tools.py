"""The built-in tools: the files, the history and the branches of the client's own chat.

An agent branches, looks back and goes back by itself with them.  They are decided about as
``workspace.read_file`` and so on, and what they change is saved as edits are everywhere.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from covalt_git.access import confirmation
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.gateway.tool_listing import object_schema
from covalt_git.git_objects import blob_id, is_binary_content
from covalt_git.manifests.toolset_files import readable
from covalt_git.models.tool import Tool
from covalt_git.models.toolset_manifest import Annotations
from covalt_git.names import BUILTIN_NAMESPACE
from covalt_git.paths import check_path
from covalt_git.workspaces import commit_names, restoring, trees
from covalt_git.workspaces.folders import Folder, read_entry
from covalt_git.workspaces.snapshot import why_not_stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from covalt_git.calls.engine import Engine
    from covalt_git.json_values import JsonObject
    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.workspaces.chats import ChatStore

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
class Done:
    """What a tool returns, and which files it changed on the way to which manifest."""

    value: JsonObject
    changes: Sequence[FileChange] = field(default=())
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


def list_files(_: Engine, chat: ChatStore, args: JsonObject) -> Done:
    """Return the paths of the files, and git's ids of their contents."""
    with _state(chat, args.get("manifest")) as (tree, empty_folders):
        files = trees.files(chat.store, tree)
    told = [{"path": readable(path), "oid": state.oid} for path, state in files.items()]
    return Done({"files": told, "empty_folders": [readable(path) for path in empty_folders]})


def read_file(_: Engine, chat: ChatStore, args: JsonObject) -> Done:
    """Return the text of a file."""
    path = args["path"]
    found = _content(chat, path, args.get("manifest"))
    if found is None:
        with _state(chat, args.get("manifest")) as (tree, _folders):
            known = [readable(one) for one in trees.files(chat.store, tree)]
        raise UnknownNameError("file", path, known, list_with="workspace.list_files")
    if len(found) > MOST_FILE_BYTES:
        raise UnreadableError(f"{path!r} has {len(found)} bytes", hint="read it as a resource")
    if is_binary_content(found):
        raise UnreadableError(f"{path!r} is no text", hint="read it as a resource")
    oid = blob_id(found, chat.store.object_format)
    return Done({"path": path, "oid": oid, "content": found.decode("utf-8", "replace")})


def _content(chat: ChatStore, path: str, named: str | None) -> bytes | None:
    """Return a file of a manifest, or as a snapshot of the folder would have it now; None: no such file."""
    if check_path(path).kind == "refused":
        return None
    if named is not None or not chat.workspace.is_dir():
        oid = chat.head() if named is None else commit_names.resolve(chat, named)
        state = chat.find_file(oid, path)
        return None if state is None else chat.store.read_blob(state.oid)
    try:
        with Folder.opened(chat.workspace) as root, root.parent_of(path) as (parent, name):
            found = read_entry(parent, name, os.lstat(name, dir_fd=parent))
    except OSError:
        return None
    if found is None or why_not_stored(path, found[1], chat.config):
        return None
    return found[1]


def write_file(engine: Engine, chat: ChatStore, args: JsonObject) -> Done:
    """Write a file as a manifest of its own."""
    path = args["path"]
    with engine.writing(chat) as writer:
        before = writer.save_edits()
        found = chat.find_file(before, path)
        oid = None if found is None else found.oid
        now = writer.edit_file(path, args["content"].encode(), before=args.get("base", oid))
    head = chat.head()
    told = {"path": path, "oid": now, "manifest_id": head, "changed": head != before}
    return Done(told, chat.changes(before, head), head)


def diff(_: Engine, chat: ChatStore, args: JsonObject) -> Done:
    """Return what differs between two states, with patches."""
    new = args.get("new")
    if "old" in args:
        old: str | None = commit_names.resolve(chat, args["old"])
    elif new is None:
        old = chat.head()
    else:
        old = chat.manifest(commit_names.resolve(chat, new)).parent_id
    with _state(chat, new) as (tree, _folders):
        changes = chat.tree_changes(chat.state(old).tree, tree)
        return Done({"changes": [*_with_patches(chat, changes)]})


def log(_: Engine, chat: ChatStore, args: JsonObject) -> Done:
    """Return the newest manifests of a branch."""
    named = args.get("manifest")
    start = chat.head() if named is None else commit_names.resolve(chat, named)
    told = [manifest_facts(chat, one) for one in islice(chat.log(start), args.get("limit", 20))]
    heads = [{"name": one.name, "manifest_id": one.manifest_id} for one in chat.branches()]
    return Done({"manifests": told, "branches": heads, "active_branch": chat.active_branch()})


def branch(engine: Engine, chat: ChatStore, args: JsonObject) -> Done:
    """Make a branch; the files stay as they are."""
    with engine.writing(chat) as writer:
        oid = commit_names.resolve(chat, args["start"]) if "start" in args else writer.save_edits()
        writer.create_branch(args["name"], oid)
    return Done({"name": args["name"], "manifest_id": oid})


def checkout(engine: Engine, chat: ChatStore, args: JsonObject) -> Done:
    """Bring the files to a branch."""
    with engine.writing(chat) as writer:
        changes = writer.checkout(args["branch"])
    head = chat.head()
    told = {"branch": chat.active_branch(), "manifest_id": head, "changes": _named(changes)}
    return Done(told, changes, head)


def restore(engine: Engine, chat: ChatStore, args: JsonObject) -> Done:
    """Bring files back to what they were."""
    with engine.writing(chat) as writer:
        oid = commit_names.resolve(chat, args["manifest"])
        done = restoring.restore(writer, oid, args.get("paths", ()))
    told = {
        "branch": done.branch,
        "manifest_id": done.manifest_id,
        "changes": _named(done.changes),
    }
    return Done(told, done.changes, done.manifest_id)


def manifest_facts(chat: ChatStore, manifest: WorkspaceManifest) -> JsonObject:
    """Return what is told of a manifest: what made it, and which files it changed."""
    return {
        "id": manifest.id,
        "parents": [*manifest.parents],
        "title": manifest.title,
        "created_at": manifest.created_at,
        "by": manifest.record.by,
        "changes": _named(chat.changes(manifest.parent_id, manifest.id)),
    }


@contextmanager
def _state(chat: ChatStore, named: str | None) -> Iterator[tuple[str | None, Sequence[str]]]:
    """Yield the tree and the empty folders of a manifest, or of the folder as it is now."""
    if named is not None:
        state = chat.state(commit_names.resolve(chat, named))
        yield state.tree, state.empty_folders
        return
    with chat.looking() as seen:
        yield seen.tree, seen.notes.empty_folders


def _named(changes: Sequence[FileChange]) -> list[JsonObject]:
    return [{"path": readable(one.path), "kind": one.kind} for one in changes[:MOST_PATHS]]


def _with_patches(chat: ChatStore, changes: Sequence[FileChange]) -> Iterator[JsonObject]:
    left = MOST_PATCH_CHARACTERS
    for change in changes[:MOST_PATHS]:
        told: JsonObject = {"path": readable(change.path), "kind": change.kind}
        sides = [chat.store.read_blob(one.oid) for one in (change.old, change.new) if one]
        if left > 0 and all(len(side) <= MOST_FILE_BYTES for side in sides):
            patch = chat.patch(change)
            left -= len(patch)
            if left > 0:
                told["patch"] = patch
        yield told


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

_TOOLS: tuple[tuple[Tool, Callable[[Engine, ChatStore, JsonObject], Done]], ...] = (
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

_RUNS = {tool.tool_id: run for tool, run in _TOOLS}


def run(engine: Engine, chat: ChatStore, tool: Tool, args: JsonObject) -> Done:
    """Run a built-in tool on a chat.

    Raises:
        NeedsPersonError: when a rule of the project has a person asked.
        CovaltError: when it cannot be done.
    """
    reasons = confirmation(engine.config, tool, args)
    if reasons:
        raise NeedsPersonError(
            f"{', '.join(reasons)} a person, who has to do this",
            hint=f"on the pages of covalt-git serve, or covalt-git chat --help, in {chat.id}",
        )
    return _RUNS[tool.tool_id](engine, chat, args)
