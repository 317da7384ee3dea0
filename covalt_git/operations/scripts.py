"""Operations on scripts: list, show, continue, cancel and replay them; a call of workspace:run_script starts one."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from covalt_git.calls.running import RUNNING
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import JsonObject
from covalt_git.models.scripts import Language, ScriptRecord
from covalt_git.operations.calls import script_calls
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, operation
from covalt_git.operations.results import DamagedChat
from covalt_git.runtime.scripts.stubs import StubTool, python_stubs, typescript_stubs
from covalt_git.scripts import source_check, stored_script, tool_paths
from covalt_git.scripts.replay import Divergence, replay
from covalt_git.scripts.script_run import check_size, limits_of, paused_outcome, scripted_calls
from covalt_git.scripts.stored_script import StoredScript
from covalt_git.toolsets.builtin_tools import RUN_SCRIPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.catalog.catalog import Catalog
    from covalt_git.models.calls import Approval
    from covalt_git.models.commit_record import CallRecord
    from covalt_git.models.scripts import OpenScript, SettledCall
    from covalt_git.models.tool import Tool
    from covalt_git.workspaces.chat import ChatStore

ScriptState = Literal["running", "paused", "interrupted", "success", "error"]


_LEAST_PART = 4  # shorter parts of an id match by chance
_MOST_NAMED = 5


class ListScripts(Request):
    """Request: the chat whose scripts to list, all chats without one; and whether those that have ended are listed too."""

    chat_id: str | None = Field(None, max_length=200)
    ended: bool = False
    limit: int = Field(100, ge=1, le=1000, description="Most ended scripts, the newest ones.")


class GetScript(Request):
    """Request: a script; the beginning or the end of its id is enough."""

    script_id: str = Field(max_length=200)


class GetStubs(Request):
    """Request: the language of the scripts; typescript declares the tools for scripts in JavaScript."""

    language: Literal["python", "typescript"] = "python"


class CheckScript(Request):
    """Request: a script to check."""

    script: str
    language: Language = "python"


class ScriptRow(Result):
    """A script."""

    id: str
    chat_id: str
    branch: str
    language: Language
    state: ScriptState
    by: str = Field(description="Who started it: its calls have the rights of this principal.")
    role: str | None
    started_at: str
    calls: int = Field(description="Number of its calls that have ended.")
    execution_id: str | None = Field(description="The approval for which it waits.")
    waits_for: str | None = Field(description="The tool of that call.")
    waits_line: int | None = Field(description="The line of the source that made that call.")


class ScriptList(Result):
    """Scripts, oldest first."""

    scripts: tuple[ScriptRow, ...]
    damaged: tuple[DamagedChat, ...]


class ScriptLine(Result):
    """A call of a script, and the line of the source that made it."""

    line: int | None
    path: str
    status: str
    call_id: str | None
    execution_id: str | None = Field(description="The approval for which the call waits.")
    waived_by: str | None = Field(description="The approval of an earlier call that allowed it.")
    waited_s: int | None = Field(description="Seconds for which it waited for its approval.")


class AllowedCalls(Result):
    """Further calls of a tool that a reviewer allowed with the approval of a call."""

    tool_id: str
    left: int
    same: JsonObject = Field(description="Arguments that must be these.")
    decided_by: str
    execution_id: str


class ScriptDetail(ScriptRow):
    """A script: its source, the state of each call at its line, and its result so far."""

    source: str
    args: JsonObject
    result: JsonObject = Field(
        description="success, value or error, calls, logs, and paused, as of workspace:run_script."
    )
    lines: tuple[ScriptLine, ...]
    allowances: tuple[AllowedCalls, ...]


class ScriptReplayed(Result):
    """A replay of an ended script against its records; nothing was executed."""

    script_id: str
    calls: int = Field(description="Number of calls that were the same.")
    divergence: str | None = Field(
        description="The first difference; null if the run was the same."
    )
    line: int | None


class ScriptStubs(Result):
    """Declarations of the tools that scripts of the role can call, for editors and type checkers."""

    language: str
    text: str
    tools: int


class ScriptProblem(Result):
    """Why a script would fail; line and column count from 1, as far as they are known."""

    line: int | None
    col: int | None
    code: str
    message: str


class ScriptChecked(Result):
    """The check of a script, which was not run; without problems, it can fail nevertheless."""

    problems: tuple[ScriptProblem, ...]


@operation()
def list_scripts(context: Context, request: ListScripts) -> ScriptList:
    """List the scripts that have not ended; with ``ended``, also the newest that have."""
    chats = context.project.chats
    rows, damaged = [], {}
    for chat_id in chats.ids() if request.chat_id is None else [request.chat_id]:
        try:
            chat = context.chat(chat_id)
            stored = [StoredScript.read(chat, each) for each in stored_script.script_ids(chat)]
            rows += [
                _row(chat, each)
                for each in stored
                if each is not None and script_calls.is_visible(context.visibility, chat, each)
            ]
        except CovaltError as error:
            if request.chat_id is not None:
                raise
            damaged[chat_id] = error
    if request.ended:
        rows += _ended_rows(context, request)
        rows.sort(key=lambda row: (row.started_at, row.id))
    return ScriptList(scripts=tuple(rows), damaged=DamagedChat.each(damaged.items()))


@operation(errors=(404,))
def get_script(context: Context, request: GetScript) -> ScriptDetail:
    """Return one script: what it has done so far, and what it waits for; or how it ended."""
    chat, script_id, stored = _find(context, request.script_id)
    return _ended(context, chat, script_id) if stored is None else _detail(chat, stored)


@operation(changes=True, errors=(404, 409), needs=(RUN_SCRIPT,))
def continue_script(context: Context, request: GetScript) -> ScriptDetail:
    """Continue a script whose process ended, or whose call was decided; finished calls do not run again.

    Its calls have the rights of the principal that started it, and each is checked again.
    """
    chat, script_id, stored = _find(context, request.script_id)
    if stored is None:
        return _ended(context, chat, script_id)
    _require_own(context, stored.script, "continue")
    try:
        outcome = script_calls.continue_script(context, chat, script_id)
    finally:
        context.update_index(chat)
    return _after(context, chat, script_id, outcome)


@operation(changes=True, errors=(404, 409), needs=(RUN_SCRIPT,))
def cancel_script(context: Context, request: GetScript) -> ScriptDetail:
    """End a script: its pending calls never run; one that runs in this process ends after its call."""
    chat, script_id, stored = _find(context, request.script_id)
    if stored is None:
        return _ended(context, chat, script_id)
    _require_own(context, stored.script, "cancel")
    if RUNNING.tool_of(script_id, chat_id=chat.id) is not None:
        RUNNING.cancel(script_id)
        return _detail(chat, stored)
    try:
        outcome = script_calls.cancel_script(context, chat, script_id)
    finally:
        context.update_index(chat)
    return _after(context, chat, script_id, outcome)


@operation(changes=True, errors=(404, 409), needs=(RUN_SCRIPT,))
def replay_script(context: Context, request: GetScript) -> ScriptReplayed:
    """Run an ended script against its records, and return the first divergence; no call is executed."""
    chat, script_id, stored = _find(context, request.script_id)
    if stored is not None:
        raise CovaltError(
            f"the script {stored.script.id} has not ended",
            hint=f"covalt-git script show {stored.script.id}",
            code="script_not_ended",
            http_status=409,
        )
    manifest_id, record = _record(context, chat, script_id)
    limits = limits_of(context.project.config)
    calls, divergence = replay(chat, record, chat.manifest(manifest_id), limits)
    divergence = divergence or Divergence("", None)
    return ScriptReplayed(
        script_id=script_id,
        calls=calls,
        divergence=divergence.why or None,
        line=divergence.line,
    )


@operation()
def get_script_stubs(context: Context, request: GetStubs) -> ScriptStubs:
    """Return declarations of the tools that scripts of the role can call: a tools.pyi, or declarations of TypeScript."""
    catalog = context.catalog
    tools = [
        StubTool(name, tool.description, tool.input_schema, tool.output_schema)
        for name, tool in (
            (name, catalog.with_target(tool)) for name, tool in _names(catalog).items()
        )
    ]
    write = python_stubs if request.language == "python" else typescript_stubs
    return ScriptStubs(language=request.language, text=write(tools), tools=len(tools))


def _names(catalog: Catalog) -> dict[str, Tool]:
    """Return the tools of scripts by their paths, with `_` for `-` where that means no other tool."""
    tools = tool_paths.callable_tools(catalog)
    words = Counter(path.replace("-", "_") for path in tools)
    return {
        word if words[word := path.replace("-", "_")] == 1 else path: tool
        for path, tool in tools.items()
    }


@operation(changes=True, needs=(RUN_SCRIPT,))
def check_script(context: Context, request: CheckScript) -> ScriptChecked:
    """Return what is certainly wrong with a script: syntax, unknown paths and names of arguments; no call is made."""
    check_size(context.project.config, request.script)
    limits = limits_of(context.project.config)
    found = source_check.check(context.catalog, request.script, request.language, limits)
    return ScriptChecked(problems=tuple(map(ScriptProblem.of, found)))


def _ended_rows(context: Context, request: ListScripts) -> Iterator[ScriptRow]:
    """Yield the newest ended scripts that the role may see."""
    left = request.limit
    index = context.chat_index()
    index.sync_chats()
    for chat_id, script_id in index.ended_calls(RUN_SCRIPT):
        if left == 0:
            break
        if request.chat_id in {None, chat_id} and context.project.chats.has(chat_id):
            try:
                # A row has no lines, so the approvals need not be read.
                row = ScriptRow.of(_ended(context, context.chat(chat_id), script_id, waits={}))
            except CovaltError:
                # Hidden, or deleted since, or its record was not fetched: it is shown by its id, with the error.
                continue
            left -= 1
            yield row


def _find(context: Context, text: str) -> tuple[ChatStore, str, StoredScript | None]:
    """Return the chat, the id and the state of a script; the state is None if it has ended.

    Raises:
        UnknownNameError: if it does not exist for the role.
        CovaltError: if several scripts have such an id.
    """
    chats = context.project.chats
    matches: dict[str, tuple[ChatStore, StoredScript | None]] = {}
    for chat_id in chats.ids():
        chat = context.chat(chat_id)
        for script_id in filter(partial(_is_named, text), stored_script.script_ids(chat)):
            stored = StoredScript.read(chat, script_id)
            if stored is not None and script_calls.is_visible(context.visibility, chat, stored):
                matches[script_id] = chat, stored
    index = context.chat_index()
    index.sync_chats()
    exact = [(chat_id, text) for chat_id in index.chats_of_record(text)]
    for chat_id, script_id in exact or index.ended_calls(RUN_SCRIPT):
        if script_id not in matches and _is_named(text, script_id) and chats.has(chat_id):
            chat = context.chat(chat_id)
            with suppress(UnknownNameError):
                _record(context, chat, script_id)
                matches[script_id] = chat, None
    if text in matches:
        matches = {text: matches[text]}
    if len(matches) > 1:
        raise CovaltError(
            f"{text!r} means {len(matches)} scripts",
            hint=f"write one of {', '.join(sorted(matches)[:_MOST_NAMED])}",
            code="ambiguous",
            http_status=409,
        )
    for script_id, (chat, stored) in matches.items():
        return chat, script_id, stored
    raise UnknownNameError("script", text, (), list_with="covalt-git script list --all")


def _is_named(text: str, script_id: str) -> bool:
    """Return whether a text is the id of a script, or the beginning or the end of it."""
    is_part = script_id.startswith(text) or script_id.endswith(text)
    return text == script_id or (len(text) >= _LEAST_PART and is_part)


def _require_own(context: Context, script: OpenScript, action: str) -> None:
    """Check that the script is the principal's own, or that it may manage the chat.

    Raises:
        ForbiddenError: if it is neither.
    """

    def check() -> None:
        principal = context.project.principal
        is_own = (script.by, script.role) == (principal.id, principal.role)
        if not is_own and not context.manages_chats:
            raise context.refusal(f"may not {action} a script of {script.by}")

    context.require(check)


def _after(context: Context, chat: ChatStore, script_id: str, outcome: CallOutcome) -> ScriptDetail:
    stored = StoredScript.read(chat, script_id)
    if stored is not None:
        return _detail(chat, stored)
    if outcome.call.post_manifest_id is None:
        raise CovaltError(
            f"the script {script_id} has ended: its branch was deleted",
            code="branch_deleted",
            http_status=409,
        )
    return _ended(context, chat, script_id)


def _row(chat: ChatStore, stored: StoredScript) -> ScriptRow:
    state, approval = script_calls.state_of(chat, stored)
    return ScriptRow.of(stored.script, **_state_fields(chat, stored, state, approval))


def _state_fields(
    chat: ChatStore, stored: StoredScript, state: ScriptState, approval: Approval | None
) -> dict[str, Any]:
    call = None if approval is None else chat.call(approval.call_id)
    return {
        "state": state,
        "calls": len(stored.calls),
        "execution_id": approval and approval.execution_id,
        "waits_for": approval and approval.tool_id,
        "waits_line": call and call.line,
    }


def _detail(chat: ChatStore, stored: StoredScript) -> ScriptDetail:
    script = stored.script
    state, approval = script_calls.state_of(chat, stored)
    if approval is not None:
        result: JsonObject = paused_outcome(stored, approval, lambda _: None).call.result
    else:
        result = {
            "success": False,
            "calls": [call.as_json() for call in scripted_calls(stored)],
            "logs": [log.model_dump(mode="json") for log in script.logs],
        }
    lines = _lines(stored.calls.values(), _waits(chat))
    waiting = next((call for call in chat.calls() if call.parent == script.id), None)
    if waiting is not None:
        lines.append(
            ScriptLine(
                line=waiting.line,
                path=waiting.tool_id.replace(":", ".", 1),
                status=waiting.status,
                call_id=waiting.id,
                execution_id=approval and approval.execution_id,
                waived_by=waiting.waived_by,
                waited_s=None,
            )
        )
    return ScriptDetail.of(
        script,
        **_state_fields(chat, stored, state, approval),
        result=result,
        lines=tuple(lines),
        allowances=tuple(map(AllowedCalls.of, script.allowances)),
    )


def _waits(chat: ChatStore) -> dict[str, int | None]:
    """Return how many seconds each call of a chat waited for its approval."""
    return {approval.call_id: approval.waited_s for approval in chat.approvals()}


def _lines(calls: Iterable[SettledCall], waits: Mapping[str, int | None]) -> list[ScriptLine]:
    return [
        ScriptLine(
            line=call.line,
            path=call.path if call.tool_id is None else call.tool_id.replace(":", ".", 1),
            status=call.status,
            call_id=call.call_id,
            execution_id=None,
            waived_by=call.waived_by,
            waited_s=None if call.call_id is None else waits.get(call.call_id),
        )
        for call in sorted(calls, key=lambda call: call.index)
    ]


def _record(context: Context, chat: ChatStore, script_id: str) -> tuple[str, CallRecord]:
    """Return the commit and the record of an ended script that the role may see."""
    unknown = UnknownNameError("script", script_id, (), list_with="covalt-git script list --all")
    index = context.chat_index()
    index.sync_chat(chat)
    oid = index.manifest_of_record(chat.id, script_id)
    record = None if oid is None else chat.manifest(oid).record.call
    if oid is None or record is None or record.script is None:
        raise unknown
    if not context.visibility.sees_call(record.tool_id, record.result):
        raise unknown
    return oid, record


def _script_record(record: CallRecord) -> ScriptRecord:
    try:
        return ScriptRecord.model_validate(record.script)
    except ValidationError:
        raise CovaltError(
            "the record of the script is not in this store", code="missing_record", http_status=404
        ) from None


def _ended(
    context: Context,
    chat: ChatStore,
    script_id: str,
    waits: Mapping[str, int | None] | None = None,
) -> ScriptDetail:
    """Return an ended script; ``waits`` are those of :func:`_waits`, which reads all approvals of the chat."""
    oid, record = _record(context, chat, script_id)
    script, manifest = _script_record(record), chat.manifest(oid)
    return ScriptDetail(
        id=script_id,
        chat_id=chat.id,
        branch=script.branch,
        language=script.language,
        state=record.status,
        by=manifest.record.by,
        role=None,
        started_at=record.started_at,
        calls=len(script.calls),
        execution_id=None,
        waits_for=None,
        waits_line=None,
        source=record.args["script"],
        args=record.args.get("args", {}),
        result=record.result,
        lines=tuple(_lines(script.calls, _waits(chat) if waits is None else waits)),
        allowances=(),
    )
