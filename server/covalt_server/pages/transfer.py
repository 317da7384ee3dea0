"""Transfer of pages: an ETag, so that an unchanged page is not sent again, and gzip."""

from __future__ import annotations

import gzip
import hashlib
from http import HTTPStatus
from typing import TYPE_CHECKING

from flask import g, request

if TYPE_CHECKING:
    from flask import Flask
    from werkzeug.wrappers import Response

LEAST_BYTES = 1024
"""Pages below this size are not compressed."""

_LEVEL = 4
"""On 120 kB it takes 1 ms, level 9 takes three times as long for 5 % less."""


def install(app: Flask) -> None:
    """Send the pages of an app with an ETag, and compressed to clients that accept it."""
    app.after_request(_send)


def _send(answer: Response) -> Response:
    is_page = answer.mimetype == "text/html" and request.blueprint != "artifacts"
    # A stream has no end to compute an ETag from, and an artifact has an ETag of its own.
    if not is_page or answer.is_streamed or answer.status_code != HTTPStatus.OK:
        return answer
    page = answer.get_data()
    if request.method in {"GET", "HEAD"}:
        # Each answer has another nonce.
        same = page.replace(g.nonce.encode(), b"")
        answer.set_etag(hashlib.sha256(same).hexdigest()[:40], weak=True)
        answer.make_conditional(request)
    # The page has other bytes with gzip, for another login, and for htmx, which takes no messages of forms.
    answer.vary.update(("Accept-Encoding", "Cookie", "HX-Request"))
    is_sent = answer.status_code != HTTPStatus.NOT_MODIFIED
    if is_sent and len(page) >= LEAST_BYTES and request.accept_encodings["gzip"]:
        answer.set_data(gzip.compress(page, _LEVEL, mtime=0))
        answer.headers["Content-Encoding"] = "gzip"
    return answer
