"""Texts of HTTP requests in ``toolset.yaml``, where a dollar begins a reference or an expression."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_DOLLAR = re.compile(r"\$(?!\{(?:secret:|env:)?[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\})")
_REFERENCE = re.compile(r"\$\{(?:secret:|env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_ARGUMENT = re.compile(r"(?<!\$)(?:\$\$)*\$\{?args\b")
_BRACES = re.compile(r"(?P<reference>\$\{[^{}]*\})|\{(?P<name>[^{}]*)\}|[{}]")
_PLACEHOLDER = re.compile(r"<([A-Za-z_][A-Za-z0-9_]*)>")


def escaped(text: str) -> str:
    """Return a text without expressions, in which references such as ``${NAME}`` stay."""
    return _DOLLAR.sub("$$", text)


def unescaped(text: str) -> str:
    """Return the text of :func:`escaped` again."""
    return text.replace("$$", "$")


def with_arguments(url: str, names: Collection[str]) -> str:
    """Return a URL in which only ``{name}`` with one of these names is an argument; other braces are encoded."""

    def encoded(found: re.Match[str]) -> str:
        if found["reference"] or found["name"] in names:
            return found[0]
        return found[0].replace("{", "%7B").replace("}", "%7D")

    return _BRACES.sub(encoded, url)


def has_arguments(text: str) -> bool:
    """Return whether a text contains arguments of the call."""
    return bool(_ARGUMENT.search(text))


def placeholders_to_references(text: str) -> str:
    """Return a text with ``${NAME}`` in place of ``<NAME>``."""
    return _PLACEHOLDER.sub(r"${\1}", text)


def references_to_placeholders(text: str) -> str:
    """Return a text with ``<NAME>`` in place of ``${NAME}``."""
    return _REFERENCE.sub(r"<\1>", text)
