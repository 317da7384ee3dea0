"""The addresses of workspace files and manifests, as MCP resources have them.

::

    covalt-git://chats/c1/files/notes/today.md              as the chat has it now
    covalt-git://chats/c1/manifests/<id>                    the manifest, as JSON
    covalt-git://chats/c1/manifests/<id>/files/today.md     as it was then, for ever
    covalt-git://chats/c1/manifests/<id>/artifact           the toolset's page that its call showed
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

SCHEME = "covalt-git"

TEMPLATES = {
    "file": f"{SCHEME}://chats/{{chat}}/files/{{+path}}",
    "manifest": f"{SCHEME}://chats/{{chat}}/manifests/{{manifest}}",
    "file of a manifest": f"{SCHEME}://chats/{{chat}}/manifests/{{manifest}}/files/{{+path}}",
    "page of a call": f"{SCHEME}://chats/{{chat}}/manifests/{{manifest}}/artifact",
}
"""As in RFC 6570."""

_ADDRESS = re.compile(
    rf"{SCHEME}://chats/(?P<chat>[a-z0-9_-]+)"
    r"(?:/manifests/(?P<manifest>[0-9a-f]{40}(?:[0-9a-f]{24})?))?"
    r"(?:/files/(?P<path>.+)|/(?P<artifact>artifact))?"
)


class Address(NamedTuple):
    """What an address names: a file where it has a path, else a manifest or the page of its call."""

    chat_id: str
    manifest_id: str | None
    path: str | None
    is_artifact: bool = False


def can_be_named(path: str) -> bool:
    """Tell whether a file's path can stand in an address: it is UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def file(chat_id: str, path: str, *, manifest_id: str | None = None) -> str:
    """Return the address of a file: as it is, or as it was in a manifest."""
    where = f"{SCHEME}://chats/{chat_id}"
    if manifest_id is not None:
        where += f"/manifests/{manifest_id}"
    return f"{where}/files/{quote(path)}"


def manifest(chat_id: str, manifest_id: str) -> str:
    """Return the address of a manifest."""
    return f"{SCHEME}://chats/{chat_id}/manifests/{manifest_id}"


def artifact(chat_id: str, manifest_id: str) -> str:
    """Return the address of the toolset's page that was kept with the call of a manifest."""
    return f"{manifest(chat_id, manifest_id)}/artifact"


def parse(uri: str) -> Address | None:
    """Return what an address names, or None where it is none of ours."""
    found = _ADDRESS.fullmatch(uri)
    if found is None or not (found["manifest"] or found["path"]):
        return None
    try:
        path = found["path"] and unquote(found["path"], errors="strict")
    except UnicodeDecodeError:
        return None
    return Address(found["chat"], found["manifest"], path, found["artifact"] is not None)
