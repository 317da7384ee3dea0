"""Files of a preview: ``/preview/<key>/<path>`` answers with a file of the key's commit.

The files are third-party code.  They run in a frame without an origin, and can load the files of the same key, but
nothing else: no page of the server, no API, no other host, no storage.  As with artifacts, this takes three layers: the
headers here, the sandbox of the frame (``templates/_preview.html``) and the policy of the page around it.
``tests/server/preview/test_preview_escapes.py`` attacks them.
"""

from __future__ import annotations

import io
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

from flask import Blueprint, current_app, make_response, redirect, request, send_file
from markupsafe import Markup
from werkzeug.exceptions import RequestedRangeNotSatisfiable

from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import FOLDER, LINK
from covalt_git.text import display
from covalt_git.workspaces import trees
from covalt_server import request_context
from covalt_server.preview.keys import PATH
from covalt_server.render.artifacts import ARTIFACT_HEADERS

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from covalt_git.workspaces.chat import ChatStore
    from covalt_server.preview.keys import AnyPreviewKeys, PreviewedCommit

pages = Blueprint("preview_files", __name__)

INDEX = "index.html"
"""The file that a folder is shown by."""

_JAVASCRIPT = "text/javascript"
_TYPES = {
    **dict.fromkeys((".html", ".htm"), "text/html"),
    **dict.fromkeys((".js", ".mjs", ".cjs"), _JAVASCRIPT),
    **dict.fromkeys((".json", ".map", ".ipynb"), "application/json"),
    **dict.fromkeys((".jpg", ".jpeg"), "image/jpeg"),
    **dict.fromkeys((".txt", ".md", ".log", ".yaml", ".yml", ".toml", ".ini"), "text/plain"),
    ".css": "text/css",
    ".csv": "text/csv",
    ".xml": "application/xml",
    ".geojson": "application/geo+json",
    ".webmanifest": "application/manifest+json",
    ".wasm": "application/wasm",
    ".pdf": "application/pdf",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".bmp": "image/bmp",
    ".ico": "image/x-icon",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
    ".ttf": "font/ttf",
    ".otf": "font/otf",
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".vtt": "text/vtt",
}
"""Media types by extension.  Python's table differs from version to version, and by the files of the system."""

_DESTINATIONS = frozenset(
    {
        *("iframe", "empty", "script", "style", "image", "font", "audio", "video", "track", "json"),
        "text",
    }
)
"""Values of ``Sec-Fetch-Dest`` that are answered.

A window of its own (``document``) is not one: without the page around it, a preview could send data in the URL of a
navigation.
"""

_LISTING = Markup(
    '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
    '<meta name="color-scheme" content="light dark">\n<title>{0}</title>\n'
    "<h1>{0}</h1>\n<ul>\n{1}</ul>\n</html>\n"
)
_ENTRY = Markup('<li><a href="{}">{}</a></li>\n')


def preview_headers(site: str, key: str) -> dict[str, str]:
    """Return the headers of each answer of a preview; ``site`` is the scheme and the checked host of the request."""
    # Not 'self', which matches nothing in a document without an origin.  A source with http also matches https, which a
    # reverse proxy may speak.
    own = f"{site}{PATH}{key}/"
    policy = (
        # Without allow-forms, a browser fires no submit event, which most apps handle.  Nothing is sent: form-action.
        "sandbox allow-scripts allow-forms",
        "default-src 'none'",
        f"script-src {own} 'unsafe-inline' 'wasm-unsafe-eval'",
        f"style-src {own} 'unsafe-inline'",
        f"img-src {own} data: blob:",
        f"font-src {own} data:",
        f"media-src {own} data: blob:",
        f"connect-src {own}",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    )
    pattern = own.replace("http:", "http{s}?:", 1)
    return ARTIFACT_HEADERS | {
        "Content-Security-Policy": "; ".join(policy),
        # Unlike the policy, this limits where the frame navigates.  Redirects are allowed because a preview has one: it
        # adds a slash to the name of a folder.
        "Connection-Allowlist": f'("{pattern}*");webrtc=block;redirects=allow',
        # Modules, fonts and fetch() of a document without an origin need it.  It gives nothing to a page that does not
        # know the key, since no answer depends on a cookie.
        "Access-Control-Allow-Origin": "null",
        "Cross-Origin-Resource-Policy": "cross-origin",
        # A browser keeps no copy that would outlive the session.
        "Cache-Control": "no-store",
    }


@pages.get(f"{PATH}<key>/", defaults={"path": ""})
@pages.get(f"{PATH}<key>/<path:path>")
def file(key: str, path: str) -> Response:
    """Answer with a file of the commit of a key, with the index of a folder, or with a list of its files."""
    keys: AnyPreviewKeys = current_app.config["COVALT_PREVIEWS"]
    commit = keys.find(key)
    if commit is None:
        raise CovaltError(
            "this preview has ended",
            hint="reload the page that shows it",
            code="no_preview",
            http_status=404,
        )
    if request.headers.get("Sec-Fetch-Dest") not in _DESTINATIONS:
        raise CovaltError(
            "a preview is shown only inside its page",
            hint=f"open /chats/{commit.chat_id}/preview/{path}",
            code="not_in_a_frame",
            http_status=403,
        )
    try:
        answer = _answer(commit, path)
    except CovaltError as error:
        answer = _refusal(error.http_status)
    except RequestedRangeNotSatisfiable:
        answer = _refusal(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
    answer.headers.update(preview_headers(request.host_url.rstrip("/"), key))
    return answer


def _answer(commit: PreviewedCommit, path: str) -> Response:
    # For each request, because the principal may have lost the chat since the key was created.
    chat = request_context.context().chat(commit.chat_id)
    # Another chat can have the same id by now, and a clean-up can have deleted the commit.
    if not chat.store.has(commit.manifest_id):
        raise CovaltError("the chat does not have this commit any more", http_status=404)
    tree = chat.state(commit.manifest_id).tree
    entry = trees.find_entry(chat.store, tree, path.removesuffix("/"))
    if entry is not None and entry.mode == FOLDER:
        if path and not path.endswith("/"):
            # Relative links in the index are relative to the folder.
            return redirect(f"{quote(PurePosixPath(path).name, safe='')}/", HTTPStatus.FOUND)
        index = trees.find(chat.store, entry.oid, INDEX)
        if index is None or index.mode == LINK:
            return _listing(chat, entry.oid, path)
        return _sent(chat.store.read_blob(index.oid), INDEX)
    if entry is None or entry.mode == LINK or path.endswith("/"):
        raise CovaltError("the commit has no such file", http_status=404)
    return _sent(chat.store.read_blob(entry.oid), path)


def _sent(content: bytes, path: str) -> Response:
    media = _TYPES.get(PurePosixPath(path).suffix.lower(), "application/octet-stream")
    answer = send_file(io.BytesIO(content), mimetype=media, etag=False)
    if media.startswith("text/") or media == "application/json":
        answer.content_type = media if not _is_utf8(content) else f"{media}; charset=utf-8"
    return answer


def _is_utf8(content: bytes) -> bool:
    """Return whether a text is UTF-8; a page that is not must declare its own charset."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _listing(chat: ChatStore, tree: str, path: str) -> Response:
    entries = Markup()
    for name in trees.names(chat.store, tree, ""):
        entry = trees.find_entry(chat.store, tree, name)
        ending = "/" if entry is not None and entry.mode == FOLDER else ""
        # `./`, because a browser would read the name `a:b` as a URL.
        link = f"./{quote(name, safe='', errors='surrogateescape')}{ending}"
        entries += _ENTRY.format(link, display.in_line(name + ending))
    answer = make_response(_LISTING.format(display.in_line(f"/{path}"), entries))
    answer.mimetype = "text/html"
    return answer


def _refusal(status: int) -> Response:
    answer = make_response(f"{HTTPStatus(status).phrase}\n", status)
    answer.mimetype = "text/plain"
    return answer
