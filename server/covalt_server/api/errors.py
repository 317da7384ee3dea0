"""Error answers: JSON in one format for API clients, a page for browsers."""

from __future__ import annotations

import re
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from flask import current_app, jsonify, make_response, redirect, render_template, request, url_for
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from covalt_git.errors import CovaltError, InternalError, UnknownNameError
from covalt_git.operations.namespace_problems import NamespaceClashError
from covalt_git.text.risky_words import is_harmless
from covalt_git.toolsets.tool_registry import ToolNotFoundError
from covalt_server.security import RequestRefusedError, masked_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flask import Flask
    from werkzeug.wrappers import Response

    from covalt_git.json_values import JsonObject

REGISTRY_PATH = "/v1/"
"""Prefix of the URLs of the tool registry, whose paths and answers another system has defined."""

_WORDS = {
    HTTPStatus.NOT_FOUND: ("this page does not exist", "start from /"),
    HTTPStatus.METHOD_NOT_ALLOWED: (
        "this URL does not support the method of the request",
        "see /api/openapi.json",
    ),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("the request is too large", "send less at once"),
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: (
        "the file has no such range",
        "request the complete file",
    ),
}

_PHRASES = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Request Entity Too Large",
    HTTPStatus.REQUEST_URI_TOO_LONG: "Request-URI Too Long",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "Requested Range Not Satisfiable",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Unprocessable Entity",
}
"""Phrases that Python 3.13 changed (to those of RFC 9110); error codes are derived from phrases."""


_LIST_COMMAND = re.compile(
    r"(?:list them with )?(?:`covalt-git [a-z]+ (?:list|show)[^`]*`|covalt-git [a-z]+ (?:list|show)(?: [\w.:/-]+)*)\Z"
)
"""The end of a hint that only lists or shows something."""

_PAGE_COMMAND = re.compile(
    r"(?:list them with )?`covalt-git (?P<command>chat (?:log|branch|files|resolve)|role list)[^`]*`\Z"
)
"""The end of a hint with a command whose answer a page of the same chat shows too."""

_PAGES_OF_COMMANDS = {
    "chat log": ("chats.history", "The branches and commits of {chat_id}"),
    "chat branch": ("chats.history", "The branches and commits of {chat_id}"),
    "chat files": ("workspace.files", "The files of {chat_id}"),
    "chat resolve": ("branches.conflicts", "The conflicts of {chat_id}"),
    "role list": ("policy.policy_page", "Policy"),
}
"""The page of each of these commands, and the label of its link."""

_LISTS = frozenset(
    {
        *("All chats", "All tools", "All toolsets", "All approvals", "All scripts"),
        *("All operations", "Policy", "Import a toolset", "All registered tools", "Search"),
    }
)
_PAGES = {
    "approvals.approval": "The approval as it is now",
    "approvals.approval_list": "All approvals",
    "calls.call": "The call",
    "chats.chat_list": "All chats",
    "config.source": "covalt.yaml",
    "conversation.chat": "The chat {chat_id}",
    "imports.choose": "Import a toolset",
    "policy.policy_page": "Policy",
    "reference.operation_list": "All operations",
    "registered_tools.registry": "All registered tools",
    "scripts.script": "The script",
    "scripts.script_list": "All scripts",
    "search.results": "Search",
    "tools.tool": "The tool {tool_id}",
    "tools.tool_picker": "All tools",
    "toolsets.toolset": "The toolset {toolset_id}",
    "toolsets.toolset_list": "All toolsets",
    "workspace.file": "The file {path}",
    "workspace.files": "The files of {chat_id}",
}
"""The labels of links to pages, by their endpoints."""


def install(app: Flask, operations: Iterable[str]) -> None:
    """Register the error handlers; ``operations`` are the names that errors suggest for typos."""
    operation_names = tuple(operations)

    def missing(error: HTTPException) -> Response:
        page = _page_with_form() if isinstance(error, MethodNotAllowed) else None
        if page is not None:
            return redirect(page, HTTPStatus.SEE_OTHER)
        return error_response(_http_error(error, operation_names), error)

    app.register_error_handler(CovaltError, error_response)
    app.register_error_handler(HTTPException, missing)
    app.register_error_handler(Exception, _bug)


def error_response(error: CovaltError, cause: HTTPException | None = None) -> Response:
    """Return the answer to a request that failed."""
    status = cause.code if cause is not None and cause.code else error.http_status
    if wants_json():
        answer = jsonify(registry_error(error) if _is_of_registry() else error.as_json())
    else:
        refused = isinstance(error, RequestRefusedError)
        # Its client has shown no token, so the page of a refused request has no name of the project and no
        # number of approvals (test_the_page_of_a_refused_request_does_not_show_the_project).
        template = "request_refused.html" if refused else "error.html"
        words = phrase(status)
        links = () if refused else _links(error, status)
        answer = make_response(
            render_template(
                template,
                error=error,
                hint=_page_hint(error.hint, links),
                status=status,
                words=words,
                links=links,
            )
        )
    answer.status_code = status
    for name, value in cause.get_headers() if cause is not None else ():
        # RFC 9110 requires these with 405 and 416. The other headers describe werkzeug's own page, which is
        # not sent.
        if name in {"Allow", "Content-Range"}:
            answer.headers[name] = value
    if status == HTTPStatus.UNAUTHORIZED:
        challenge = 'Bearer realm="covalt-git"'
        if error.code == "invalid_token":  # RFC 6750, section 3.1
            challenge += ', error="invalid_token"'
        answer.headers["WWW-Authenticate"] = challenge
    answer.headers["Cache-Control"] = "no-store"
    return answer


def wants_json() -> bool:
    """Return whether the client wants JSON instead of a page."""
    if request.path.startswith("/api/") or _is_of_registry():
        return True
    return request.accept_mimetypes.best == "application/json"


def _is_of_registry() -> bool:
    return request.path.startswith(REGISTRY_PATH)


def registry_error(error: CovaltError) -> JsonObject:
    """Return an error in the format of the tool registry, whose description also has the problems of the fields."""
    is_unknown = isinstance(error, ToolNotFoundError)
    code = "tool_not_found" if is_unknown else error.code
    description = [
        error.message,
        *(f"{problem.path}: {problem.message}" for problem in error.problems),
    ]
    return {"error": code, "error_description": "; ".join(description)}


def phrase(status: int) -> str:
    """Return the phrase of an HTTP status, the same on every version of Python."""
    http_status = HTTPStatus(status)
    return _PHRASES.get(http_status, http_status.phrase)


def _links(error: CovaltError, status: int) -> list[tuple[str, str]]:
    """Return the pages that lead on from an error: the page that exists above, the list of its kind, and the start page.

    Each is a label and a URL.
    """
    path = request.path
    if status == HTTPStatus.NOT_FOUND:
        # The pages below what does not exist do not exist either.
        parts = path.split("/")
        name = error.name if isinstance(error, UnknownNameError) else None
        # A name that is not in the URL is one of the form or the query, so the page above exists.
        at = parts.index(name) if name and name in parts else 2 if name is None else -1
        path = "/".join([*parts[:at], "?"])
    of_command = _page_of_command(error.hint)
    links = []
    adapter = current_app.create_url_adapter(request)
    while adapter is not None and path not in {"", "/"}:
        path = path.rpartition("/")[0]
        # A folder is a page with a slash at its end, to which a match redirects.
        with suppress(HTTPException):
            endpoint, values = adapter.match(path or "/", method="GET")
            if endpoint == "home.home":
                continue
            label = _PAGES.get(endpoint, "The page as it is now").format_map(values)
            links.append((label, quote(path)))
    if isinstance(error, NamespaceClashError):
        links = [
            (f"The toolset {toolset_id}", url_for("toolsets.toolset", toolset_id=toolset_id))
            for toolset_id in error.toolset_ids
        ]
        return [*links, ("Start page", "/")]
    lists = [link for link in links if link[0] in _LISTS]
    above = [link for link in links if link[0] not in _LISTS][:1]
    return list(dict.fromkeys([*of_command, *above, *lists[-1:], ("Start page", "/")]))


def _page_of_command(hint: str) -> list[tuple[str, str]]:
    """Return the link to the page of the command at the end of a hint; empty without one, and on this page itself."""
    command, values = _PAGE_COMMAND.search(hint), request.view_args or {}
    if command is None:
        return []
    endpoint, label = _PAGES_OF_COMMANDS[command["command"]]
    if "{chat_id}" not in label:
        page = url_for(endpoint)
    elif "chat_id" in values:
        page = url_for(endpoint, chat_id=values["chat_id"])
    else:
        return []
    return [] if page == request.path else [(label.format_map(values), page)]


def _page_hint(hint: str, links: Sequence[tuple[str, str]]) -> str:
    """Return a hint for a page: without the command that lists or shows what a link of the page opens."""
    if _page_of_command(hint):
        return _PAGE_COMMAND.sub("", hint).rstrip(" ;")
    return _LIST_COMMAND.sub("", hint).rstrip(" ;") if len(links) > 1 else hint


def _page_with_form() -> str | None:
    """Return the nearest page above a URL that only takes a form; None for a client without pages.

    A browser has such a URL in its address bar after a form that failed, and opens it when the page is loaded again.
    """
    if request.method not in {"GET", "HEAD"} or wants_json():
        return None
    adapter, path = current_app.create_url_adapter(request), request.path
    while adapter is not None and path != "/":
        path = path.rpartition("/")[0] or "/"
        if adapter.test(path, "GET"):
            return quote(path)
    return None


def _http_error(error: HTTPException, operations: tuple[str, ...]) -> CovaltError:
    status = HTTPStatus(error.code or HTTPStatus.INTERNAL_SERVER_ERROR)
    if status == HTTPStatus.NOT_FOUND and request.path.startswith("/api/"):
        name = request.path.removeprefix("/api/")
        return UnknownNameError(
            "operation",
            name,
            operations,
            list_with="/api/openapi.json",
            is_harmless=is_harmless,
        )
    words, hint = _WORDS.get(status, (phrase(status).lower(), ""))
    covalt_error = CovaltError(words, hint=hint)
    covalt_error.code = phrase(status).lower().replace(" ", "_").replace("-", "_")
    covalt_error.http_status = status
    return covalt_error


def _bug(error: Exception) -> Response:
    """Answer a request that hit a bug.  The log has the details, the answer has none."""
    current_app.logger.error("a bug, while answering %s", masked_path(request.path), exc_info=error)
    return error_response(InternalError())
