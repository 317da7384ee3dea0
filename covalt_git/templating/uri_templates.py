"""Addresses of resources with variables in them: ``docs://{chapter}/{+path}`` (RFC 6570, levels 1 and 2).

``{name}`` stands for one part of an address, with no ``/`` in it, ``{+name}`` for any number of them.
Where an address can be read in two ways, the first variable has the longest value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from covalt_git.errors import CovaltError

_VARIABLE = re.compile(r"\{(?P<rest>\+?)(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_LETTERS = 8192
"""Of an address; a longer one is none of ours."""


class BadUriTemplateError(CovaltError):
    """A template that has no one meaning."""

    code = "bad_uri_template"


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A template, read: the names of its variables, and what its addresses look like."""

    variables: tuple[str, ...]
    _addresses: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> UriTemplate:
        """Read a template.

        Raises:
            BadUriTemplateError: with what it would have to be.
        """
        names: list[str] = []
        pattern = ""
        position = 0
        for match in _VARIABLE.finditer(text):
            plain = text[position : match.start()]
            if names and not plain:
                raise BadUriTemplateError(
                    f"nothing stands between {names[-1]!r} and {match['name']!r}",
                    hint="put a / between them",
                )
            if match["name"] in names:
                raise BadUriTemplateError(f"{match['name']!r} stands in it twice")
            names.append(match["name"])
            pattern += _literal(plain) + (r"(.+)" if match["rest"] else r"([^/?#]+)")
            position = match.end()
        pattern += _literal(text[position:])
        if pattern.count("(.+)") > 1:
            raise BadUriTemplateError(
                "more than one variable may have any number of parts",
                hint="write {name} in place of {+name}",
            )
        return cls(tuple(names), re.compile(pattern))

    def match(self, address: str) -> dict[str, str] | None:
        """Return what the variables are in an address, decoded; None where it is none of this template."""
        found = None if len(address) > _MOST_LETTERS else self._addresses.fullmatch(address)
        if found is None:
            return None
        try:
            values = [unquote(value, errors="strict") for value in found.groups()]
        except UnicodeDecodeError:
            return None
        return dict(zip(self.variables, values, strict=True))


def _literal(text: str) -> str:
    if "{" in text or "}" in text:
        raise BadUriTemplateError(
            f"{text!r} has a brace that belongs to no variable",
            hint="write {name} or {+name}, of letters, digits and _",
        )
    return re.escape(text)
