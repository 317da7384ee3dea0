"""Outcomes of calls: their errors, their records in commits, and the results for callers."""

from __future__ import annotations

import json
import re
import shlex
import stat
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.access.grants import Granted, granted, rule_of
from covalt_git.calls import tool_grants
from covalt_git.errors import CovaltError, failure_text, listed
from covalt_git.git_store.objects import FILE
from covalt_git.hosts import BadHostError, origin_of
from covalt_git.json_values import leaves
from covalt_git.json_values.storable import storable
from covalt_git.models.calls import Approval, CallError, PendingCall, RenderPlan, ToolCall
from covalt_git.models.commit_record import CallRecord, WorkspaceNotes
from covalt_git.render.plan import plan
from covalt_git.toolsets.toolset_copies import ToolsetCopy
from covalt_git.workspaces import commits
from covalt_git.workspaces.folders import folders_above
from covalt_git.workspaces.trees import FolderState

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.calls.running import Cancel
    from covalt_git.catalog.catalog import Found
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.models.outcomes import Outcome
    from covalt_git.models.tool import Tool
    from covalt_git.toolsets.toolset import Toolset
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.snapshot import Snapshot
    from covalt_git.workspaces.writer import Writer

_NO_SECRET = re.compile(r"SecretNotGranted: .*? '(?P<name>\w+)'")
_NOT_CONNECTED = re.compile(
    "Connection refused|Network is unreachable|egress_refused|Name or service not known"
    "|Temporary failure in name resolution|was not granted to this toolset"
    "|ECONNREFUSED|ENETUNREACH|ENOTFOUND|EAI_AGAIN|no such host"
)
"""Messages of a connection that the sandbox refused; also of one that a granted server refused."""

_NO_FILE = re.compile(
    "No such file or directory|FileNotFoundError|ENOENT|Permission ?denied|PermissionError|EACCES|EPERM"
    "|Read-only file system|EROFS",
    re.IGNORECASE,
)
"""Messages of a file that the sandbox does not show, or that may not be written."""

_RETURNED_FILE = re.compile(r"files/(?P<hash>[0-9a-f]{16})\.[A-Za-z0-9]+")
"""Paths that ``save`` of ``covalt_toolset/files.py`` writes: the beginning of the content's SHA-256, an extension."""

_URL = r"(?P<url>https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)(?::\d+)?)"
_REFUSED_HOST = re.compile(_URL + " was not granted to this toolset")
_HOST = re.compile(
    _URL + r"|(?:ENOTFOUND|EAI_AGAIN|lookup)[ ]?(?P<host>[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)"
    r"|(?P<local>(?:localhost|127\.0\.0\.1|\[::1\]):\d+)"
)
"""A host in such a message of Node, Go or the egress proxy."""

_LONGEST_ARGUMENTS = 500
"""Arguments with more characters are left out of a command, which has one line."""

_SILENT = frozenset({"denied", "expired", "interrupted"})
"""Codes of errors whose outcome no caller received, so that its notes were not reported."""


class CallOutcome(NamedTuple):
    """A call: finished, with the files that it changed, or pending, with its approval.

    ``notes`` are notes about the workspace that no earlier call of the branch reported.  A ``repeated`` call
    already ran under the same id, so that nothing ran now.  ``sandbox`` is the level at which it ran, if any.
    ``parent`` is the script that made the call.
    """

    call: ToolCall
    approval: Approval | None = None
    changes: tuple[FileChange, ...] = ()
    notes: WorkspaceNotes = WorkspaceNotes()
    error: CallError | None = None
    output: str = ""
    repeated: bool = False
    sandbox: SandboxLevel | None = None
    parent: str | None = None


def as_recorded(chat: ChatStore, manifest: WorkspaceManifest) -> CallOutcome:
    """Return the outcome of the call that a commit records."""
    tool_call, record = manifest.tool_call, manifest.record.call
    assert tool_call is not None
    assert record is not None
    return CallOutcome(
        tool_call,
        changes=tuple(chat.changes(manifest.parent_id, manifest.id)),
        notes=fresh_notes(chat, manifest),
        error=record.error,
        output=record.output,
        sandbox=record.sandbox,
        parent=record.parent,
    )


def fresh_notes(chat: ChatStore, manifest: WorkspaceManifest) -> WorkspaceNotes:
    """Return the notes about a call's workspace, except those that an earlier call of its branch reported.

    They include notes about the user's changes since the last call.  A note counts as reported only if a
    caller received the outcome.
    """
    notes = manifest.record.workspace
    if notes == WorkspaceNotes():
        return notes
    for earlier in chat.log(manifest.parent_id):
        call = earlier.record.call
        if call is not None and (call.error is None or call.error.code not in _SILENT):
            return notes.without(earlier.record.workspace)
    return notes


def record_of(
    writer: Writer,
    call: PendingCall,
    target: Found,
    outcome: Outcome,
    error: CallError | None,
    *,
    level: SandboxLevel | None,
    read: str | None,
) -> CallRecord:
    """Return the record of a call that ran at a sandbox level, on the files of the commit ``read``."""
    # A failed tool may still return a result; a tool that was cancelled or broke a limit may not.
    result = outcome.result if error is None or outcome.status == "error" else None
    render_plan = plan(
        target.tool.renderer, args=call.args, result=result, chat_id=call.chat_id, error=error
    )
    return CallRecord(
        tool_id=call.tool_id,
        args=call.args,
        result=result,
        render_plan=render_plan and _with_stored_artifact(render_plan, target, writer),
        status="error" if error else "success",
        error=error,
        output=_as_text(outcome.output),
        started_at=call.started_at,
        finished_at=commits.now(),
        sandbox=level,
        toolset=call.toolset,
        execution_id=call.execution_id,
        base=read,
        parent=call.parent,
        line=call.line,
        waived_by=call.waived_by,
        token=call.token,
        role=call.role,
        asked=outcome.asked,
        links=outcome.links if result is not None else (),
        fields=target.tool.fields if error is None else (),
    )


def unrecorded(problem: Exception) -> CallError:
    """Return the error of a call whose tool has started, and whose outcome is unknown because of a failure here."""
    why = problem.message if isinstance(problem, CovaltError) else failure_text(problem)
    return CallError(
        code="internal_error",
        message=f"covalt-git failed after the tool had started: {why}; the tool may have had its effect",
        hint="check the effect before you call the tool again",
    )


def record_of_problem(call: PendingCall, outcome: Outcome, problem: Exception) -> CallRecord:
    """Return the record of a call that has run, and that cannot be recorded as it ended; it has the result."""
    error = unrecorded(problem)
    record = commits.unfinished(call, error.code, error.message)
    return record.model_copy(
        update={"error": error, "result": outcome.result, "output": _as_text(outcome.output)}
    )


def encodable(record: CallRecord) -> CallRecord:
    """Return a record in a form that canonical JSON can represent; its output has a note about each difference."""
    value, notes = storable(record.model_dump())
    value["output"] += "".join(f"note: {note}\n" for note in notes)
    return CallRecord.model_validate(value)


def why_failed(
    outcome: Outcome, target: Found, args: JsonObject, cancel: Cancel
) -> CallError | None:
    """Return the error of a failed run with these arguments, with a hint if a module or a grant is missing."""
    error = outcome.error
    if error is None:
        return None
    if error.code == "cancelled":
        return error.model_copy(update={"message": cancel.why})
    message = error.message
    if target.tool.kind == "mcp":
        message += f"\n{outcome.output}"  # the sandbox reports there what it refused
    hint = _hint(message, target.toolset, target.tool, args)
    return error.model_copy(update={"hint": hint}) if hint else error


def _hint(message: str, toolset: Toolset, tool: Tool, args: JsonObject) -> str:
    if "No module named" in message and tool.kind == "python":
        return f"add its package to python.dependencies of {toolset.id}/toolset.yaml"
    may = granted(toolset.id, toolset.state, toolset.digest)
    grant = f"covalt-git grant add {toolset.id}"
    if secret := _NO_SECRET.match(message):
        return _secret_hint(secret["name"], toolset, may)
    if tool.kind == "mcp":
        return _program_hint(message, toolset, tool, args)
    if _NOT_CONNECTED.search(message):
        if "network" in may.stale:
            return f"{grant} --again"
        return f"Python tools reach granted hosts only; if this one is not granted: {grant} network HOST"
    return ""


def _program_hint(message: str, toolset: Toolset, tool: Tool, args: JsonObject) -> str:
    """Return a hint about a connection or a file that the program of an MCP server could not open."""
    is_host = bool(_NOT_CONNECTED.search(message))
    if not is_host and not _NO_FILE.search(message):
        return ""
    level = tool_grants.program_level(toolset, tool)
    if level is None or level == "process":
        return ""
    grant = f"covalt-git grant add {toolset.id}"
    name = tool.upstream or tool.id.name
    arguments = json.dumps(args)
    call = (name, arguments if len(arguments) <= _LONGEST_ARGUMENTS else "JSON")
    observe = (
        f"covalt-git source observe {toolset.id}/{tool.id.namespace} --call {shlex.join(call)}"
    )
    if not is_host:
        return f"the program sees its own files and granted folders only; this shows what it lacks: {observe}"
    if level != "full":
        return (
            f"at the sandbox level {level!r} the program has no network; to run it without a sandbox:"
            f" {grant} unsandboxed {tool.server}"
        )
    host = _named_host(message)
    return (
        "the program reaches granted hosts only, and only by the proxy of HTTPS_PROXY; this shows what it lacks:"
        f" {observe}; if this host is not granted: {grant} server {tool.server} --host {host}"
    )


def _named_host(message: str) -> str:
    """Return the host of a refused connection as a grant names it, with its port; HOST if the message has none."""
    # The report of the proxy first: the program may print other URLs before it.
    match = _REFUSED_HOST.search(message) or _HOST.search(message)
    if match is None:
        return "HOST"
    parts = match.groupdict()
    if parts.get("host"):
        return parts["host"]
    try:
        return rule_of(origin_of(parts["url"] or f"http://{parts['local']}")[0])
    except BadHostError:
        return "HOST"


def _secret_hint(name: str, toolset: Toolset, may: Granted) -> str:
    """Return a hint how a toolset gets a secret that its Python tool lacks."""
    if toolset.manifest is None or name not in toolset.manifest.secrets:
        return f"declare {name} under secrets in toolsets/{toolset.id}/toolset.yaml"
    if name in may.secrets:
        return f"{name} is granted but not set: covalt-git secret list"
    return (
        f"covalt-git grant add {toolset.id} {'--again' if 'secret' in may.stale else '--requested'}"
    )


def returned_files(
    chat: ChatStore, files_before: FolderState, files_after: Snapshot, result: Any
) -> dict[str, bytes]:
    """Return the files that a read-only tool only returned, such as an ``Image``, with their paths.

    A tool returns bytes as a new file that its result refers to, and that is named by the hash of its content
    (``covalt_toolset/files.py``).  If anything else has changed, no file is returned.
    """
    referred = {text for _, text in leaves(result) if isinstance(text, str)}
    contents: dict[str, bytes] = {}
    for change in chat.tree_changes(files_before.tree, files_after.tree):
        name, file = _RETURNED_FILE.fullmatch(change.path), change.new
        if name is None or file is None or change.path not in referred:
            return {}
        if change.old is not None or file.mode != FILE:
            return {}
        content = chat.store.read_blob(file.oid)
        if not sha256(content).hexdigest().startswith(name["hash"]):
            return {}
        contents[change.path] = content
    folders = {folder for path in contents for folder in folders_above(path)}
    empty_before = tuple(path for path in files_before.empty_folders if path not in folders)
    rest = FolderState(files_after.tree, empty_before)
    return contents if files_after.holds(rest) else {}


def read_only_violation(
    chat: ChatStore, files_before: FolderState, files_after: Snapshot, error: CallError | None
) -> CallError:
    """Return the error of a tool that is declared read-only but changed the workspace."""
    paths = [change.path for change in chat.tree_changes(files_before.tree, files_after.tree)]
    return CallError(
        code="not_read_only",
        message=f"the tool is declared read-only, but it wrote {listed(paths) or 'empty folders'}",
        hint="its changes were undone; declare read_only: false in its annotations",
        traceback=error.traceback if error else "",
    )


def _with_stored_artifact(render_plan: RenderPlan, target: Found, writer: Writer) -> JsonObject:
    """Store the artifact's bytes and return the plan with their id: updates must not change old results."""
    artifact = render_plan.config.get("artifact")
    if isinstance(artifact, str) and artifact.startswith("toolset:"):
        path = artifact.removeprefix("toolset:")
        try:
            # From the copy of the digest that ran, because the author may have edited the toolset's folder meanwhile.
            content = ToolsetCopy.of(target.toolset).read(path)
        except FileNotFoundError:
            problem = f"the toolset has no file {path!r}"
            render_plan = render_plan.model_copy(update={"error": problem})
        except CovaltError as error:
            render_plan = render_plan.model_copy(update={"error": error.message})
        else:
            stored = writer.chat.records.keep(content)
            render_plan = render_plan.model_copy(update={"artifact": stored})
    return render_plan.model_dump(mode="json", exclude_none=True)


def has_workspace(folder: Path) -> bool:
    """Return whether the workspace is still a folder; anything else in its place is deleted."""
    with suppress(FileNotFoundError):
        # lstat: a tool may have replaced the folder by a link to a folder outside of the chat, which the scan must
        # not follow (test_deleting_the_workspace_fails_the_call_and_touches_nothing_outside).
        if stat.S_ISDIR(folder.lstat().st_mode):
            return True
        folder.unlink()
    return False


def _as_text(output: str) -> str:
    """Return printed text without surrogates, which UTF-8 cannot encode."""
    return output.encode("utf-8", "replace").decode()
