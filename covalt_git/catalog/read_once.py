"""Toolsets that were read in this process, for as long as no file of them changes.

A call looks for its tool more than once, and a server makes thousands of calls: reading a toolset of
hundreds of tools takes longer than most calls.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from covalt_git.files.toolsets import LOCK_FOLDER, STATE_FOLDER, read_toolset
from covalt_git.index.signatures import signature

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.files.toolsets import Toolset

_MOST = 32
"""How many toolsets are kept; the one that was longest not asked for goes."""

_lock = threading.Lock()
_read: OrderedDict[tuple[Path, str], tuple[str, Toolset]] = OrderedDict()


def toolset(root: Path, toolset_id: str) -> Toolset:
    """Return a toolset as its files say now; see :func:`covalt_git.files.toolsets.read_toolset`."""
    toolsets = root / "toolsets"
    files = (
        toolsets / toolset_id,
        toolsets / STATE_FOLDER / f"{toolset_id}.yaml",
        toolsets / LOCK_FOLDER,
    )
    # Before it is read: what changes meanwhile makes the signature an old one.
    seen = signature(*files)
    key = (root, toolset_id)
    with _lock:
        kept = _read.get(key)
        if kept is not None and kept[0] == seen:
            _read.move_to_end(key)
            return kept[1]
    found = read_toolset(root, toolset_id)
    if seen is not None:
        with _lock:
            _read[key] = (seen, found)
            _read.move_to_end(key)
            if len(_read) > _MOST:
                _read.popitem(last=False)
    return found
