"""Where two answers of a call differ, told as JSON paths."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalt_git import canonical_json, json_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST = 100
_LONGEST_VALUE = 500
_NOTHING = object()

Place = tuple[int | str, ...]
"""Where a value stands in a JSON value."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of what a call said that is another now: JSON texts, cut; None where nothing is."""

    path: str
    then: str | None
    now: str | None


def differences(then: Any, now: Any) -> tuple[Difference, ...]:
    """Return where two JSON values differ, as deep inside of them as it can be said; a hundred at most."""
    return tuple(itertools.islice(_within((), then, now), _MOST))


def _within(place: Place, then: Any, now: Any) -> Iterator[Difference]:
    if isinstance(then, dict) and isinstance(now, dict):
        for name in sorted(then.keys() | now.keys()):
            yield from _within((*place, name), then.get(name, _NOTHING), now.get(name, _NOTHING))
    elif isinstance(then, list) and isinstance(now, list):
        pairs = itertools.zip_longest(then, now, fillvalue=_NOTHING)
        for at, (was, is_now) in enumerate(pairs):
            yield from _within((*place, at), was, is_now)
    elif _json(then) != _json(now):
        path = json_schema.json_path(place)
        yield Difference(path, _cut(_json(then)), _cut(_json(now)))


def _json(value: Any) -> str | None:
    return None if value is _NOTHING else canonical_json.dumps(value).decode()


def _cut(text: str | None) -> str | None:
    long = text is not None and len(text) > _LONGEST_VALUE
    return f"{text[:_LONGEST_VALUE]}…" if text is not None and long else text
