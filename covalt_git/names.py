"""Rules for names: ids of toolsets, chats and branches, tool ids, and patterns that select tools.

Only this module parses ids and matches patterns; other modules compare the parsed values.  Rules for file
names are in :mod:`covalt_git.paths`.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_ID = 64
MAX_TOOL_PATH = 128
"""MCP allows tool names of at most 128 of ``[A-Za-z0-9_.-]`` (specification 2026-07-28)."""

BUILTIN_NAMESPACE = "workspace"
"""The namespace of the built-in tools, so that no toolset can have it."""

REGISTRY_NAMESPACE = "registered"
"""The namespace of registered tools, and the id of the toolset in which they are listed."""

LOCAL_USER = "local"
LOCAL_CLIENT = "client:"
"""The id of the principal that is the user of this machine."""

# Not "search": `tools.search` is no tool, and `tools.search.find` is that of a toolset.
SCRIPT_NAMES = frozenset({"describe"})
"""Namespaces of scripts: ``tools.describe.tool`` describes a tool."""

RESERVED_TOOLSET_IDS = SCRIPT_NAMES | {"state", "locks", REGISTRY_NAMESPACE, BUILTIN_NAMESPACE}
"""Folders of ``toolsets/`` that the machine writes, the namespaces of registered and built-in tools, and :data:`SCRIPT_NAMES`."""

EVERYTHING = frozenset({"*", "**"})
"""The patterns that select every tool."""

_MAX_NAME = MAX_TOOL_PATH - MAX_ID - 1
"""Characters of a tool's name within its namespace."""

_HASH_DIGITS = 8
"""Hex digits of the hash that makes a changed upstream name unique."""

_ID = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
ID_PATTERN = f"^(?:{_ID.pattern})$"
"""Pattern of JSON Schemas for ids."""

_NEW_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
NEW_ID_PATTERN = f"^{_NEW_ID}$"
"""Pattern of JSON Schemas for ids that a caller chooses: UUIDs of version 7."""
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
FULL_TOOL_ID_PATTERN = f"^{_ID.pattern}:{_TOOL_NAME.pattern}$"
"""Pattern of JSON Schemas for ids of tools with their namespaces; not all validators know a lookahead, so it has no lengths."""

_BRANCH = r"[A-Za-z0-9](?:[A-Za-z0-9_-]|[./](?![./]))*"
_GITS_OWN = r"(?i:refs(?:/.*)?|head)|[A-Z_]+_HEAD"
"""What git, or a reader of its answers, takes for a ref of another kind: ``refs/x``, ``FETCH_HEAD``."""


class BadNameError(CovaltError):
    """A name that the project's rules do not allow."""

    code = "bad_name"


def is_id(text: str) -> bool:
    """Return whether ``text`` is a valid id of a toolset, a chat or a namespace."""
    return len(text) <= MAX_ID and _ID.fullmatch(text) is not None


def check_id(text: str, kind: str) -> str:
    """Return ``text`` if it is a valid id; ``kind`` is the word for it in messages.

    Raises:
        BadNameError: if it is not; the hint has a similar valid id, if there is one.
    """
    if is_id(text):
        return text
    near = suggest_id(text)
    raise BadNameError(
        f"{text!r} cannot be a {kind} id",
        hint=(f"try {near!r}; " if near else "")
        + f"ids are lower-case words joined by - or _, at most {MAX_ID} characters",
    )


def host_name(tool_id: str) -> str:
    """Return the name of a tool for MCP hosts that reject dots; several tools may have the same."""
    return ToolId.parse(tool_id).path.replace(".", "_")


def suggest_id(text: str) -> str:
    """Return the valid id most similar to ``text``; an empty string if no character can be used."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    near = "-".join(words).lstrip("0123456789-")[:MAX_ID].rstrip("-")
    return near if is_id(near) else ""


def id_key(text: str) -> str:
    """Return the form of an id that must be unique: ``my-tools`` and ``my_tools`` have the same."""
    return text.replace("-", "_")


def check_branch(text: str) -> str:
    """Return ``text`` if it is a valid branch name; the rules are stricter than git's.

    Raises:
        BadNameError: if it is not.
    """
    legal = (
        len(text) <= MAX_TOOL_PATH
        and re.fullmatch(_BRANCH, text) is not None
        and not text.endswith((".", "/", ".lock"))
        and ".lock/" not in text
        and re.fullmatch(_GITS_OWN, text) is None
    )
    if not legal:
        raise BadNameError(
            f"{text!r} cannot be a branch name",
            hint="use letters, digits and . _ - / between them, such as idea or try/blue; "
            "HEAD and names that begin with refs/ have another meaning in git",
        )
    return text


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562, section 5.7); ids are ordered by time, also within a millisecond."""
    nanoseconds = time.time_ns()
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    fraction = (rest << 12) // 1_000_000  # 12 bits below the millisecond: method 3 of section 6.2
    random = int.from_bytes(os.urandom(8)) & (1 << 62) - 1
    value = milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | random
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_new_id(text: str) -> bool:
    """Return whether ``text`` is a UUIDv7 in the form of :func:`new_id`."""
    return re.fullmatch(_NEW_ID, text) is not None


def check_new_id(text: str, kind: str) -> str:
    """Return ``text``, an id from a caller, if it is a UUIDv7 in the form of :func:`new_id`.

    Raises:
        BadNameError: if it is not.
    """
    if is_new_id(text):
        return text
    raise BadNameError(
        f"{text!r} cannot be a {kind} id",
        hint=f"ids of {kind}s are UUIDs of version 7 in lower case, such as {new_id()}",
    )


class ToolId(NamedTuple):
    """The id of a tool: ``app-builder:write_file``; agents see it as ``app-builder.write_file``."""

    namespace: str
    name: str

    @staticmethod
    def parse(text: str) -> ToolId:
        """Return the id from either of its two spellings.

        Raises:
            BadNameError: if ``text`` has neither spelling.
        """
        return _parsed(text)

    @property
    def path(self) -> str:
        """The id in the form for agents and patterns, with dots between its segments."""
        return f"{self.namespace}.{self.name}"

    def __str__(self) -> str:
        return f"{self.namespace}:{self.name}"


@lru_cache(maxsize=1 << 14)
def _parsed(text: str) -> ToolId:
    """Parse an id; cached, because lists and decisions need the parts of the same ids repeatedly."""
    separator = ":" if ":" in text else "."
    namespace, has_separator, name = text.partition(separator)
    if not has_separator or not is_id(namespace) or not is_tool_name(name):
        raise BadNameError(
            f"{text!r} is not a tool id",
            hint="write toolset:tool, such as app-builder:write_file",
        )
    return ToolId(namespace, name)


def is_tool_name(text: str) -> bool:
    """Return whether ``text`` is a valid tool name within a namespace, also for MCP hosts."""
    return len(text) <= _MAX_NAME and _TOOL_NAME.fullmatch(text) is not None


def local_names(upstream: Iterable[str]) -> dict[str, str]:
    """Return the local name of each tool of an MCP server, by its upstream name.

    A valid name stays the same.  In other names, each run of invalid characters becomes ``_``, and digits of the
    name's hash are appended, so that the result is unique and does not depend on the server's other tools.
    """
    names = set(upstream)
    local_by_name = {name: name for name in names if is_tool_name(name)}
    taken = set(local_by_name)
    for name in sorted(names - taken):
        whole = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        plain = "_".join(re.findall(r"[A-Za-z0-9_-]+", name))
        # A server may choose names that collide in the first digits.
        for digits in range(_HASH_DIGITS, _MAX_NAME):
            ending = whole[:digits]
            local = f"{plain[: _MAX_NAME - 1 - digits]}-{ending}".lstrip("-")
            if local not in taken:
                break
        local_by_name[name] = local
        taken.add(local)
    return local_by_name


def is_pattern(text: str) -> bool:
    """Return whether ``text`` is a valid pattern of tool paths (see :func:`matches`)."""
    segments = text.split(".")
    words = all(re.fullmatch(r"[A-Za-z0-9_*-]+", segment) for segment in segments)
    stars = all("**" not in segment or segment == "**" for segment in segments)
    return words and stars and len(text) <= 2 * MAX_TOOL_PATH


def matches(pattern: str, path: str) -> bool:
    """Return whether ``pattern`` selects the tool path.

    ``*`` matches any part of one segment, ``**`` any number of segments.  ``*`` alone selects
    everything, as ``**`` does, because no tool path has a single segment.
    The number of steps is at most the length of the pattern times the length of the path.
    """
    begins, ends = _edges(pattern)  # rules out most paths at once
    if not (path.startswith(begins) and path.endswith(ends)):
        return False
    if pattern in EVERYTHING:
        return True
    return matches_segments(pattern.split("."), path.split("."))


def matches_segments(pattern: Sequence[str], segments: Sequence[str]) -> bool:
    """Return whether a pattern selects a path, both split into segments; see :func:`matches`."""
    # reached[i]: the pattern read so far can have consumed the first i segments.
    # Not by backtracking: a pattern of others with many `**` would take exponential time.
    reached = [True] + [False] * len(segments)
    for part in pattern:
        if part == "**":
            first = reached.index(True) if True in reached else len(reached)
            reached = [position >= first for position in range(len(reached))]
            continue
        reached = [False] + [
            here and matches_text(part, segment)
            for here, segment in zip(reached, segments, strict=False)
        ]
    return reached[-1]


def beginning(pattern: str) -> str:
    """Return the prefix of all tool paths that ``pattern`` selects."""
    return _edges(pattern)[0]


@lru_cache(maxsize=4096)
def _edges(pattern: str) -> tuple[str, str]:
    """Return the prefix and the suffix of all paths that the pattern selects."""
    begins, stars, _ = pattern.partition("*")
    ends = pattern.rpartition("*")[2] if stars else pattern
    # ** also matches no segment: garden.** selects garden as well.
    if pattern.startswith("**", len(begins)):
        begins = begins.removesuffix(".")
    if pattern.endswith("**" + ends):
        ends = ends.removeprefix(".")
    return begins, ends


def matches_text(pattern: str, text: str) -> bool:
    """Return whether ``pattern`` matches all of ``text``; ``*`` matches any characters.

    Each piece between stars is searched from the left, after the piece before it.  The time is linear in practice,
    and at most the product of the lengths.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    last = rest.pop()
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    end = len(text) - len(last)
    position = len(first)
    for piece in rest:
        at = text.find(piece, position, end)
        if at < 0:
            return False
        position = at + len(piece)
    return text.endswith(last)
