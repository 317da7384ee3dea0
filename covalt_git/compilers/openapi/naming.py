"""Names of the tools of operations: ``resource.action``, from the path and the method.

The names of a description do not depend on the order of its operations.  A name that a lock has is kept, and a
newcomer with the same name takes another one, so that a new operation changes no other name.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.names import is_tool_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_NAME: Final = 63
"""Characters of a name, as `covalt_git.names` has them; longer names take the next form."""

_WORD = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")
_VERSION = re.compile(
    r"v?[0-9]+(?:[._-][0-9]+)*(?:(?:alpha|beta|rc|preview)[0-9]*)?|v[0-9]+p[0-9]+(?:beta[0-9]*)?",
    re.IGNORECASE,
)
_ACTIONS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_HASH_DIGITS = 6


class NamedOperation(NamedTuple):
    """What the name of an operation is made from."""

    method: str
    path: str
    operation_id: str
    upstream: str


def names_of(operations: Sequence[NamedOperation], held: Mapping[str, str]) -> list[str]:
    """Return the name of each operation; ``held`` are the names in the lock, by ``upstream``."""
    names: dict[int, str] = {}
    holders: dict[str, int] = {}
    for position, operation in enumerate(operations):
        name = held.get(operation.upstream)
        if name is not None and is_tool_name(name) and name not in holders:
            names[position] = name
            holders[name] = position
    forms = {
        position: list(_forms(operation))
        for position, operation in enumerate(operations)
        if position not in names
    }
    chosen = dict.fromkeys(forms, 0)
    # Each round moves the operations of a clash to their next form, of which each has at most four.
    clashing = list(forms)
    while clashing:
        by_name = defaultdict[str, list[int]](list)
        for position, form in chosen.items():
            by_name[forms[position][form]].append(position)
        clashing = [
            position
            for name, positions in by_name.items()
            for position in positions
            if (len(positions) > 1 or name in holders)
            and chosen[position] + 1 < len(forms[position])
        ]
        for position in clashing:
            chosen[position] += 1
    names |= {position: forms[position][form] for position, form in chosen.items()}
    return [names[position] for position in range(len(operations))]


def first_name(operation: NamedOperation) -> str:
    """Return the name that an operation has if no other operation would have it."""
    return next(_forms(operation))


def _forms(operation: NamedOperation) -> Iterator[str]:
    """Yield the names that an operation can have, the shortest first; the last one is unique."""
    by_path = f"{_resource(operation.path)}.{_action(operation)}"
    by_id = _words(operation.operation_id)
    plain = [by_path, *([by_id] if by_id else [])]
    with_method = f"{plain[-1]}_{operation.method.lower()}"
    key = f"{operation.method} {operation.path}".encode("utf-8", "surrogatepass")
    ending = hashlib.sha256(key).hexdigest()[:_HASH_DIGITS]
    yield from (name for name in (*plain, with_method) if is_tool_name(name))
    beginning = with_method[: MAX_NAME - 1 - _HASH_DIGITS].rstrip("._")
    yield f"{beginning}_{ending}"


def _resource(path: str) -> str:
    """Return the words of a path, without its parameters and versions."""
    segments = path.partition("#")[0].partition("?")[0].split("/")
    parts = [
        words
        for segment in segments
        if "{" not in segment and not _VERSION.fullmatch(segment)
        for part in segment.split(".")
        if (words := _words(part))
    ]
    return ".".join(parts) or "root"


def _action(operation: NamedOperation) -> str:
    if operation.method == "GET":
        last = operation.path.partition("#")[0].partition("?")[0].rstrip("/").rpartition("/")[2]
        return "get" if "{" in last else "list"
    return _ACTIONS.get(operation.method, operation.method.lower())


def _words(text: str) -> str:
    return "_".join(_WORD.findall(text)).lower()
