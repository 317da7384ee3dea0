"""Operations on calls: make, check, cancel, list and show them."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pydantic import Field

from covalt_git.access import security
from covalt_git.calls import engine
from covalt_git.calls.executors import Work, executor
from covalt_git.calls.outcomes import fresh_notes
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import JsonObject, canonical_json
from covalt_git.json_values.json_schema import InvalidArgumentsError
from covalt_git.json_values.schema_order import in_order
from covalt_git.models.calls import (
    CallError,
    CallStatus,
    RenderPlan,
    SandboxLevel,
    ToolCall,
    ToolsetVersion,
    run_start,
)
from covalt_git.models.reported_refs import UNREAD
from covalt_git.names import NEW_ID_PATTERN, REGISTRY_NAMESPACE
from covalt_git.operations.calls.call_batch import BatchedCall, read_batch
from covalt_git.operations.context import Context
from covalt_git.operations.registry import ChatRequest, Request, Result, ToolRequest, operation
from covalt_git.operations.results import Change, Notes
from covalt_git.toolsets import tool_arguments
from covalt_git.toolsets.builtin_tools import RUN_SCRIPT, is_recorded
from covalt_git.workspaces.disk_usage import large_store

if TYPE_CHECKING:
    from covalt_git.calls.engine import CallRequest
    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.catalog.catalog import Catalog, Found
    from covalt_git.models.queued_call import QueuedCall
    from covalt_git.workspaces.chat import ChatStore


class CallTool(ChatRequest):
    """Request: the call to make."""

    tool_id: str = Field(max_length=200)
    args: JsonObject = Field(default_factory=dict)
    message_id: str | None = Field(
        None, max_length=200, description="The message that the call belongs to."
    )
    call_id: str | None = Field(
        None,
        max_length=200,
        description="Idempotency key: the id of the call, a UUID of version 7. A repeated request with "
        "the same id does not run the call again, but returns it.",
        json_schema_extra={"pattern": NEW_ID_PATTERN},
    )


class ConvertArguments(ToolRequest):
    """Request: arguments of a tool as entered text, by name."""

    texts: dict[str, str]


class Arguments(Result):
    """Arguments with JSON values, as a call requires them."""

    args: JsonObject


class CheckArguments(ToolRequest):
    """Request: arguments to check without a call."""

    args: JsonObject = Field(default_factory=dict)


class ArgumentProblem(Result):
    """The problem of one argument; ``path`` is its place, such as $.rows[3].name."""

    path: str
    message: str


class ArgumentsChecked(Result):
    """The result of a check: problems, or the reasons for an approval."""

    problems: tuple[ArgumentProblem, ...]
    confirmation: tuple[str, ...] = Field(
        description="Why this call needs approval; empty if it needs none."
    )


class CheckBatch(Request):
    """A batch of calls in JSON Lines; ``name`` is its name in errors.

    ``chat_id`` is the chat of lines without one.
    """

    text: str
    name: str
    chat_id: str | None = None


class Batch(Result):
    """The calls of a batch, in order."""

    calls: tuple[BatchedCall, ...]


class ListCalls(ChatRequest):
    """Request for a page of a chat's calls."""

    limit: int = Field(100, ge=1, le=500)
    before: str | None = Field(
        None, max_length=200, description="Continue after this call, the last of the previous page."
    )
    tool_id: str | None = Field(None, max_length=200, description="Only calls of this tool.")


class GetCall(ChatRequest):
    """Request: the call to return."""

    call_id: str = Field(max_length=200)


class CancelCall(GetCall):
    """Request: the call to cancel."""


class CallCancelled(Result):
    """A call that is being cancelled; get_call returns its status."""

    call_id: str


class CallFacts(Result):
    """Fields of a call that lists and details share."""

    id: str
    chat_id: str
    message_id: str | None
    tool_id: str
    status: CallStatus
    error: str | None = Field(description="code: message")
    started_at: str
    finished_at: str | None
    pre_manifest_id: str | None
    post_manifest_id: str | None


class CallRow(CallFacts):
    """A call in a list; ``renderer`` is the type of the renderer of its result."""

    renderer: str | None


class CallList(Result):
    """A page of a chat's calls, newest first."""

    calls: tuple[CallRow, ...]
    more: bool


class CallAnswer(CallFacts):
    """A call: finished, with its changes; or unfinished, with its approval."""

    args: JsonObject
    result: Any
    render_plan: RenderPlan | None
    run_started_at: str | None = Field(
        description="When it began to run: after its approval, if it needed one; null if it did not run."
    )
    execution_id: str | None = Field(description="Its approval, if it needs or needed one.")
    reasons: tuple[str, ...] = Field(description="Why it needs approval, while it is pending.")
    changes: tuple[Change, ...] = Field(description="The files that it changed.")
    output: str = Field(description="What the tool printed.")
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")
    error_detail: CallError | None = Field(description="The error with its hint and traceback.")
    by: str | None = Field(description="Who made it.")
    sandbox: SandboxLevel | None = Field(description="null: the tool has not run.")
    toolset: ToolsetVersion | None = Field(
        description="The version of the code that ran or would run."
    )
    script_id: str | None = Field(description="The script that made it.")
    script_line: int | None = Field(description="The line of the script.")
    waived_by: str | None = Field(
        description="The approval of an earlier call of the script that allowed it."
    )
    active_branch: str = Field(description="The current active branch of its chat.")
    repeated: bool = Field(
        default=False, description="Whether the call existed before, so that nothing ran now."
    )
    store_warning: str = Field(
        "", description="After a call, a warning if the chat's store is large; see get_disk_usage."
    )


@operation(changes=True, errors=(404, 409, 501))
def call_tool(context: Context, request: CallTool) -> CallAnswer:
    """Call a tool; the answer is sent when the call has ended or is pending approval.

    If the tool fails, the operation succeeds, and the answer's ``status`` is ``error``.
    """
    # A worker decides on the newest state of the chat, so the copy of a server may be older.
    chat = context.chat(request.chat_id, UNREAD if executor().is_queue else None)
    outcome = make_call(context, chat, as_request(request))
    context.update_index(chat)
    return in_schema_order(context.catalog, answer_of(chat, outcome))


def make_call(
    context: Context, chat: ChatStore, request: CallRequest, entry: Found | None = None
) -> CallOutcome:
    """Make a call of any tool: the part of :func:`call_tool` that the MCP server and event streams perform.

    If the process has a queue, a worker makes the call.  They report the outcome in their own form.  The index and the answer of ``call_tool``, which they do not use, would
    double the processor time of a short call (3.5 ms of a write).  ``entry`` is the result of :meth:`.Engine.check`
    for a caller that has to check before it creates the chat.

    Raises:
        CovaltError: as :meth:`.Engine.call`, or as :func:`.builtin_tools.make_unrecorded_call`.
    """

    def prepare() -> QueuedCall | CallOutcome | None:
        from covalt_git.operations.calls import queued_calls  # noqa: PLC0415 - of servers with a queue

        return queued_calls.prepare_call(context, chat, request, entry)

    work = Work(
        lambda: _make_call_here(context, chat, request, entry),
        prepare,
        context.project.chats.open,
    )
    return executor().submit(work).follow(context.follower, context.waiting)


def _make_call_here(
    context: Context, chat: ChatStore, request: CallRequest, entry: Found | None
) -> CallOutcome:
    name = request.tool_id.replace(".", ":", 1)
    if executor().is_queue or not is_recorded(name):
        context.project.chats.follow(chat)
    if name.partition(":")[0] == REGISTRY_NAMESPACE and entry is None:
        with suppress(CovaltError):  # the engine reports it, unless the call was made before
            entry = context.engine().find_checked(request)
    if name == RUN_SCRIPT or (entry is not None and entry.tool.tool_id == RUN_SCRIPT):
        from covalt_git.operations.calls import script_calls  # noqa: PLC0415 - few calls are scripts

        context.project.chats.follow(chat)
        entry = entry or context.engine().check(request)
        # A script pauses, continues and calls other tools. The token is for a single execution.
        if security.is_bound(entry.tools):
            raise security.not_bound(
                entry.tools[0], "a script cannot be called with a token for a single execution"
            )
        return script_calls.run_script(context, chat, request, entry)
    if is_recorded(name):
        return context.engine().call(chat, request, entry)
    from covalt_git.operations.calls import builtin_tools  # noqa: PLC0415 - it loads the operations on files and branches

    entry = entry or context.engine().check(request)
    return builtin_tools.make_unrecorded_call(context, chat, request, entry)


@operation(changes=True, errors=(404, 409))
def check_arguments(context: Context, request: CheckArguments) -> ArgumentsChecked:
    """Check arguments against a tool's schema, without a call.

    A call may still reject them, if the tool's function has constraints that the schema lacks.
    """
    tool = context.catalog.find(request.tool_id).tool
    called = context.catalog.called(tool)
    problems: tuple[ArgumentProblem, ...] = ()
    try:
        # An alias passes its arguments on, so they have to match the schemas of both tools.
        for called_tool in called:
            tool_arguments.check_arguments(called_tool, request.args)
    except InvalidArgumentsError as error:
        problems = tuple(map(ArgumentProblem.of, error.problems))
    decision = context.visibility.decide_call(called, request.args)
    if decision.effect == "deny":
        why = f"a rule denies this call: {', '.join(decision.reasons)}"
        problems += (ArgumentProblem(path="$", message=why),)
    return ArgumentsChecked(problems=problems, confirmation=decision.asks)


def download_name(tool_id: str, call_id: str) -> str:
    """Return the name of a file of a call's result, without its ending: of the tool, and the end of the call's id.

    The ids of calls in the same minute begin equally.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", tool_id)
    return f"{name}-{call_id[-8:]}"


@operation(errors=(404,), local=True)
def convert_arguments(context: Context, request: ConvertArguments) -> Arguments:
    """Return entered arguments as JSON values; invalid JSON, and text for a string parameter, is a string."""
    schema = context.catalog.find(request.tool_id).tool.input_schema
    properties = schema.get("properties", {})
    return Arguments(
        args={name: _converted(text, properties.get(name)) for name, text in request.texts.items()}
    )


@operation(errors=(404,), local=True)
def check_batch(context: Context, request: CheckBatch) -> Batch:
    """Return the calls of a batch, if all of them can be made."""
    calls = read_batch(
        request.text,
        request.name,
        engine=context.engine(),
        chats=context.project.chats,
        chat_id=request.chat_id,
    )
    return Batch(calls=tuple(calls))


@operation(changes=True, errors=(404, 409))
def cancel_call(context: Context, request: CancelCall) -> CallCancelled:
    """Cancel a call that runs, or that waits for its chat's lock.

    It ends within a second; its record has the error ``cancelled``, and the files that it wrote are kept.
    """
    chat = context.chat(request.chat_id)
    # A call may end just before the request to cancel it, so this is not an error. Only an unknown id is.
    if not _is_unfinished(context, chat, request.call_id):
        context.chat_index().sync_chat(chat)
        _find_call(context, chat, request.call_id)
    executor().cancel(request.call_id)
    return CallCancelled(call_id=request.call_id)


@operation(errors=(404,))
def list_calls(context: Context, request: ListCalls) -> CallList:
    """List a chat's calls of tools that the role may see, newest first."""
    chat = context.chat(request.chat_id)
    index, catalog = context.chat_index(), context.catalog
    index.sync_chat(chat)
    # The index accepts the id of a hidden call too, which would confirm that the call exists
    # (test_what_a_role_may_not_see_is_unknown).
    if request.before is not None:
        _find_call(context, chat, request.before)
    cursor, rest, calls = request.before, True, list[ToolCall]()
    # Calls of hidden tools are left out after the index has counted a page, so one page may have too few.
    while rest and len(calls) <= request.limit:
        page = index.calls(chat.id, limit=request.limit + 1, before=cursor, tool_id=request.tool_id)
        calls += [call for call in page if catalog.sees_call(call.tool_id, call.result)]
        rest = len(page) > request.limit
        cursor = page[-1].id if page else None
    rows = tuple(
        CallRow.of(call, renderer=call.render_plan.renderer if call.render_plan else None)
        for call in calls[: request.limit]
    )
    return CallList(calls=rows, more=len(calls) > request.limit)


@operation(errors=(404,))
def get_call(context: Context, request: GetCall) -> CallAnswer:
    """Return one call."""
    chat = context.chat(request.chat_id)
    context.chat_index().sync_chat(chat)
    return in_schema_order(
        context.catalog, answer(chat, _find_call(context, chat, request.call_id))
    )


def in_schema_order(catalog: Catalog, call: CallAnswer) -> CallAnswer:
    """Return a call whose result has its keys in the order of the tool's ``output_schema``.

    Records are canonical JSON, so their keys are sorted.
    """
    if not isinstance(call.result, (dict, list)):
        return call
    try:
        tool = catalog.with_target(catalog.find(call.tool_id).tool)
    except CovaltError:  # it was removed, or has errors
        return call
    return call.model_copy(update={"result": in_order(call.result, tool.output_schema)})


def answer(chat: ChatStore, call: ToolCall) -> CallAnswer:
    """Return a call from its commit, or from its ref while it is unfinished."""
    active_branch = chat.active_branch()
    if call.post_manifest_id is not None:
        facts = _finished(chat, call.post_manifest_id)
        return CallAnswer.of(call, active_branch=active_branch, **facts)
    waits = next(
        (pending_call for pending_call in chat.calls() if pending_call.id == call.id), None
    )
    approval = chat.approval(waits.execution_id) if waits and waits.execution_id else None
    return CallAnswer.of(
        call,
        active_branch=active_branch,
        run_started_at=run_start(
            call.status, None, call.started_at, approval.ran_at if approval else None
        ),
        execution_id=waits.execution_id if waits else None,
        reasons=approval.reasons if approval else (),
        changes=(),
        output="",
        notes=Notes(),
        error_detail=None,
        by=waits.by if waits else None,
        sandbox=None,
        toolset=waits.toolset if waits else None,
        script_id=waits.parent if waits else None,
        script_line=waits.line if waits else None,
        waived_by=waits.waived_by if waits else None,
    )


def answer_of(chat: ChatStore, outcome: CallOutcome) -> CallAnswer:
    """Return the answer for the outcome of a call."""
    update: JsonObject = {"repeated": outcome.repeated, "store_warning": large_store(chat)}
    if outcome.approval is not None:
        # A script that waits is no pending call itself: it has the approval of its call.
        approval = outcome.approval
        update |= {"execution_id": approval.execution_id, "reasons": approval.reasons}
    if outcome.call.fields:
        update["result"] = outcome.call.returned
    # A restore notes what is lost after its commit, so the record of the commit lacks it.
    if outcome.notes.lost:
        update["notes"] = Notes.of(outcome.notes)
    return answer(chat, outcome.call).model_copy(update=update)


def _finished(chat: ChatStore, manifest_id: str) -> JsonObject:
    manifest = chat.manifest(manifest_id)
    record = manifest.record.call
    assert record is not None  # a call that has ended names its own commit
    approval = chat.approval(record.execution_id) if record.execution_id else None
    return {
        "run_started_at": run_start(
            record.status,
            str(record.error) if record.error else None,
            record.started_at,
            approval.ran_at if approval else None,
        ),
        "execution_id": record.execution_id,
        "reasons": (),
        "changes": chat.changes(manifest.parent_id, manifest.id),
        "output": record.output,
        "notes": fresh_notes(chat, manifest),
        "error_detail": record.error,
        "by": manifest.record.by,
        "sandbox": record.sandbox,
        "toolset": record.toolset,
        "script_id": record.parent,
        "script_line": record.line,
        "waived_by": record.waived_by,
    }


def _is_unfinished(context: Context, chat: ChatStore, call_id: str) -> bool:
    """Return whether a call has not ended, if the role may see it; a queued call has no ref yet."""
    tool_id = executor().tool_of(call_id, chat_id=chat.id)
    if tool_id is None and (noted := chat.call(call_id)) is not None:
        tool_id = noted.tool_id
    return tool_id is not None and context.visibility.sees(tool_id)


def _find_call(context: Context, chat: ChatStore, call_id: str) -> ToolCall:
    """Return a call of a tool that the role may see; the index of the chat must be up to date."""
    call = context.chat_index().call(chat.id, call_id)
    if call is None or not context.visibility.sees_call(call.tool_id, call.result):
        raise UnknownNameError("call", call_id, (), list_with=f"covalt-git chat log {chat.id}")
    return call


def as_request(request: CallTool) -> engine.CallRequest:
    """Return the engine's request of a call."""
    return engine.CallRequest(request.tool_id, request.args, request.message_id, request.call_id)


def _converted(text: str, schema: Any) -> Any:
    # `--arg id=007` for a string must not become the number 7.
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return canonical_json.loads(text)
    except canonical_json.NotJsonError:
        return text
