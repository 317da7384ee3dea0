"""URI templates of resources: ``docs://{chapter}/{+path}`` (RFC 6570, levels 1 and 2).

``{name}`` matches one segment, ``{+name}`` any number of segments.  If a URI matches in two ways, the first
variable gets the longest value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from covalt_git.errors import CovaltError

_VARIABLE = re.compile(r"\{(?P<rest>\+?)(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
# A client sends any URI, and the patterns of variables can take the square of its length.
_MOST_LETTERS = 8192
"""Longest URI that is compared with a template."""


class BadUriTemplateError(CovaltError):
    """An invalid or ambiguous template."""

    code = "bad_uri_template"


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A parsed template: the names of its variables, and the pattern of its URIs."""

    variables: tuple[str, ...]
    _pattern: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> UriTemplate:
        """Parse a template.

        Raises:
            BadUriTemplateError: if it is invalid; the hint has a correction.
        """
        names: list[str] = []
        pattern = ""
        position = 0
        for match in _VARIABLE.finditer(text):
            plain = text[position : match.start()]
            if names and not plain:
                raise BadUriTemplateError(
                    f"there is no text between {names[-1]!r} and {match['name']!r}",
                    hint="put a / between them",
                )
            if match["name"] in names:
                raise BadUriTemplateError(f"{match['name']!r} occurs twice")
            names.append(match["name"])
            pattern += _literal(plain) + (r"(.+)" if match["rest"] else r"([^/?#]+)")
            position = match.end()
        pattern += _literal(text[position:])
        if pattern.count("(.+)") > 1:
            raise BadUriTemplateError(
                "only one variable of a URI template can match several path segments",
                hint="keep one {+name}, and write {name} for the others",
            )
        return cls(tuple(names), re.compile(pattern))

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values of the variables in a URI; None if it does not match."""
        match = None if len(uri) > _MOST_LETTERS else self._pattern.fullmatch(uri)
        if match is None:
            return None
        try:  # decoded after the match: `%2F` is part of a value, and ends no segment
            values = [unquote(value, errors="strict") for value in match.groups()]
        except UnicodeDecodeError:
            return None
        return dict(zip(self.variables, values, strict=True))


def _literal(text: str) -> str:
    if "{" in text or "}" in text:
        raise BadUriTemplateError(
            f"{text!r} has a brace outside a variable",
            hint="write {name} or {+name}, of letters, digits and _",
        )
    return re.escape(text)
