"""Files of ``static/``, compressed, at URLs that browsers cache until the content changes."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from flask import Response, abort, request, url_for
from werkzeug.security import safe_join

from covalt_git.system.file_cache import FileCache
from covalt_server.render import code

if TYPE_CHECKING:
    from flask import Flask
    from werkzeug.wrappers import Response as BaseResponse

FOLDER = Path(__file__).with_name("static")

CODE_CSS = "code.css"
"""Style sheet of highlighted code, which is generated."""

_FOREVER = "private, max-age=31536000, immutable"
_FILES = FileCache(most=128)


class StaticFile(NamedTuple):
    """A file with its digest; ``packed`` is its content with gzip, None if that is not shorter."""

    content: bytes
    packed: bytes | None
    digest: str


def install(app: Flask) -> None:
    """Serve the files at ``/static``, with the endpoint of Flask's own static files."""
    app.add_url_rule("/static/<path:filename>", "static", _send)
    app.add_template_global(asset)


def asset(name: str) -> str:
    """Return the URL of a file with its digest, so that browsers cache it until it changes."""
    return url_for("static", filename=name, v=_find(name).digest)


def _send(filename: str) -> BaseResponse:
    try:
        file = _find(filename)
    except OSError:
        abort(HTTPStatus.NOT_FOUND)
    is_packed = file.packed is not None and bool(request.accept_encodings["gzip"])
    answer = Response(file.packed if is_packed else file.content)
    answer.content_type = _content_type(filename)
    answer.vary.add("Accept-Encoding")
    # A module that another one imports is requested without the digest.
    is_pinned = request.args.get("v") == file.digest
    answer.headers["Cache-Control"] = _FOREVER if is_pinned else "no-cache"
    # A strong ETag names exact bytes, which differ with gzip.
    answer.set_etag(f"{file.digest}-gzip" if is_packed else file.digest)
    if is_packed:
        answer.headers["Content-Encoding"] = "gzip"
    return answer.make_conditional(request)


def _find(name: str) -> StaticFile:
    """Return a file, which is read and compressed again when it changes.

    Raises:
        OSError: if it does not exist.
    """
    if name == CODE_CSS:
        return _FILES.get(name, (), lambda: _pack(code.style_sheet().encode()))
    path = safe_join(str(FOLDER), name)
    if path is None:
        raise FileNotFoundError(name)
    # Only files get into the cache: unknown names would push them out.
    return _FILES.get(path, (path,), lambda: _pack(Path(path).read_bytes()))


def _pack(content: bytes) -> StaticFile:
    packed = gzip.compress(content, 9, mtime=0)
    digest = hashlib.sha256(content).hexdigest()[:20]
    return StaticFile(content, packed if len(packed) < len(content) else None, digest)


def _content_type(name: str) -> str:
    # The table of the machine may have another type for scripts, which browsers then refuse.
    if name.endswith(".js"):
        return "text/javascript; charset=utf-8"
    media = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return f"{media}; charset=utf-8" if media.startswith("text/") else media
