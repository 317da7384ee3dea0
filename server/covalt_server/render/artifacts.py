"""A result that is a page of its own: an artifact of a toolset, or what a tool's own server shows.

Both are other people's code in our page, so both stay in frames.  An artifact gets its data and
nothing else: no network, no origin, no storage, no way out.  What holds it are its own headers, the
frame it stands in (``templates/_artifact.html``) and the policy of the page around it; none of the
three alone leaks nothing (``tests/server/render/test_artifact_escapes.py`` tries).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from flask import Blueprint, make_response, request

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.models.calls import RenderPlan
from covalt_git.names import is_id
from covalt_git.render.csp import PAGE_POLICY
from covalt_git.render.inject_data import inject
from covalt_git.render.targets import LOCAL_HOSTS, PORTS, RefusedError, parse_url
from covalt_git.system.file_cache import FileCache
from covalt_git.workspaces.chat import finished_call
from covalt_server import request_context

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from werkzeug.wrappers import Response

    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import FileReference

pages = Blueprint("artifacts", __name__)

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
    # What no content security policy stops: WebRTC, DNS prefetches, navigating to our own server.
    "Connection-Allowlist": "();webrtc=block;redirects=block",
    "X-DNS-Prefetch-Control": "off",
    "Permissions-Policy": ", ".join(f"{power}=()" for power in _POWERS),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Asked for again each time, so that the token and the frame are checked each time.
    "Cache-Control": "private, no-cache",
    "Vary": "Sec-Fetch-Dest, Cookie",
}
"""What every artifact is answered with.

WebRTC is stopped by ``Connection-Allowlist`` alone, which Chromium knows since version 152; in
browsers that do not, a page may still send what it was given through it.
"""

_HTTPS = 443

FRAME_SANDBOX = "allow-scripts allow-same-origin allow-forms"
"""What a tool's own server may do in its frame: be a page of its own origin, and no more.

Without its origin it could not load its own modules or keep its own settings; its origin is never
ours.  It opens no window, where our cookie might be sent to it, and never navigates our page.
"""


class NotInAFrameError(CovaltError):
    """An artifact was asked for by something else than a frame of our page."""

    code = "not_in_a_frame"
    http_status = 403


class NoPageError(CovaltError):
    """A call's result is not a page."""

    code = "no_page"
    http_status = 404


class FrameAddress(NamedTuple):
    """Where the frame of a tool's own server leads, and the origin that our page has to allow."""

    url: str
    origin: str
    sandbox: str = FRAME_SANDBOX


class Refused(NamedTuple):
    """Why a frame leads nowhere."""

    reason: str


@pages.get("/artifacts/<chat_id>/<call_id>")
def artifact(chat_id: str, call_id: str) -> Response:
    """Answer with the page that a finished call showed, as it was then.

    Only to a frame: a page that had the whole window could navigate it anywhere, with its data in
    the address.  A browser says so by ``Sec-Fetch-Dest``; one that says nothing is not believed.
    """
    if request.headers.get("Sec-Fetch-Dest") != "iframe":
        raise NotInAFrameError(
            "a page of a tool is shown in a frame only, where it can lead nowhere",
            hint=f"open /chats/{chat_id}/calls/{call_id}",
        )
    shown = _shown_page(chat_id, call_id)
    if not request_context.catalog().sees(shown.tool_id):
        raise _unknown_call(chat_id, call_id)
    answer = make_response()
    answer.headers.update(ARTIFACT_HEADERS)
    answer.set_etag(shown.manifest_id)
    if request.if_none_match.contains(shown.manifest_id):
        answer.status_code = HTTPStatus.NOT_MODIFIED
        return answer
    answer.set_data(shown.page)
    answer.content_type = shown.content_type
    return answer


class _ShownPage(NamedTuple):
    """The page that a finished call showed, whoever may see it."""

    tool_id: str
    manifest_id: str
    page: bytes
    content_type: str


def _shown_page(chat_id: str, call_id: str) -> _ShownPage:
    """Return the page that a call showed; the last ones are remembered while no ref of theirs moves.

    Raises:
        UnknownNameError: when there is no such call.
        NoPageError: when it has not finished, or showed none.
    """
    if not is_id(chat_id):
        return _read(chat_id, call_id)
    store = request_context.project().chats.folder / chat_id / "store.git"
    refs = (store / "HEAD", store / "packed-refs", store / "refs")
    return _SHOWN.get((store, call_id), refs, lambda: _read(chat_id, call_id))


def _read(chat_id: str, call_id: str) -> _ShownPage:
    chat, index = request_context.chat(chat_id), request_context.index()
    index.sync_chat(chat)
    known = index.call(chat.id, call_id)
    if known is None:
        raise _unknown_call(chat_id, call_id)
    if known.post_manifest_id is None:
        raise NoPageError("the call has not finished", hint="look again when it has")
    call = finished_call(chat.manifest(known.post_manifest_id))
    if call is None or call.id != call_id:
        raise _unknown_call(chat_id, call_id)
    page = artifact_page(call.render_plan or RenderPlan(renderer="default"), chat.records.content)
    return _ShownPage(call.tool_id, known.post_manifest_id, page, _content_type(page))


def artifact_page(plan: RenderPlan, read_record: Callable[[FileReference], bytes]) -> bytes:
    """Return the page that a plan shows, with its data in ``window.__TOOL_DATA__``.

    Raises:
        NoPageError: when the plan shows none.
    """
    return inject(artifact_source(plan, read_record), plan.config.get("data"))


def artifact_source(plan: RenderPlan, read_record: Callable[[FileReference], bytes]) -> bytes:
    """Return the page that a plan shows, as its author wrote it.

    Raises:
        NoPageError: when the plan shows none.
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
) -> FrameAddress | Refused:
    """Return where the frame of a plan may lead: to this machine, or to a host that was granted.

    ``page_host`` is the name that our page was opened by, ``granted`` the hosts of the toolset's
    grants: compared exactly, with their port unless it is that of https, and reached by https only.

    A frame on this machine never bears our page's name.  Cookies ignore ports, and a server on
    127.0.0.1:3000 is of the same site as our page on 127.0.0.1:8787, so that a browser would send it
    our token; it sends none to ``localhost``.
    """
    try:
        address = parse_url(config.get("url"))
    except RefusedError as refused:
        return Refused(str(refused))
    host, port, own_name = address.host, address.port, _name(page_host)
    if host in LOCAL_HOSTS:
        if port not in PORTS:
            return Refused(f"a frame on this machine needs a port from {PORTS[0]} to {PORTS[-1]}")
        if port == own_port:
            return Refused(f"port {own_port} is covalt-git's own")
        host = "127.0.0.1" if own_name == "localhost" else "localhost"
    else:
        port = None if port == _HTTPS else port
        named = host if port is None else f"{host}:{port}"
        if named not in {name.lower() for name in granted}:
            return Refused(f"{named!r} was not granted to the toolset")
        if address.scheme != "https" or host == own_name:
            return Refused(f"{named!r} is not another host that is reached by https")
    origin = f"{address.scheme}://{host}" + ("" if port is None else f":{port}")
    path = address.rest if address.rest.startswith("/") else f"/{address.rest}"
    return FrameAddress(url=origin + path, origin=origin)


def _name(host: str) -> str:
    """Return a host's name without its port, an address of IPv6 in its brackets."""
    name = host.lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return f"[{name}]" if name.count(":") > 1 else name.partition(":")[0]


def _unknown_call(chat_id: str, call_id: str) -> UnknownNameError:
    return UnknownNameError("call", call_id, (), list_with=f"covalt-git chat log {chat_id}")


def _content_type(page: bytes) -> str:
    """Return a page's type: what is UTF-8 says so, the others have to say themselves what they are."""
    try:
        page.decode("utf-8")
    except UnicodeDecodeError:
        return "text/html"
    return "text/html; charset=utf-8"
