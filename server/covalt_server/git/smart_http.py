"""``/git/<chat_id>``: chats for ``git clone``, ``git fetch`` and ``git push``.

It implements git's smart HTTP only, and reports errors in plain text, which git shows.  Requests are
checked as for pages (:mod:`covalt_server.security`), but the token is sent as the password, with any user name, or
in ``Authorization: Bearer``.  Cookies are ignored.

Format: ``gitprotocol-http(5)``.
"""

from __future__ import annotations

import gzip
import re
import zlib
from contextlib import ExitStack
from http import HTTPStatus
from typing import IO, TYPE_CHECKING

from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import HTTPException

from covalt_git.errors import ClientGoneError, CovaltError, InternalError
from covalt_git.git_store import serving
from covalt_git.git_store.serving import FETCH, PUSH, BadGitRequestError
from covalt_git.transfers import pushing
from covalt_server import request_context
from covalt_server.security import NoTokenError, sealed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import SupportsRead
    from flask import Flask
    from werkzeug.wrappers import Response as AnyResponse

    from covalt_git.workspaces.chat import ChatStore
    from covalt_server.security import Guard

MOST_ASKED_BYTES = 16 << 20
"""Maximum size of a fetch request in bytes; it contains commit ids."""

NEVER_KEPT = {
    "Expires": "Fri, 01 Jan 1980 00:00:00 GMT",
    "Pragma": "no-cache",
    "Cache-Control": "no-cache, max-age=0, must-revalidate",
}
"""Headers of every response, the same as of git's own server."""

_VERSION_1 = re.compile(r"(?:^|:)version=1(?:$|:)")

pages = Blueprint("git", __name__, url_prefix="/git")


class NotGitError(CovaltError):
    """A request that current versions of git do not send."""

    code = "not_git"
    http_status = 403


class WrongTypeError(NotGitError):
    """A request with a content type that git does not send."""

    http_status = 415


class RequestTooLargeError(NotGitError):
    """A request that is larger than git's requests."""

    http_status = 413


_CLONE = "git clone http://x:TOKEN@HOST/git/CHAT, with the token that covalt-git serve printed"


def install(app: Flask, guard: Guard, routes: Blueprint = pages, hint: str = _CLONE) -> None:
    """Add routes for git to an app, with their access check; ``hint`` is for clients without the token."""

    def check() -> None:
        guard.check_from(request.headers)
        if not guard.is_token(sent_password()):
            raise NoTokenError(
                "the request needs the server's token as password, with any user name", hint=hint
            )

    app.before_request(check)
    app.after_request(_sealed)
    app.register_error_handler(CovaltError, _error_answer)
    app.register_error_handler(HTTPException, _nothing_here)
    app.register_error_handler(ClientGoneError, _client_gone)
    app.register_error_handler(Exception, _bug)
    app.register_blueprint(routes)


@pages.get("/<chat_id>/info/refs")
def advertise_refs(chat_id: str) -> Response:
    """Return the refs of a chat, the first request of every fetch and push."""
    service = request.args.get("service")
    if service not in {FETCH, PUSH}:
        raise _not_smart()
    chat = request_context.context().chat(chat_id)
    visible = pushing.fetchable(chat) if service == FETCH else pushing.pushable(chat)
    _check_role(chat, service)
    # Version 2 is not offered. Git requests it first, and uses version 0 if the server answers with that.
    version = 1 if _VERSION_1.search(request.headers.get("Git-Protocol", "")) else 0
    parts = visible.advertise(service, version)
    return _answer(b"".join(parts), f"application/x-{service}-advertisement")


@pages.post(f"/<chat_id>/{FETCH}")
def fetch(chat_id: str) -> Response:
    """Answer one request of a fetch."""
    _check_type(FETCH, {"identity", "gzip", "x-gzip"})
    # The limit counts decompressed bytes: 1 MB of gzip can be 1 GB of commit ids
    # (test_a_compressed_request_is_limited).
    stream = _Body(request.stream, MOST_ASKED_BYTES, compressed=_coding() != "identity")
    with ExitStack() as opened:
        # Not the request's context, because the response outlives it.
        chat = opened.enter_context(request_context.project().chats.open(chat_id))
        visible = pushing.fetchable(chat)
        _check_role(chat, FETCH)
        parts = serving.fetch(visible, stream)
        answer = _answer(parts, f"application/x-{FETCH}-result")
        answer.call_on_close(opened.pop_all().close)
    return answer


@pages.post(f"/<chat_id>/{PUSH}")
def push(chat_id: str) -> Response:
    """Perform a push and return its report."""
    # Git compresses the requests of fetches only: a pack is compressed already
    # (test_a_push_is_not_compressed).
    _check_type(PUSH, {"identity"})
    stream = request.stream
    chat = request_context.context().chat(chat_id)
    _check_role(chat, PUSH)
    pushed = serving.read_push(stream, chat.store.object_format)
    report = _pushed(chat, pushed, stream)
    parts = serving.report_push(pushed, report) if pushed.commands else ()
    return _answer(b"".join(parts), f"application/x-{PUSH}-result")


def _check_role(chat: ChatStore, service: str) -> None:
    """Check that the server's role may clone a chat, or push to it.

    Each request asks, because a client may send any of them first.  The refs to answer with are read before that, so
    that they do not have a call that ended after the check.

    Raises:
        ForbiddenError: if it may not.
    """
    context = request_context.context()
    if service == PUSH:
        context.require_chat_management()
    else:
        context.require_export(chat)


def _pushed(
    chat: ChatStore, pushed: serving.PushRequest, stream: SupportsRead[bytes]
) -> serving.PushReport:
    try:
        by = request_context.project().principal.id
        check = request_context.context().require_again
        return pushing.push(chat, pushed, stream, by=by, check=check)
    finally:
        # Also after a refused push, which may have committed the edits of the folder before.
        request_context.context().update_index(chat)


@pages.route("/<path:path>")
def not_smart(path: str) -> Response:
    """Reject browsers and versions of git before 1.6.6."""
    raise _not_smart() if "/" in path else _for_git(path)


def _not_smart() -> NotGitError:
    return NotGitError(
        "only git's smart HTTP is supported", hint="use git clone, git fetch or git push"
    )


def _for_git(chat_id: str) -> NotGitError:
    request_context.context().chat(chat_id)
    error = NotGitError(
        f"this URL is for git access to the chat {chat_id!r}", hint=f"git clone {request.base_url}"
    )
    error.http_status = HTTPStatus.NOT_FOUND
    return error


def sent_password() -> str:
    """Return the token in the Authorization header, which is Basic (git's default) or Bearer."""
    given = request.authorization
    if given is None:
        return ""
    return (given.password if given.type == "basic" else given.token) or ""


class _Body:
    """Body of a request, decompressed if needed, up to ``most`` bytes."""

    def __init__(self, stream: IO[bytes], most: int, *, compressed: bool) -> None:
        self._stream = gzip.GzipFile(fileobj=stream) if compressed else stream
        self._left = most

    def read(self, size: int = -1, /) -> bytes:
        try:
            part = self._stream.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise BadGitRequestError("the request does not match its Content-Encoding") from None
        self._left -= len(part)
        if self._left < 0:
            raise RequestTooLargeError(
                "the request is too large", hint="fetch fewer commits at once"
            )
        return part


def _coding() -> str:
    return request.headers.get("Content-Encoding", "identity").lower()


def _check_type(service: str, codings: set[str]) -> None:
    """Check that a request comes from git, and not from a form of a web page.

    Raises:
        WrongTypeError: if its content type or encoding is not one of git.
    """
    if request.mimetype != f"application/x-{service}-request":
        raise WrongTypeError("the content type is not git's", hint="use git, not a browser or curl")
    if _coding() not in codings:
        raise WrongTypeError(
            f"the encoding {_coding()!r} is not supported", hint="use a current version of git"
        )


def _answer(parts: bytes | Iterable[bytes], media_type: str) -> Response:
    return Response(parts, headers=NEVER_KEPT, content_type=media_type)


def _error_answer(error: CovaltError) -> Response:
    status = HTTPStatus(error.http_status)
    answer = Response(f"{error}\n", status=status, headers=NEVER_KEPT, mimetype="text/plain")
    if status == HTTPStatus.UNAUTHORIZED:
        # Git asks its credential helper, or the user, only after an answer with this header.
        answer.headers["WWW-Authenticate"] = 'Basic realm="covalt-git", charset="UTF-8"'
    return answer


def _nothing_here(error: HTTPException) -> Response:
    not_git = _not_smart()
    not_git.http_status = error.code or HTTPStatus.INTERNAL_SERVER_ERROR
    return _error_answer(not_git)


def _client_gone(_: ClientGoneError) -> Response:
    """Answer a push whose client has disconnected; the answer is not sent."""
    return Response(status=HTTPStatus.BAD_REQUEST)


def _bug(error: Exception) -> Response:
    """Report a bug without details; the log has them."""
    current_app.logger.error("a bug, while answering %s", request.path, exc_info=error)
    return _error_answer(InternalError())


def _sealed(answer: AnyResponse) -> AnyResponse:
    answer.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
    return sealed(answer)
