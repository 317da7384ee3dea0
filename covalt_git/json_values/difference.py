"""Equality of JSON values (true is not 1, and 1 is 1.0), and the parts at which two of them differ."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalt_git.json_values import canonical_json
from covalt_git.json_values.pointer import Loc, json_path
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST = 100
_LONGEST_VALUE = 500
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """A part that differs: its JSON path, and both values as shortened JSON; None for a missing value."""

    path: str
    then: str | None
    now: str | None


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def differences(then: Any, now: Any) -> tuple[Difference, ...]:
    """Return where two values differ, as deep inside as possible; at most a hundred parts."""
    return tuple(itertools.islice(_differences((), then, now), _MOST))


def _differences(place: Loc, then: Any, now: Any) -> Iterator[Difference]:
    if isinstance(then, dict) and isinstance(now, dict):
        for name in sorted(then.keys() | now.keys()):
            yield from _differences(
                (*place, name), then.get(name, _NOTHING), now.get(name, _NOTHING)
            )
    elif isinstance(then, list) and isinstance(now, list):
        pairs = itertools.zip_longest(then, now, fillvalue=_NOTHING)
        for at, (was, is_now) in enumerate(pairs):
            yield from _differences((*place, at), was, is_now)
    elif not same(then, now):
        yield Difference(json_path(place), _text(then), _text(now))


def _text(value: Any) -> str | None:
    if value is _NOTHING:
        return None
    return shorten(canonical_json.dumps(value).decode(), _LONGEST_VALUE)
