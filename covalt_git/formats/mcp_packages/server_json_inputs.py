"""Values of a ``server.json`` that the document or a user sets: of variables, headers and arguments.

Keys are given in snake_case, and found in camelCase too.  No function changes the document, or uses a part of it: each text
comes with its origins, which the caller traces.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.credentials.named_values import is_secret
from covalt_git.formats.http_texts import escaped
from covalt_git.formats.model import owned_variable

if TYPE_CHECKING:
    from covalt_git.formats.model import Part

BRACES: Final = re.compile(r"\{([^{}]+)\}")
"""A variable in a text, by its name."""

_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=\{[^{}]+\}")


class Word(NamedTuple):
    """A text of the output, and the parts of the document that it has."""

    text: str
    origins: tuple[Part, ...] = ()


class Inputs:
    """Reader of values that the document or a user sets: variables, headers and arguments.

    A secret becomes a reference to it.  Another value is its fixed value or its default, else a reference to a
    variable of the environment.  Names of references begin with the server's, unless they are of variables.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def setting(self, source: Part, *, is_env: bool = False) -> Word:
        """Return the value of a variable or a header; an optional one has an empty default."""
        name = source.peek("name")
        result = self.value(source, name, variable=name if is_env else "")
        result = result or self._reference(
            source, name if is_env else owned_variable(self._owner, name), ":-"
        )
        return Word(result.text, (source["name"], *result.origins))

    def value(self, source: Part, name: str, *, variable: str = "") -> Word | None:
        """Return a value; None if it is optional and not known.

        ``variable`` is the name of the variable that a user sets, if it is not made of ``name``.
        """
        is_hidden = is_secret_input(source, variable or name)
        text = source.peek("value")
        # A fixed value of a secret is a credential of the author.
        if isinstance(text, str) and (not is_hidden or re.search(r"\{.+\}", text)):
            return self.filled(source["value"], source, variable)
        default = source.peek("default")
        if isinstance(default, str | int | float) and not value_of(source, "is_secret"):
            excerpt = default if isinstance(default, str) else json.dumps(default)
            return Word(escaped(excerpt), (source["default"], *_flags(source)))
        if not value_of(source, "is_required", "required") and "value" not in source:
            return None
        return self._reference(source, variable or owned_variable(self._owner, name))

    def filled(self, part: Part, source: Part, variable: str = "") -> Word:
        """Return a text in which ``{name}`` of the ``variables`` of its source has a value.

        ``variable`` is the name for its only variable, if the text is nothing else.
        """
        variables = dict(source.entries("variables"))
        text = part.value
        assigned = _ASSIGNED.fullmatch(text)
        if assigned is not None:
            variable = assigned[1]
        elif not BRACES.fullmatch(text):
            variable = ""
        origins = [part, *_flags(source)]
        pieces: list[str] = []
        end = 0
        for result in BRACES.finditer(text):
            if result[1] in variables:
                value = self.value(variables[result[1]], result[1], variable=variable)
                value = value or self._reference(
                    variables[result[1]], variable or owned_variable(self._owner, result[1])
                )
                pieces += [escaped(text[end : result.start()]), value.text]
                origins += value.origins
                end = result.end()
        return Word("".join([*pieces, escaped(text[end:])]), tuple(origins))

    def _reference(self, source: Part, name: str, default: str = "") -> Word:
        place = "" if is_secret_input(source, name) else "env:"
        origins = tuple(source[key] for key in ("value",) if key in source)
        return Word(f"${{{place}{name}{default}}}", (*origins, *_flags(source)))


def _flags(source: Part) -> tuple[Part, ...]:
    """Return the properties of a value that a reference, or the lack of one, says too; some files write ``required``."""
    parts = (part_of(source, key) for key in ("is_required", "required", "is_secret"))
    return tuple(part for part in parts if part is not None)


def is_secret_input(source: Part, name: str) -> bool:
    """Return whether a value is a secret: if the document does not say it, by its name."""
    is_marked = value_of(source, "is_secret")
    return is_secret(name) if is_marked is None else bool(is_marked)


def part_of(source: Part, *keys: str) -> Part | None:
    """Return the first part with one of these keys, which are in snake_case, in either case."""
    for key in keys:
        for item in (key, re.sub(r"_(\w)", lambda result: result[1].upper(), key)):
            if item in source:
                return source[item]
    return None


def value_of(source: Part, *keys: str) -> Any:
    """Return the value of the first part with one of these keys, as :func:`part_of`; None without one."""
    part = part_of(source, *keys)
    return None if part is None else part.value


def items_of(source: Part, key: str) -> list[Part]:
    """Return the items of a list, in either case of its key; none without the list."""
    listed = part_of(source, key)
    return [] if listed is None else [listed[at] for at in range(len(listed.value))]
