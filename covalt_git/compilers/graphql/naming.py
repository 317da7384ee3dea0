"""Names of the tools of fields: the field in snake case, with ``_mutation`` where a query has the same."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.names import is_tool_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MAX_NAME: Final = 63
_HASH_DIGITS: Final = 6


class RootField(NamedTuple):
    """A field of the type of an operation: ``kind`` is query or mutation."""

    kind: str
    name: str
    upstream: str


def snake_case(name: str) -> str:
    """Return a name in snake case: ``allFilms`` is ``all_films``."""
    return _WORD_START.sub("_", name).lower()


def names_of(fields: Sequence[RootField], held: Mapping[str, str]) -> list[str]:
    """Return the name of each field; a field keeps its name in ``held``, by upstream, and newcomers give way.

    The names do not depend on the order of the fields.
    """
    names: dict[int, str] = {}
    used: set[str] = set()
    for position, field in enumerate(fields):
        name = held.get(field.upstream)
        if name is not None and is_tool_name(name) and name not in used:
            names[position] = name
            used.add(name)
    waiting = [position for position in range(len(fields)) if position not in names]
    forms = {position: _forms(fields[position]) for position in waiting}
    # If a query and a mutation have the same name, the query gets it. Two fields of one kind both get digits of a hash,
    # because the names must not depend on the order of the fields.
    for at in range(len(_forms(RootField("", "a", "")))):
        for kind in ("query", "mutation"):
            same = [position for position in waiting if fields[position].kind == kind]
            counts = Counter(forms[position][at] for position in same)
            for position in same:
                name = forms[position][at]
                if counts[name] == 1 and name not in used and is_tool_name(name):
                    names[position] = name
                    used.add(name)
        waiting = [position for position in waiting if position not in names]
    return [names[position] for position in range(len(fields))]


def first_name(field: RootField) -> str:
    """Return the name that a field has if no other field would have it."""
    return _forms(field)[0]


def _forms(field: RootField) -> tuple[str, ...]:
    """Return the names that a field can have, by preference; the last one is unique."""
    plain = snake_case(field.name)
    digits = hashlib.sha256(field.upstream.encode()).hexdigest()
    beginning = plain[: _MAX_NAME - 1 - _HASH_DIGITS].rstrip("_")
    whole = f"{field.kind[:1]}_{digits[: _MAX_NAME - 2]}"
    return plain, f"{plain}_{field.kind}", f"{beginning}_{digits[:_HASH_DIGITS]}", whole
