"""The ``server.json`` of a toolset that ``covalt-git serve`` serves over MCP, for the MCP registry.

Source: the schema 2025-12-11 and the requirements of the official registry, which also refuses version ranges.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from covalt_git.credentials.leaks import blotted, decoded, separated
from covalt_git.credentials.values import SHORTEST_SEARCHED, Mask
from covalt_git.errors import CovaltError
from covalt_git.hosts import BadHostError, WebOrigin, is_local, is_public_name, origin_of
from covalt_git.text import display
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.toolset_manifest import ToolsetManifest

SCHEMA_URL: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
MAX_NAME: Final = 200
_MAX_TEXT: Final = 100
"""Maximum number of characters of a title and a description."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})+/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"(?!latest$)[A-Za-z0-9][A-Za-z0-9.+_-]{0,254}")
_OPTIONS: Final = frozenset({"names", "mode"})
"""Options of ``/mcp`` in the query of its URL."""

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


def server_json(
    manifest: ToolsetManifest,
    name: str,
    url: str,
    *,
    needs_token: bool,
    secrets: Mapping[str, str] = MappingProxyType({}),
) -> JsonObject:
    """Return the ``server.json`` of a toolset.

    Args:
        manifest: The toolset.
        name: The name of the server in the registry, such as ``io.github.ada/data-lab``.
        url: The URL at which others reach ``/mcp``.
        needs_token: Whether each user gets a token from the owner of the server.
        secrets: The values of this machine's secrets by their names, which no text may have.

    Raises:
        CovaltError: if the registry does not accept the name, the URL or the version, or a text has a credential or a
            character that is not visible.
    """
    _check_name(name)
    # First, because other errors quote the texts.
    _check_secrets(manifest, {"name": name, "URL": url, **_texts(manifest)}, secrets)
    _check_url(url)
    _check_version(manifest)
    remote: JsonObject = {"type": "streamable-http", "url": url}
    if needs_token:
        remote["headers"] = [_TOKEN]
    # A description of several paragraphs begins with its summary.
    summary = " ".join(manifest.description.strip().partition("\n\n")[0].split())
    texts = {"title": manifest.name, "description": summary or manifest.name}
    return {
        "$schema": SCHEMA_URL,
        "name": name,
        **{key: shorten(text, _MAX_TEXT) for key, text in texts.items()},
        "version": manifest.version,
        "remotes": [remote],
    }


def _texts(manifest: ToolsetManifest) -> dict[str, str]:
    # A token behind the number of a version, or behind a `v`, has no beginning of its own.
    parts = re.sub("[-+.]", " ", manifest.version)
    version = f"{manifest.version} {parts} {separated(manifest.version)}"
    return {
        "title": manifest.name,
        "description": manifest.description,
        "version": version,
    }


def _check_secrets(
    manifest: ToolsetManifest, texts: Mapping[str, str], secrets: Mapping[str, str]
) -> None:
    """Check that texts have no credential, no value of this machine's secrets, and no hidden character."""
    hint = f"remove it from toolsets/{manifest.id}/toolset.yaml"
    values = {
        secret: Mask([value])
        for secret, value in secrets.items()
        if len(value) >= SHORTEST_SEARCHED
    }
    for key, text in texts.items():
        own_hint = "" if key in {"name", "URL"} else hint
        forms = {text.encode(), decoded(text).encode()}
        for secret, mask in values.items():
            if any(mask.place(form) is not None for form in forms):
                raise CovaltError(
                    f"the {key} for server.json has the value of {secret}, which is set on this machine",
                    hint=own_hint,
                )
        if blotted(text) != text:
            raise CovaltError(
                f"the {key} for server.json has a credential: {blotted(text)}", hint=own_hint
            )
        if display.running(text) != text:
            raise CovaltError(
                f"the {key} for server.json has a hidden character: {display.running(shorten(text))}",
                hint=own_hint,
            )


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME or _NAME.fullmatch(name) is None:
        raise CovaltError(
            f"{name!r} is not the name of a server in the MCP registry",
            hint="write a domain of yours in reverse order, a slash and a name, such as io.github.ada/data-lab",
        )


def _check_url(url: str) -> None:
    hint = "write the https URL at which others reach the server, such as https://tools.example.com/mcp"
    if re.search(r"[\s{}]|%(?:[01][0-9A-Fa-f]|7[Ff])", url):
        raise CovaltError(
            "the URL of the server has a space, a brace or a control character", hint=hint
        )
    try:
        if urlsplit(url).username is not None:
            raise CovaltError("the URL of the server has a login", hint=hint)
        origin, rest = origin_of(url)
    except (ValueError, BadHostError):
        origin, rest = WebOrigin("", "", 0), ""
    # Other spellings of an address are normalized, or refused.
    if origin.scheme != "https" or is_local(origin.host) or not is_public_name(origin.host):
        raise CovaltError(
            f"{url!r} is not an https URL of a server that others can reach", hint=hint
        )
    query = urlsplit(rest).query
    if "#" in rest or not {part.partition("=")[0] for part in query.split("&") if part} <= _OPTIONS:
        # Each user of the registry reads the URL.
        raise CovaltError(
            "the URL of the server has a fragment, or a query with other keys than names and mode",
            hint=hint,
        )


def _check_version(manifest: ToolsetManifest) -> None:
    version = manifest.version
    if _VERSION.fullmatch(version) is None or {"x", "X"} & {*version.split(".")}:
        raise CovaltError(
            f"the MCP registry does not accept the version {version!r}",
            hint=f"write an exact version into toolsets/{manifest.id}/toolset.yaml, such as 1.0.0",
        )
