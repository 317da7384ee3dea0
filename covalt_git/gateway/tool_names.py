"""What hosts call the tools: paths, or names for those that refuse dots or long ones.

A name is made of the ids alone, so that it is the same at every start.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

from covalt_git.names import BadNameError, ToolId

if TYPE_CHECKING:
    from collections.abc import Collection

Style = Literal["dots", "underscore"]

STYLES: tuple[Style, ...] = ("dots", "underscore")
"""``app-builder.write_file`` and ``app-builder_write_file``."""

MAX_PLAIN = 64
"""How long a name is at most that every host takes: ``[A-Za-z0-9_-]{1,64}``."""

_DIGITS = 12
_DIGESTED = re.compile(rf".*_[0-9a-f]{{{_DIGITS}}}")


def names(
    tool_ids: Collection[str], style: Style, *, taken: Collection[str] = ()
) -> dict[str, str]:
    """Return the tools' ids by the names that hosts call them by, in the order of the ids given.

    No tool gets one of the names that are ``taken``.  ``dots`` are the tools' paths.  ``underscore`` is
    the path without dots; where two are the same, or one is too long, it ends in a digest of its id.
    """
    paths = {tool_id: ToolId.parse(tool_id).path for tool_id in tool_ids}
    if style == "dots":
        return {path: tool_id for tool_id, path in paths.items()}
    wanted = {tool_id: path.replace(".", "_") for tool_id, path in paths.items()}
    counted = Counter(wanted.values())

    def is_own(name: str) -> bool:
        # One that looks as if it had a digest gets one, as it could be that of another tool.
        good = len(name) <= MAX_PLAIN and not _DIGESTED.fullmatch(name)
        return good and counted[name] == 1 and name not in taken

    return {
        name if is_own(name) else _with_digest(name, tool_id): tool_id
        for tool_id, name in wanted.items()
    }


def path_of(name: str) -> str | None:
    """Return the id of the tool that a path names, as ``app-builder.write_file``; None of anything else."""
    try:
        tool_id = ToolId.parse(name)
    except BadNameError:
        return None
    return str(tool_id) if tool_id.path == name else None


def _with_digest(name: str, tool_id: str) -> str:
    digest = hashlib.sha256(tool_id.encode()).hexdigest()[:_DIGITS]
    return f"{name[: MAX_PLAIN - _DIGITS - 1]}_{digest}"
