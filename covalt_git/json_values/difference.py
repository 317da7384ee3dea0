"""Equality of JSON values (true is not 1, and 1 equals 1.0), and the differences of two values."""

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
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """A JSON path at which two values differ, and both as shortened JSON; None for a missing value."""

    path: str
    then: str | None
    now: str | None


def same(first: Any, second: Any) -> bool:
    """Return whether two values are equal as JSON."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def differences(then: Any, now: Any) -> tuple[Difference, ...]:
    """Return the smallest parts at which two values differ, at most a hundred."""
    return tuple(itertools.islice(_differences((), then, now), _MOST))


def _differences(place: Loc, then: Any, now: Any) -> Iterator[Difference]:
    if isinstance(then, dict) and isinstance(now, dict):
        for name in sorted(then.keys() | now.keys()):
            yield from _differences(
                (*place, name), then.get(name, _MISSING), now.get(name, _MISSING)
            )
    elif isinstance(then, list) and isinstance(now, list):
        pairs = itertools.zip_longest(then, now, fillvalue=_MISSING)
        for index, (old, new) in enumerate(pairs):
            yield from _differences((*place, index), old, new)
    elif not same(then, now):
        yield Difference(json_path(place), _text(then), _text(now))


def _text(value: Any) -> str | None:
    if value is _MISSING:
        return None
    return shorten(canonical_json.dumps(value).decode(), _LONGEST_VALUE)
