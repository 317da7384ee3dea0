"""The ``server.json`` of a toolset that ``covalt-git serve`` serves over MCP, for the MCP registry.

Source: the schema 2025-12-11 and the requirements of the official registry, which also refuses version ranges.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from covalt_git.credentials.leaks import blotted
from covalt_git.errors import CovaltError
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.models.toolset_manifest import ToolsetManifest

SCHEMA_URL: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
MAX_NAME: Final = 200
_MAX_TEXT: Final = 100
"""Maximum number of characters of a title and a description."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})+/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"(?!latest$)[A-Za-z0-9][A-Za-z0-9.+_-]{0,254}")
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

_TOKEN: Final[JsonObject] = {
    "name": "Authorization",
    "description": "An access token from the owner of the server",
    "value": "Bearer {token}",
    "isRequired": True,
    "isSecret": True,
    "variables": {
        "token": {"description": "An access token", "isRequired": True, "isSecret": True}
    },
}
"""The header of a server without issuers of tokens: a client cannot find out where to sign in."""


def server_json(manifest: ToolsetManifest, name: str, url: str, *, needs_token: bool) -> JsonObject:
    """Return the ``server.json`` of a toolset.

    Args:
        manifest: The toolset.
        name: The name of the server in the registry, such as ``io.github.ada/data-lab``.
        url: The URL at which others reach ``/mcp``.
        needs_token: Whether each user gets a token from the owner of the server.

    Raises:
        CovaltError: if the registry does not accept the name, the URL or the version, or a text has a credential.
    """
    _check_name(name)
    _check_url(url)
    _check_version(manifest)
    remote: JsonObject = {"type": "streamable-http", "url": url}
    if needs_token:
        remote["headers"] = [_TOKEN]
    # A description of several paragraphs begins with its summary.
    summary = " ".join(manifest.description.strip().partition("\n\n")[0].split())
    texts = {"title": manifest.name, "description": summary or manifest.name}
    for key, text in texts.items():
        if blotted(text) != text:
            raise CovaltError(
                f"the {key} for server.json has a credential: {blotted(text)}",
                hint=f"remove it from toolsets/{manifest.id}/toolset.yaml",
            )
    return {
        "$schema": SCHEMA_URL,
        "name": name,
        **{key: shorten(text, _MAX_TEXT) for key, text in texts.items()},
        "version": manifest.version,
        "remotes": [remote],
    }


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME or _NAME.fullmatch(name) is None:
        raise CovaltError(
            f"{name!r} is not the name of a server in the MCP registry",
            hint="write a domain of yours in reverse order, a slash and a name, such as io.github.ada/data-lab",
        )


def _check_url(url: str) -> None:
    hint = "write the https URL at which others reach the server, such as https://tools.example.com/mcp"
    if re.search(r"[\s{}]", url):
        raise CovaltError("the URL of the server has a space or a brace", hint=hint)
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host, parts = "", urlsplit("")
    if parts.scheme != "https" or not host or host in _LOCAL_HOSTS:
        raise CovaltError(
            f"{blotted(url)!r} is not an https URL of a server that others can reach", hint=hint
        )
    if parts.username is not None or parts.fragment or blotted(url) != url:
        raise CovaltError("the URL of the server has a login, a token or a fragment", hint=hint)


def _check_version(manifest: ToolsetManifest) -> None:
    version = manifest.version
    if _VERSION.fullmatch(version) is None or {"x", "X"} & {*version.split(".")}:
        raise CovaltError(
            f"the MCP registry does not accept the version {version!r}",
            hint=f"write an exact version into toolsets/{manifest.id}/toolset.yaml, such as 1.0.0",
        )
