"""Results that are pages: artifacts of toolsets, and pages of a tool's own server.

Both are third-party code and run in frames.  An artifact has its data, but no network, origin, storage or
navigation.  This takes three layers: its own headers, the sandbox of its frame (``templates/_artifact.html``)
and the policy of the page around it.  ``tests/server/render/test_artifact_escapes.py`` attacks them.
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from flask import Blueprint, make_response, request

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.models.calls import RenderPlan
from covalt_git.names import is_id
from covalt_git.render.csp import PAGE_POLICY
from covalt_git.render.inject_data import inject
from covalt_git.render.targets import LOCAL_HOSTS, PORTS, RefusedError, parse_url
from covalt_git.system.file_cache import FileCache
from covalt_server import request_context

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from werkzeug.wrappers import Response

    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import FileReference

pages = Blueprint("artifacts", __name__)

HEIGHT_SCRIPT = Path(__file__).with_name("artifact_height.js").read_text(encoding="ascii").strip()
"""Script that reports the height of the page; ``static/artifacts.js`` receives it."""

_SHOWN = FileCache(most=32)

_POLICY = ("sandbox allow-scripts", *PAGE_POLICY, "frame-ancestors 'self'")
_POWERS = (
    *("accelerometer", "autoplay", "browsing-topics", "camera", "clipboard-read"),
    *("clipboard-write", "compute-pressure", "display-capture", "encrypted-media", "fullscreen"),
    *("gamepad", "geolocation", "gyroscope", "hid", "identity-credentials-get", "idle-detection"),
    *("keyboard-map", "local-fonts", "magnetometer", "microphone", "midi", "otp-credentials"),
    *("payment", "picture-in-picture", "publickey-credentials-create"),
    *("publickey-credentials-get", "screen-wake-lock", "serial", "storage-access", "sync-xhr"),
    *("usb", "window-management", "xr-spatial-tracking"),
)
ARTIFACT_HEADERS = {
    "Content-Security-Policy": "; ".join(_POLICY),
    # These headers block what a CSP does not: WebRTC, DNS prefetches, navigation to our own server.
    "Connection-Allowlist": "();webrtc=block;redirects=block",
    "X-DNS-Prefetch-Control": "off",
    "Permissions-Policy": ", ".join(f"{power}=()" for power in _POWERS),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Revalidated for each request, so that the token and the frame are checked each time.
    "Cache-Control": "private, no-cache",
    "Vary": "Sec-Fetch-Dest, Cookie",
}
"""Headers of every artifact.

Only ``Connection-Allowlist`` blocks WebRTC; Chromium supports it since version 152.  In other browsers a page
can send its data over WebRTC.
"""

_HTTPS = 443


class NoPageError(CovaltError):
    """A call's result is not a page."""

    code = "no_page"
    http_status = 404


class FrameAddress(NamedTuple):
    """URL of a frame with a tool's own server, and the origin that our page has to allow."""

    url: str
    origin: str


@pages.get("/artifacts/<chat_id>/<call_id>")
def artifact(chat_id: str, call_id: str) -> Response:
    """Return the page of a finished call, from the commit of the call.

    Only for frames, which ``Sec-Fetch-Dest`` must show: a page with its own window could send its data
    in the URL of a navigation.
    """
    if request.headers.get("Sec-Fetch-Dest") != "iframe":
        raise CovaltError(
            "an HTML page made by a tool is shown only inside the page of its call",
            hint=f"open /chats/{chat_id}/calls/{call_id}",
            code="not_in_a_frame",
            http_status=403,
        )
    shown_page = _shown_page(chat_id, call_id)
    # After the cache, whose pages are the same for all roles: access is decided for each request.
    if not request_context.context().catalog.sees(shown_page.tool_id):
        raise _unknown_call(chat_id, call_id)
    answer = make_response()
    answer.headers.update(ARTIFACT_HEADERS)
    # The page is read from the commit of the call, which never changes.
    answer.set_etag(shown_page.manifest_id)
    if request.if_none_match.contains(shown_page.manifest_id):
        answer.status_code = HTTPStatus.NOT_MODIFIED
        return answer
    answer.set_data(shown_page.page)
    answer.content_type = shown_page.content_type
    return answer


class _ShownPage(NamedTuple):
    """The page of a finished call, before the access check."""

    tool_id: str
    manifest_id: str
    page: bytes
    content_type: str


def _shown_page(chat_id: str, call_id: str) -> _ShownPage:
    """Return the page of a call; the last ones are cached until a ref of their chat changes.

    Raises:
        UnknownNameError: if the call does not exist.
        NoPageError: if it has not finished, or its result is not a page.
    """
    # The id becomes part of a path below, which `..` would lead out of the folder of the chats.
    if not is_id(chat_id):
        return _read(chat_id, call_id)
    store = request_context.project().chats.folder / chat_id / "store.git"
    refs = (store / "HEAD", store / "packed-refs", store / "refs")
    return _SHOWN.get((store, call_id), refs, lambda: _read(chat_id, call_id))


def _read(chat_id: str, call_id: str) -> _ShownPage:
    chat, index = request_context.context().chat(chat_id), request_context.context().chat_index()
    index.sync_chat(chat)
    row = index.call(chat.id, call_id)
    if row is None:
        raise _unknown_call(chat_id, call_id)
    if row.post_manifest_id is None:
        raise NoPageError("the call has not finished", hint="reload the page when it has")
    call = chat.manifest(row.post_manifest_id).tool_call
    if call is None or call.id != call_id:
        raise _unknown_call(chat_id, call_id)
    page = artifact_page(call.render_plan or RenderPlan(renderer="default"), chat.records.content)
    return _ShownPage(call.tool_id, row.post_manifest_id, page, _content_type(page))


def artifact_page(plan: RenderPlan, read_record: Callable[[FileReference], bytes]) -> bytes:
    """Return the page of a render plan, with its data in ``window.__TOOL_DATA__``, that reports its height.

    Raises:
        NoPageError: if the plan has none.
    """
    source = artifact_source(plan, read_record)
    return inject(source, plan.config.get("data"), script=HEIGHT_SCRIPT)


def artifact_source(plan: RenderPlan, read_record: Callable[[FileReference], bytes]) -> bytes:
    """Return the page of a render plan as its author wrote it.

    Raises:
        NoPageError: if the plan has none.
    """
    content = plan.config.get("content")
    if plan.renderer == "html" and plan.artifact is not None:
        return read_record(plan.artifact)
    if plan.renderer == "html" and isinstance(content, str):
        return content.encode()
    raise NoPageError(
        "the call's result is not a page", hint="its renderer needs an artifact or a content"
    )


def frame_address(
    config: JsonObject, *, own_port: int, page_host: str, granted: Collection[str] = ()
) -> FrameAddress:
    """Return the URL of a plan's frame: on this machine, or at a granted host.

    ``page_host`` is the host in our page's URL.  ``granted`` are the hosts of the toolset's grants; they
    are compared exactly, with their port unless it is 443, and only https is allowed.

    A frame on this machine never has the host name of our page.  Cookies ignore ports, so that a browser
    would send our token to a server on 127.0.0.1:3000 if our page is on 127.0.0.1:8787; it sends none
    to ``localhost``.

    Raises:
        RefusedError: if the frame is not shown.
    """
    address = parse_url(config.get("url"))
    host, port, own_name = address.host, address.port, _name(page_host)
    if host in LOCAL_HOSTS:
        if port not in PORTS:
            raise RefusedError(
                f"a frame on this machine needs a port from {PORTS[0]} to {PORTS[-1]}"
            )
        if port == own_port:
            raise RefusedError(f"port {own_port} is covalt-git's own")
        host = "127.0.0.1" if own_name == "localhost" else "localhost"
    else:
        port = None if port == _HTTPS else port
        named = host if port is None else f"{host}:{port}"
        if named not in {name.lower() for name in granted}:
            raise RefusedError(
                f"{named!r} is not granted to the toolset as it is now, or not trusted on this machine"
            )
        if address.scheme != "https" or host == own_name:
            raise RefusedError(f"{named!r} is not another host that is reached by https")
    origin = f"{address.scheme}://{host}" + ("" if port is None else f":{port}")
    path = address.rest if address.rest.startswith("/") else f"/{address.rest}"
    return FrameAddress(url=origin + path, origin=origin)


def _name(host: str) -> str:
    """Return a host without its port; IPv6 addresses in brackets."""
    name = host.lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return f"[{name}]" if name.count(":") > 1 else name.partition(":")[0]


def _unknown_call(chat_id: str, call_id: str) -> UnknownNameError:
    return UnknownNameError("call", call_id, (), list_with=f"covalt-git chat log {chat_id}")


def _content_type(page: bytes) -> str:
    """Return a page's media type; pages that are not UTF-8 must declare their own charset."""
    try:
        page.decode("utf-8")
    except UnicodeDecodeError:
        return "text/html"
    return "text/html; charset=utf-8"
