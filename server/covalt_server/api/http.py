"""The HTTP adapter of operations: ``/api/NAME`` parses a request, performs it, and sends the result.

An operation that changes something is a ``POST`` with a JSON object or, with uploads, a form; any other
is a ``GET`` with a query.  A JSON answer to a ``GET`` has an ETag, the hash of its bytes.
"""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import IO, TYPE_CHECKING, Any, get_args

from flask import make_response, request, send_file
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.operations.registry import (
    Events,
    InvalidRequestError,
    RequestFile,
    ResultFile,
    parse,
)
from covalt_server import request_context

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flask import Flask
    from pydantic import BaseModel
    from werkzeug.datastructures import FileStorage

    from covalt_git.json_values import JsonObject
    from covalt_git.operations.registry import Operation, Request, RequestT

REFUSALS = (400, 401, 403, 405, 421)
"""Statuses of any operation, from the checks before it."""

BODY_REFUSALS = (413, 415)

TROUBLE = (500, 503)
"""Statuses of any operation if a chat's store, the index or covalt-git itself is broken."""

_PATHS = {"resume_stream": "stream/<call_id>"}
"""Paths that are not the operation's name."""

_READS_WITH_BODY = frozenset({"check_arguments", "check_document", "verify_audit"})
"""Read-only operations whose request is too large for a query."""


class NotJsonBodyError(CovaltError):
    """The body has a media type that the operation does not accept."""

    code = "unsupported_media_type"
    http_status = 415


def method(operation: Operation[Any, Any]) -> str:
    return "POST" if operation.changes or operation.name in _READS_WITH_BODY else "GET"


def install(app: Flask, operations: Iterable[Operation[Any, Any]]) -> None:
    """Add the route of each operation."""
    for operation in operations:
        app.add_url_rule(
            f"/api/{path(operation)}",
            operation.name,
            partial(respond, operation),
            methods=[method(operation)],
        )


def path(operation: Operation[Any, Any]) -> str:
    """Return the path of an operation below ``/api/``, with variables in Flask's syntax."""
    return _PATHS.get(operation.name, operation.name)


def respond(operation: Operation[Any, Any], **variables: str) -> Response:
    """Answer the current request; ``variables`` are the variables in its path.

    Raises:
        InvalidRequestError: if it does not match the operation.
        CovaltError: as the operation.
    """
    context = request_context.context()
    result = operation.perform(context, _request(operation, variables))
    if isinstance(result, ResultFile):
        return send(result)
    return _stream(result) if isinstance(result, Events) else _json(operation, result)


def send(file: ResultFile) -> Response:
    """Return a file as a response that is safe to open: its scripts do not run."""
    sent = send_file(
        file.stream,
        mimetype=file.media_type,
        as_attachment=file.attachment,
        download_name=file.name,
        etag=file.etag or False,
    )
    if sent.status_code == 200:  # noqa: PLR2004 - otherwise 206 or 304
        sent.content_length = file.size
    # Closed after its last byte: a client that does not close its response would keep the file open.
    sent.response = _closing(sent.response, file.stream)
    sent.call_on_close(file.stream.close)  # also if the client disconnects
    sent.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return sent


def _closing(parts: Iterable[Any], stream: IO[bytes]) -> Iterator[Any]:
    """Yield the parts of a file, and close it after the last one."""
    with stream:
        yield from parts


def single(values: MultiDict[str, str]) -> dict[str, str]:
    """Return the values of a query or form by name.

    Raises:
        InvalidRequestError: if a name occurs twice.
    """
    twice = sorted(name for name, texts in values.lists() if len(texts) > 1)
    if twice:
        raise InvalidRequestError(f"{twice[0]!r} is given more than once")
    return values.to_dict()


def upload(file: FileStorage) -> RequestFile:
    return RequestFile(file.filename or "", file.stream)


def parse_json(model: type[RequestT]) -> RequestT:
    """Return the request in a JSON body.

    Raises:
        NotJsonBodyError: if the body has another media type.
        InvalidRequestError: if it is not JSON, or does not match.
    """
    # Parsed from JSON again: pydantic's strict mode accepts lists for tuples in JSON only.
    return parse(model, json.dumps(json_object()))


def json_object() -> JsonObject:
    """Return the JSON object in the body.

    A page of another site can send other media types, or none, without asking the server first
    ("simple" requests of Fetch 2.2.2), so its user's browser could send an object for it.

    Raises:
        NotJsonBodyError: if the body has another media type.
        InvalidRequestError: if the body is not a JSON object.
    """
    if request.mimetype != "application/json":
        raise NotJsonBodyError("the body must be JSON", hint="send Content-Type: application/json")
    raw = request.get_data(cache=False)
    try:
        value = canonical_json.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, canonical_json.NotJsonError) as error:
        why = error.message if isinstance(error, canonical_json.NotJsonError) else "not UTF-8"
        raise InvalidRequestError(f"the body is not JSON: {why}") from None
    if not isinstance(value, dict):
        raise InvalidRequestError("the body must be a JSON object")
    return value


def _stream(events: Events) -> Response:
    if events.parts is None:
        return Response(status=204)
    # nginx would hold events back until its buffer is full.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    response = Response(events.parts, mimetype="text/event-stream", headers=headers)
    response.call_on_close(events.close)
    return response


def _request(operation: Operation[Request, Any], variables: dict[str, str]) -> Request:
    if method(operation) == "GET":
        return parse(operation.request, {**single(request.args), **variables})
    if operation.upload_limit is None:
        return parse_json(operation.request)
    if operation.alternative is not None and request.mimetype == "application/json":
        return parse_json(operation.alternative)
    if request.mimetype != "multipart/form-data":
        raise NotJsonBodyError("the body must be a form with files: multipart/form-data")
    # Set before `request.files` reads the body; every other request has the smaller limit of the app
    # (test_an_upload_over_its_limit_is_refused_before_it_is_read).
    request.max_content_length = operation.upload_limit(request_context.context())
    files = {name: tuple(map(upload, form_files)) for name, form_files in request.files.lists()}
    return parse(operation.request, {**_form(operation.request), **files})


def _form(model: type[Request]) -> dict[str, str | list[str]]:
    """Return the values of a form by name, in which only a list has several."""
    lists = [name for name, field in model.model_fields.items() if _is_list(field.annotation)]
    named = MultiDict(
        (name, text) for name, text in request.form.items(multi=True) if name not in lists
    )
    several = {name: request.form.getlist(name) for name in lists if name in request.form}
    return {**single(named), **several}


def _is_list(annotation: Any) -> bool:
    return annotation == tuple[str, ...] or any(map(_is_list, get_args(annotation)))


def _json(operation: Operation[Any, Any], result: BaseModel) -> Response:
    answer = make_response(result.model_dump_json(by_alias=True))
    answer.mimetype = "application/json"
    if method(operation) == "GET":
        answer.set_etag(hashlib.sha256(answer.get_data()).hexdigest()[:40])
        return answer.make_conditional(request)
    return answer
