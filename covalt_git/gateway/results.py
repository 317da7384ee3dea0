"""Results and errors of calls in the form of MCP (MCP specification, "Tools", section "Tool Result")."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import mcp_types as types

from covalt_git.catalog.prompt_content import Content
from covalt_git.gateway import agent_hints, large_results
from covalt_git.gateway.offers import server_links
from covalt_git.gateway.resources import resource_uris, toolset_resources
from covalt_git.models.file_reference import is_reference
from covalt_git.models.renderers import FILE_KEYS
from covalt_git.names import ToolId
from covalt_git.text import display
from covalt_git.toolsets.builtin_tools import BUILTINS, READ_FILE, RUN_SCRIPT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.catalog.tool_names import Style
    from covalt_git.errors import CovaltError
    from covalt_git.gateway.client_chats import ClientChat
    from covalt_git.gateway.large_results import Delivery
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import Approval, RenderPlan, ToolCall
    from covalt_git.models.chats import FileChange
    from covalt_git.project import Project

    Read = Callable[[str], bytes | None]

CHAT = "covalt-git/chat"
CALL = "covalt-git/call"
MANIFEST = "covalt-git/manifest"
"""Keys of a result's ``_meta``: the chat, the call's id, and its commit."""

RENDER_PLAN = "covalt-git/render_plan"
"""Key of a result's ``_meta``: how the result is displayed."""

PAGE_CALLS = "covalt-git/page_calls"
"""Key of a result's ``_meta``: the tools that its page may call."""

ERROR = "covalt-git/error"
"""Key of a result's ``_meta``: the facts of an error or of a pending call, also those in the structured content."""

MOST_LINKS = 32
"""Most changed files to which a result links; the others are only counted."""


def of_outcome(
    outcome: CallOutcome,
    chat: ClientChat,
    read: Read,
    *,
    delivery: Delivery,
    style: Style,
    resource: str | None = None,
    of_server: bool = False,
    page_calls: JsonObject | None = None,
) -> types.CallToolResult:
    """Return the outcome of a call: its result or its error, and the files that it changed.

    ``read`` returns a file of the workspace as of the call's commit.  ``resource`` is the URI of the whole result,
    by default of the result in the call's record.  ``of_server`` is whether the tool is one of an MCP server.
    ``page_calls`` are the tools that the page of the result may call.
    """
    call, value = outcome.call, outcome.call.returned
    is_script = call.tool_id == RUN_SCRIPT
    if outcome.approval is not None and is_script:
        return _paused_script(outcome, chat)
    if outcome.approval is not None:
        return _approval_needed(outcome.approval, chat, delivery)
    recorded_id = call.id if call.post_manifest_id else None
    manifest_id = call.post_manifest_id
    if call.tool_id in BUILTINS and outcome.error is None and not is_script:
        if recorded_id is not None:
            value = {**value, "manifest_id": manifest_id}
        manifest_id = value.get("manifest_id")
    facts: JsonObject = {CHAT: call.chat_id, CALL: recorded_id, MANIFEST: manifest_id}
    # The result of a script has its error, and its calls and logs, which the agent needs even more after an error.
    if (error := outcome.error) is not None and not is_script:
        hint = agent_hints.for_agent(error.hint, style)
        more = [error.traceback.rstrip()] if error.traceback else []
        if value is not None:  # what the tool answered, also if it does not match its schema
            more.append(large_results.as_text(value)[: large_results.TEXT_BYTES])
        content = [_error_text(error.code, error.message, hint, more)]
        problem = {"error": error.code, "error_description": error.message, "hint": hint}
        facts[ERROR] = problem
        structured: Any = structured_error(problem, delivery)
    else:
        parts = blocks(value, call, read)
        if parts is None:
            content, structured = _truncated(outcome, value, resource, delivery)
        else:
            content = [*parts, *_output(outcome.output)]
            structured = _structured(outcome, value, delivery)
    if of_server and outcome.error is None:
        content = [*content, *server_links.link_blocks(call)]
    linked = [link for link in content if isinstance(link, types.ResourceLink)]
    # A file that the result shows is not linked a second time as changed.
    linked_names = {link.name for link in linked}
    changes = [change for change in outcome.changes if change.path not in linked_names]
    links = _links(call.chat_id, manifest_id, changes)
    if call.render_plan is not None and call.post_manifest_id is not None:
        plan, place = call.render_plan, (call.chat_id, call.post_manifest_id)
        facts[RENDER_PLAN] = _shown_plan(plan_with_uris(plan, *place), delivery)
        facts[PAGE_CALLS] = page_calls or None
        links += plan_links(plan, *place, known=[*linked, *links])
    failed = outcome.error is not None
    content = [*content, *links, *_note_of_chat(chat)]
    return types.CallToolResult(
        content=_in_one_text(content) if failed else content,
        structured_content=structured if failed or delivery.has_structured(structured) else None,
        is_error=failed,
        _meta={name: fact for name, fact in facts.items() if fact is not None},
    )


def _structured(outcome: CallOutcome, value: Any, delivery: Delivery) -> Any:
    """Return the structured content of a result with files, whose embedded texts may be large."""
    resource, size = _resource(outcome, None, delivery), len(large_results.as_text(value).encode())
    content = (
        value if resource is None else large_results.truncated(value, size, resource, delivery)
    )
    return delivery.matching(value) if content is value else content


def _truncated(
    outcome: CallOutcome, value: Any, resource: str | None, delivery: Delivery
) -> tuple[list[types.ContentBlock], Any]:
    """Return the content and the structured content of a result, shortened if it is large."""
    call = outcome.call
    if value is None and outcome.output:
        return _output(outcome.output), value
    resource = _resource(outcome, resource, delivery)
    text = value["content"] if call.tool_id == READ_FILE else large_results.as_text(value)
    content, structured = large_results.truncate(value, text, resource, delivery)
    if structured is value:
        structured = delivery.matching(value)
    if call.fields and resource is not None:
        note = f"these are the fields {', '.join(call.fields)}; read the whole result with "
        content.append(_text(f"{note}read_result {json.dumps({'resource': resource})}"))
    return [*content, *_output(outcome.output)], structured


def _resource(outcome: CallOutcome, resource: str | None, delivery: Delivery) -> str | None:
    """Return the URI of the whole result; None if the client needs all of it at once."""
    call, plan = outcome.call, outcome.call.render_plan
    if delivery.apps and plan is not None and plan.renderer == "html":
        return None  # the page needs the complete result
    if call.post_manifest_id is not None:
        return resource_uris.result(call.chat_id, call.post_manifest_id)
    return resource


def _shown_plan(plan: JsonObject, delivery: Delivery) -> JsonObject:
    """Return a render plan; without its values if they are large, except for the page of an MCP App."""
    is_small = len(json.dumps(plan)) <= large_results.TEXT_BYTES
    if is_small or (delivery.apps and plan["renderer"] == "html"):
        return plan
    return {name: value for name, value in plan.items() if name != "config"} | {"truncated": True}


def of_page(text: str, number: int, pages: int) -> types.CallToolResult:
    """Return a page of a large result."""
    content: list[types.ContentBlock] = [_text(text), _text(f"page {number} of {pages}")]
    return types.CallToolResult(content=content)


def of_value(value: Any) -> types.CallToolResult:
    """Return a JSON object as a result."""
    text = _text(large_results.as_text(value))
    return types.CallToolResult(content=[text], structured_content=value)


def _paused_script(outcome: CallOutcome, chat: ClientChat) -> types.CallToolResult:
    """Return the result of a script that waits for an approval: its calls so far, and the ``execution_id``."""
    value = outcome.call.result
    how = f'after the decision, call resume with {{"execution_id": "{value["paused"]["execution_id"]}"}}'
    return types.CallToolResult(
        content=[_text(large_results.as_text(value)), _text(how), *_note_of_chat(chat)],
        structured_content=value,
        _meta={CHAT: outcome.call.chat_id},
    )


def _approval_needed(
    approval: Approval, chat: ClientChat, delivery: Delivery
) -> types.CallToolResult:
    """Return the answer for a call that needs approval: this fact, and how the client gets the result later.

    It is an error in the protocol, because there is no result that matches the output schema.  It does not
    contain the command that approves the call, because a model with a shell could run the command.
    """
    reasons = display.in_line(", ".join(approval.reasons))
    content: list[types.ContentBlock] = [
        _text(
            f"{approval.tool_id} needs approval: {reasons}\n"
            f"a user approves or denies it, at a terminal or in the browser\n"
            f'then call resume with {{"execution_id": "{approval.execution_id}"}}'
        ),
        *_note_of_chat(chat),
    ]
    facts: JsonObject = {
        "error": "approval_needed",
        "execution_id": approval.execution_id,
        "reasons": list(approval.reasons),
        "expires_at": approval.expires_at,
    }
    return types.CallToolResult(
        content=_in_one_text(content),
        structured_content=structured_error(facts, delivery),
        is_error=True,
        _meta={CHAT: approval.chat_id, CALL: approval.call_id, ERROR: facts},
    )


def structured_error(facts: JsonObject, delivery: Delivery) -> JsonObject | None:
    """Return the facts of an error as structured content; None if the tool was listed with an output schema.

    Clients of the TypeScript SDK 1.x check the structured content of errors too.  If it does not match the schema, they
    replace the error by their own, so that the agent sees neither the reason nor the ``execution_id``.
    """
    return facts if delivery.schema is None else None


def of_error(error: CovaltError, delivery: Delivery, style: Style = "dots") -> types.CallToolResult:
    """Return why a call was refused, in a form that an agent can act on."""
    facts = agent_hints.error_facts(error, style)
    # A problem of the arguments has the code of the error, which is already in the first line.
    problems = [
        f"{problem.path}: {problem.message}" if problem.code == error.code else str(problem)
        for problem in error.problems
    ]
    text = _error_text(error.code, error.message, facts["hint"], problems)
    structured = structured_error(facts, delivery)
    return types.CallToolResult(
        content=[text], structured_content=structured, is_error=True, _meta={ERROR: facts}
    )


def _error_text(code: str, message: str, hint: str, more: Sequence[str]) -> types.ContentBlock:
    return _text("\n".join([f"{code}: {message}", *more, *([f"hint: {hint}"] if hint else [])]))


def _in_one_text(content: Sequence[types.ContentBlock]) -> list[types.ContentBlock]:
    """Return the blocks of an error with all texts in the first one: clients give only the first block to the model."""
    texts = [block.text for block in content if isinstance(block, types.TextContent)]
    others = [block for block in content if not isinstance(block, types.TextContent)]
    return [_text("\n".join(texts)), *others]


def _output(output: str) -> list[types.ContentBlock]:
    return [_text(output.rstrip("\n"))] if output else []


def _links(
    chat_id: str, manifest_id: str | None, changes: Sequence[FileChange]
) -> list[types.ContentBlock]:
    """Return links to the changed files as of the call's commit, and the names of deleted ones."""
    written = [change for change in changes if change.new is not None]
    deleted = [change.path for change in changes if change.new is None]
    links: list[types.ContentBlock] = [
        types.ResourceLink(
            uri=resource_uris.file(chat_id, change.path, manifest_id=manifest_id),
            name=change.path,
            description="added" if change.old is None else "modified",
        )
        for change in written[:MOST_LINKS]
        if resource_uris.has_uri(change.path)
    ]
    if len(written) > MOST_LINKS:
        links.append(_text(f"and {len(written) - MOST_LINKS} more files were changed"))
    if deleted:
        more = f" and {len(deleted) - MOST_LINKS} more" if len(deleted) > MOST_LINKS else ""
        names = ", ".join(path for path in deleted[:MOST_LINKS] if resource_uris.has_uri(path))
        links.append(_text(f"deleted: {names}{more}"))
    return links


def _note_of_chat(chat: ClientChat) -> list[types.ContentBlock]:
    """Return the note that a call created its chat, or worked in one that may be another client's."""
    later = f'name it in your later calls, covalt_chat: "{chat.id}"'
    if not chat.new:
        other = 'if another conversation created it, use covalt_chat: "new"'
        note = f"worked in the chat {chat.id}, in which others may work too; {later}; {other}"
        return [_text(note)] if chat.to_name else []
    return [
        _text(f"created the chat {chat.id}; {later if chat.to_name else 'later calls work in it'}")
    ]


def _text(text: str) -> types.TextContent:
    return types.TextContent(text=text)


MOST_BYTES = 4 << 20
"""Largest file that is embedded in a result; larger files are only linked."""


def blocks(value: Any, call: ToolCall, read: Read) -> list[types.ContentBlock] | None:
    """Return the content blocks of a file reference, or of a list that contains one; else None.

    ``read`` returns a file of the workspace as of the call's commit; None if it does not exist.
    """
    values = value if isinstance(value, list) else [value]
    if not any(map(is_reference, values)):
        return None
    return [block for item in values for block in _blocks(item, call, read)]


def reader(project: Project, call: ToolCall) -> Read:
    """Return a function that reads files of the workspace as of the call's commit."""

    def read(path: str) -> bytes | None:
        if call.post_manifest_id is None:
            return None
        with project.chats.open(call.chat_id) as chat:
            file = chat.find_file(call.post_manifest_id, path)
            return None if file is None else chat.store.read_blob(file.oid)

    return read


def _blocks(value: Any, call: ToolCall, read: Read) -> list[types.ContentBlock]:
    if not is_reference(value):
        return [_text(large_results.as_text(value))]
    uri, media_type = value.get("uri"), value["media_type"]
    # Under the URI of a skill or of a page of another toolset, the text of a server would look like that one.
    if uri is not None:
        uri = resource_uris.in_result(ToolId.parse(call.tool_id).namespace, uri)
    if "text" in value:
        text = types.TextResourceContents(uri=uri, mime_type=media_type, text=value["text"])
        return [types.EmbeddedResource(resource=text)]
    link = _link(value, call)
    # The size is what the tool wrote into its result; the file itself decides
    # (test_a_file_over_the_limit_is_a_link_alone_whatever_size_its_reference_has).
    content = read(value["file"]) if value["size"] <= MOST_BYTES else None
    if content is None or len(content) > MOST_BYTES:
        return link
    if uri is not None:
        resource = toolset_resources.contents(
            uri, Content.of_file(value["file"], content, media_type)
        )
        return [types.EmbeddedResource(resource=resource), *link]
    encoded = base64.b64encode(content).decode()
    if media_type.startswith("image/"):
        return [types.ImageContent(data=encoded, mime_type=media_type), *link]
    if media_type.startswith("audio/"):
        return [types.AudioContent(data=encoded, mime_type=media_type), *link]
    return link


def _link(value: Any, call: ToolCall) -> list[types.ContentBlock]:
    """Return a link to the file as of the call's commit."""
    path = value["file"]
    if not resource_uris.has_uri(path):
        return [_text(json.dumps(value))]
    uri = resource_uris.file(call.chat_id, path, manifest_id=call.post_manifest_id)
    return [types.ResourceLink(uri=uri, name=path, mime_type=value["media_type"])]


SHOWN = "shown"
"""Description of links to files that a call shows and did not change."""


def plan_with_uris(plan: RenderPlan, chat_id: str, manifest_id: str) -> JsonObject:
    """Return a render plan as JSON, with ``files``: the URIs of its files by their names."""
    dumped = plan.model_dump(mode="json", exclude_none=True, exclude={"artifact"})
    files = _files(plan, chat_id, manifest_id)
    return {**dumped, "files": files} if files else dumped


def plan_links(
    plan: RenderPlan, chat_id: str, manifest_id: str, *, known: Collection[types.ContentBlock]
) -> list[types.ContentBlock]:
    """Return links to the workspace files that a plan shows, except ``known`` ones.

    The toolset's page is left out, because it is the same for each result.
    """
    linked = {block.uri for block in known if isinstance(block, types.ResourceLink)}
    return [
        types.ResourceLink(uri=uri, name=name.removeprefix("workspace:"), description=SHOWN)
        for name, uri in _files(plan, chat_id, manifest_id).items()
        if name.startswith("workspace:") and uri not in linked
    ]


def _files(plan: RenderPlan, chat_id: str, manifest_id: str) -> dict[str, str]:
    uris = {}
    for key in FILE_KEYS:
        name = plan.config.get(key)
        if not isinstance(name, str):
            continue
        place, _, path = name.partition(":")
        if place == "workspace" and resource_uris.has_uri(path):
            uris[name] = resource_uris.file(chat_id, path, manifest_id=manifest_id)
        elif place == "toolset" and plan.artifact is not None:
            uris[name] = resource_uris.artifact(chat_id, manifest_id)
    return uris
