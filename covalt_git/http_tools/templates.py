"""The texts of an HTTP request, with references and ``$args`` expressions in them, filled in.

One pass: what a reference or an argument stands for is never searched again, so that an argument
cannot ask for a secret.  An entry that names an argument which was not given is left out, and so
is one whose reference is not set and has an empty default.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalt_git.templating import expressions
from covalt_git.templating.expressions import Expression, Values
from covalt_git.templating.references import Reference, split
from covalt_git.templating.url_templates import as_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.json_values import JsonObject

HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
"""What a header can carry to every server."""

LEFT_OUT = object()
"""Stands for an entry that has nothing to say."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Fills texts in for one call; ``look_up`` returns None for a reference that says nothing."""

    args: JsonObject
    look_up: Callable[[Reference], str | None]

    def value(self, template: Any) -> Any:
        """Return a value with its texts filled in, or ``LEFT_OUT``; one expression keeps its type."""
        if isinstance(template, str):
            return self._text(template)
        if isinstance(template, dict):
            return {
                key: value
                for key, inner in template.items()
                if (value := self.value(inner)) is not LEFT_OUT
            }
        if isinstance(template, list | tuple):
            return [value for one in template if (value := self.value(one)) is not LEFT_OUT]
        return template

    def _text(self, template: str) -> Any:
        pieces: list[str | Reference | Expression] = []
        for piece in split(template):
            pieces += [piece] if isinstance(piece, Reference) else expressions.split(piece)
        values = [self._piece(piece) for piece in pieces]
        if any(value is LEFT_OUT for value in values):
            return LEFT_OUT
        if len(pieces) == 1 and isinstance(pieces[0], Expression):
            return values[0]
        return "".join(as_text(value) for value in values)

    def _piece(self, piece: str | Reference | Expression) -> Any:
        if isinstance(piece, str):
            return piece
        if isinstance(piece, Reference):
            found = self.look_up(piece)
            return LEFT_OUT if found is None else found
        value, unresolved = expressions.interpolate(piece.text, Values(self.args, None, ""))
        return LEFT_OUT if unresolved else value
