"""URIs of workspace files and commits (workspace manifests), which are MCP resources.

::

    covalt-git://chats/c1/files/notes/today.md              as the chat has it now
    covalt-git://chats/c1/manifests/<id>                    the commit, as JSON
    covalt-git://chats/c1/manifests/<id>/files/today.md     as of the commit; never changes
    covalt-git://chats/c1/manifests/<id>/artifact           the toolset's page that showed the call's result
    covalt-git://chats/c1/manifests/<id>/result/2           page 2 of the call's result as text; page 1 without the number
    covalt-git://chats/c1/manifests/<id>/links/1            the first resource of its MCP server to which the result links
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

SCHEME = "covalt-git"

PAGES = "ui://"
"""The scheme of pages that hosts draw (MCP Apps)."""

SERVERS = f"{SCHEME}://servers/"
"""Beginning of the URIs of resources of MCP servers."""

TEMPLATES = {
    "file": f"{SCHEME}://chats/{{chat}}/files/{{+path}}",
    "manifest": f"{SCHEME}://chats/{{chat}}/manifests/{{manifest}}",
    "file of a manifest": f"{SCHEME}://chats/{{chat}}/manifests/{{manifest}}/files/{{+path}}",
    "page of a call": f"{SCHEME}://chats/{{chat}}/manifests/{{manifest}}/artifact",
    "linked resource of a call": f"{SCHEME}://chats/{{chat}}/manifests/{{manifest}}/links/{{number}}",
    "result of a call": f"{SCHEME}://chats/{{chat}}/manifests/{{manifest}}/result{{/page}}",
}
"""URI templates (RFC 6570) by the names of the resources."""

_URI = re.compile(
    rf"{SCHEME}://chats/(?P<chat>[a-z0-9_-]+)"
    r"(?:/manifests/(?P<manifest>[0-9a-f]{40}(?:[0-9a-f]{24})?))?"
    r"(?:/files/(?P<path>.+)|/(?P<artifact>artifact)|/links/(?P<link>[1-9][0-9]{0,4})|/(?P<result>result)(?:/(?P<page>[1-9][0-9]{0,6}))?)?"
)


class ResourceUri(NamedTuple):
    """A parsed URI: of a file if it has a path, else of a commit, the page of its call, or a page or link of its result."""

    chat_id: str
    manifest_id: str | None
    path: str | None
    is_artifact: bool = False
    result_page: int | None = None
    link: int | None = None


def has_uri(path: str) -> bool:
    """Return whether a file's path can be part of a URI: it is valid UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def file(chat_id: str, path: str, *, manifest_id: str | None = None) -> str:
    """Return the URI of a file, as it is now or as of a commit."""
    where = f"{SCHEME}://chats/{chat_id}"
    if manifest_id is not None:
        where += f"/manifests/{manifest_id}"
    return f"{where}/files/{quote(path)}"


def of_server(namespace: str, uri: str) -> str:
    """Return the URI of a server's resource for our clients: it cannot be equal to a URI of another server, or of a resource of this project."""
    return f"{SERVERS}{namespace}/{uri}"


def in_result(namespace: str, uri: str) -> str:
    """Return the URI for our clients of a resource that a server embeds in a result.

    Hosts draw a page by its scheme, so that stays.  No toolset has the host, because no id has a dot.
    """
    page = uri.removeprefix(PAGES)
    return of_server(namespace, uri) if page == uri else f"{PAGES}{namespace}.server/{page}"


def manifest(chat_id: str, manifest_id: str) -> str:
    """Return the URI of a commit."""
    return f"{SCHEME}://chats/{chat_id}/manifests/{manifest_id}"


def artifact(chat_id: str, manifest_id: str) -> str:
    """Return the URI of the toolset's page that is stored with the call of a commit."""
    return f"{manifest(chat_id, manifest_id)}/artifact"


def result(chat_id: str, manifest_id: str) -> str:
    """Return the URI of the result of a commit's call."""
    return f"{manifest(chat_id, manifest_id)}/result"


def link(chat_id: str, manifest_id: str, number: int) -> str:
    """Return the URI of a resource to which the result of a commit's call links; the first has number 1."""
    return f"{manifest(chat_id, manifest_id)}/links/{number}"


def parse(uri: str) -> ResourceUri | None:
    """Return the parsed URI; None if it is not one of this module."""
    uri_match = _URI.fullmatch(uri)
    if uri_match is None or not (uri_match["manifest"] or uri_match["path"]):
        return None
    try:
        # Other bytes would become U+FFFD, and name another file.
        path = uri_match["path"] and unquote(uri_match["path"], errors="strict")
    except UnicodeDecodeError:
        return None
    page = int(uri_match["page"] or 1) if uri_match["result"] else None
    number = int(uri_match["link"]) if uri_match["link"] else None
    return ResourceUri(
        uri_match["chat"], uri_match["manifest"], path, bool(uri_match["artifact"]), page, number
    )
