"""HTTP requests in ``toolset.yaml``, where a dollar begins a reference or an expression."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.models.base import HTTP_URL
from covalt_git.templating.references import split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from covalt_git.formats.model import Part
    from covalt_git.templating.references import Reference

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_DOLLAR = re.compile(r"\$(?!\{(?:secret:|env:)?[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\})")
_REFERENCE = re.compile(r"\$\{(?:secret:|env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_LOGIN = re.compile(r"(https?://)(\$\{\w*LOGIN(?:_\d+)?\})@", re.IGNORECASE)
"""The reference to a whole login that ``literal_credentials`` writes into a URL."""

_ARGUMENT = re.compile(r"(?<!\$)(?:\$\$)*\$\{?args\b")
_BRACES = re.compile(r"(?P<reference>\$\{[^{}]*\})|\{(?P<name>[^{}]*)\}|[{}]")
_PLACEHOLDER = re.compile(r"<([A-Za-z_][A-Za-z0-9_]*)>")


def escaped(text: str) -> str:
    """Return a text without expressions, in which references such as ``${NAME}`` stay."""
    return _DOLLAR.sub("$$", text)


def unescaped(text: str) -> str:
    """Return the text of :func:`escaped` again."""
    return text.replace("$$", "$")


def with_references(text: str, change: Callable[[Reference], str]) -> str:
    """Return the text of :func:`escaped` again, with each of its references changed."""
    return "".join(
        unescaped(piece) if isinstance(piece, str) else change(piece) for piece in split(text)
    )


def with_arguments(url: str, names: Collection[str]) -> str:
    """Return a URL in which only ``{name}`` with one of these names is an argument; other braces are encoded."""

    def encoded(braces: re.Match[str]) -> str:
        if braces["reference"] or braces["name"] in names:
            return braces[0]
        return braces[0].replace("{", "%7B").replace("}", "%7D")

    return _BRACES.sub(encoded, url)


def is_url(value: Any) -> bool:
    """Return whether a value is a URL of http or https."""
    return isinstance(value, str) and re.match(HTTP_URL, value) is not None


def without_login(url: str) -> tuple[str, str]:
    """Return a URL without the login that is a reference, and the value of the header ``Authorization`` for it, if any."""
    login = _LOGIN.match(url)
    return (login[1] + url[login.end() :], f"Basic {login[2]}") if login else (url, "")


def login_message(header: str) -> str:
    """Return the note about a login that became a header."""
    return f"the login is sent as a header: {header} has user:password in base64"


def is_server_url(value: Any) -> bool:
    """Return whether a value is a URL that an MCP server can have: one whose login before the host is at most a reference."""
    if not is_url(value):
        return False
    value, _ = without_login(value)
    # Some providers hand out https://host/@name/mcp; only before the first slash it is a login.
    return "@" not in re.split(r"[/?#]", value.partition("://")[2])[0]


def plain_headers(http: Part, reason: str) -> dict[str, str]:
    """Return the headers of a request as plain texts; record ``reason`` for those with arguments."""
    headers = {}
    for name, value in http.entries("headers"):
        if has_arguments(value.value):
            value.drop(reason)
        else:
            headers[name] = unescaped(value.use())
    return headers


def has_arguments(text: str) -> bool:
    """Return whether a text contains arguments of the call."""
    return bool(_ARGUMENT.search(text))


def placeholders_to_references(text: str) -> str:
    """Return a text with ``${NAME}`` in place of ``<NAME>``."""
    return _PLACEHOLDER.sub(r"${\1}", text)


def references_to_placeholders(text: str) -> str:
    """Return a text with ``<NAME>`` in place of ``${NAME}``."""
    return _REFERENCE.sub(r"<\1>", text)
