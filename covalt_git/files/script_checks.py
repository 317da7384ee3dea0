"""What a script asks its browser for and will not get in the frame that a tool's page is shown in.

Only plain words are looked for, by the names that browsers give to what they can do.  A script that
declares such a name itself means its own, and a line that nobody wrote by hand is a library, whose
page may not use half of what it can do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.files.script_text import code_only
from covalt_git.models import problems as codes

if TYPE_CHECKING:
    from collections.abc import Iterator

_IN_PLACE = "let it stand in a <script> of the page"
_NO_NETWORK = (
    codes.PAGE_CONNECTS,
    "is refused: a page has no network",
    "let the tool get it: what it returns is in window.__TOOL_DATA__",
)
_ONE_FILE = (codes.PAGE_POWERS, "is refused: a page is one file without workers", _IN_PLACE)
_NO_EVAL = (codes.PAGE_POWERS, "is refused: only what stands in the page runs", _IN_PLACE)
_NO_DIALOG = (
    codes.PAGE_POWERS,
    "does nothing: a page has no dialogs",
    "show it in an element of the page",
)
_NO_DEVICE = (
    codes.PAGE_POWERS,
    "is refused: a page has no devices and no clipboard",
    "to copy, select the text: document.execCommand('copy') works",
)
_NO_STORAGE = (
    codes.PAGE_STORES,
    "is refused: a page keeps nothing in the browser",
    "keep it in a variable while the page is open",
)
_NO_WINDOW = (
    codes.PAGE_LEAVES,
    "is refused: a page sees no window but its own",
    "remove it: what the page has to know belongs in its data",
)
_NO_WAY_OUT = (
    codes.PAGE_LEAVES,
    "leads nowhere: a page stays in its frame",
    "change what the page shows; location.hash may be set",
)

_REFUSED = {
    "fetch()": _NO_NETWORK,
    "new XMLHttpRequest": _NO_NETWORK,
    "new WebSocket": _NO_NETWORK,
    "new EventSource": _NO_NETWORK,
    "new WebTransport": _NO_NETWORK,
    "new RTCPeerConnection": _NO_NETWORK,
    "navigator.sendBeacon": _NO_NETWORK,
    "import": _ONE_FILE,
    "importScripts()": _ONE_FILE,
    "new Worker": _ONE_FILE,
    "new SharedWorker": _ONE_FILE,
    "navigator.serviceWorker": _ONE_FILE,
    "eval()": _NO_EVAL,
    "new Function": _NO_EVAL,
    "WebAssembly": _NO_EVAL,
    "alert()": _NO_DIALOG,
    "confirm()": _NO_DIALOG,
    "prompt()": _NO_DIALOG,
    "window.print()": _NO_DIALOG,
    "navigator.clipboard": _NO_DEVICE,
    "navigator.geolocation": _NO_DEVICE,
    "navigator.mediaDevices": _NO_DEVICE,
    "localStorage": _NO_STORAGE,
    "sessionStorage": _NO_STORAGE,
    "indexedDB": _NO_STORAGE,
    "document.cookie": _NO_STORAGE,
    "window.open()": _NO_WINDOW,
    "top.document": _NO_WINDOW,
    "top.location": _NO_WINDOW,
    "parent.document": _NO_WINDOW,
    "parent.location": _NO_WINDOW,
    "location =": _NO_WAY_OUT,
    "location.href =": _NO_WAY_OUT,
    "document.location =": _NO_WAY_OUT,
    "location.assign()": _NO_WAY_OUT,
    "location.replace()": _NO_WAY_OUT,
    "location.reload()": _NO_WAY_OUT,
}
"""What is refused: a name, or only what is made with ``new``, called ``()`` or set ``=``."""

NO_DOWNLOAD = (
    codes.PAGE_LEAVES,
    "a download is refused: a page saves no files",
    "let the tool write the file into the workspace",
)
NO_FORM = (
    codes.PAGE_LEAVES,
    "a form is never sent, and has no submit event: a page stays in its frame",
    "listen to the click on its button",
)

_GLOBAL = ("window.", "self.", "globalThis.")
_STARTS = {key.removeprefix("new ").rstrip("() =").partition(".")[0] for key in _REFUSED} | {
    name.rstrip(".") for name in _GLOBAL
}
_NAME = re.compile(
    rf"""(?<![\w$.\#]) (?P<new>new\s++)? (?P<first>{"|".join(sorted(_STARTS))}) (?![\w$])
        (?P<rest>(?:\s*+\.\s*+[A-Za-z_$][\w$]*+)*+)
        (?= \s*+ (?P<then> =(?![=>]) | [(:] | ) )""",
    re.VERBOSE,
)
_DECLARED = re.compile(r"\b(?:function|class|const|let|var)\s+([\w$]+)")
_METHOD = re.compile(r"\s*\([^()]*\)\s*\{")
_DOWNLOAD = re.compile(r"\.\s*download\s*=[^=]")
_ONSUBMIT = re.compile(r"\.\s*onsubmit\s*=[^=]")
_LISTENS = re.compile(r"""\baddEventListener\s*\(\s*["'`](?P<event>\s*)["'`]""")
_MAX_LINE = 1_000


class Refused(NamedTuple):
    """Something that is asked for in vain, and its place in the text it was found in."""

    place: int
    code: str
    message: str
    hint: str


def refused(script: str) -> Iterator[Refused]:
    """Yield what a script asks for in vain."""
    code = "\n".join(
        line if len(line) <= _MAX_LINE else " " * len(line)
        for line in code_only(script).split("\n")
    )
    declared = set(_DECLARED.findall(code))
    for found in _NAME.finditer(code):
        if found["first"] in declared:
            continue
        if found["then"] == "(" and _METHOD.match(code, found.end()):
            continue  # the declaration of a method
        key = _refused_key(found)
        if key is not None:
            kind, why, hint = _REFUSED[key]
            yield Refused(found.start(), kind, f"{key.rstrip(' =')!r} {why}", hint)
    for asked in _DOWNLOAD.finditer(code):
        yield Refused(asked.start(), *NO_DOWNLOAD)
    for asked in _ONSUBMIT.finditer(code):
        yield Refused(asked.start(), *NO_FORM)
    for asked in _LISTENS.finditer(code):
        if script[asked.start("event") : asked.end("event")] == "submit":
            yield Refused(asked.start(), *NO_FORM)


def _refused_key(found: re.Match[str]) -> str | None:
    """Return the key of a name, or of the beginning of it, that is refused."""
    whole = found["first"] + "".join(found["rest"].split())
    if found["then"] == ":" and not found["rest"]:
        return None  # the key of an object
    names = [whole, *(whole.removeprefix(own) for own in _GLOBAL if whole.startswith(own))]
    for name in names:
        if name.startswith("import."):
            continue  # import.meta is there
        parts = name.split(".")
        keys = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
        keys += [f"new {name}"] if found["new"] else []
        keys += [f"{name}()"] if found["then"] == "(" else []
        keys += [f"{name} ="] if found["then"] == "=" else []
        if key := next((key for key in keys if key in _REFUSED), None):
            return key
    return None
