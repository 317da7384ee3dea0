"""Noticing that files changed from what the file system says of them, without reading any.

A toolset's signature is a digest of the mode, size, times and inode of every path it is read from.
The paths are remembered with it: whether nothing changed takes one ``lstat`` a path and no listing,
because a file that comes or goes changes the time of the folder it is in.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.manifests.toolset_files import STATE_FOLDER
from covalt_git.system.file_cache import CHANGED, MODE, TICK_NS, Facts, digest, facts_of, lstat

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from covalt_git.toolsets.toolset import Toolset

_MOST_LOOKS = 6


class ToolsetSignature(NamedTuple):
    """A toolset as the file system tells of it.

    ``paths`` are those it is read from, relative to ``toolsets/`` and with a NUL between them: names
    need not be text.
    """

    paths: bytes
    signature: str


def signature_of(toolsets: Path, toolset_id: str, beside: Iterable[str] = ()) -> ToolsetSignature:
    """Return what the file system says of a toolset now, and of the paths ``beside`` it.

    File systems keep time in ticks of some milliseconds: of what changed in this very tick, nothing
    would tell the next change.  So it waits until the newest change is older than that.
    """
    looks = 0
    while True:
        started = time.time_ns()
        found = _scan(toolsets, toolset_id, beside)
        newest = max((facts[CHANGED] for facts in found.values() if facts), default=0)
        now = time.time_ns()
        looks += 1
        # What changed in the future did so by another clock than ours, and no waiting helps.
        if looks == _MOST_LOOKS or newest <= started - TICK_NS or newest > now:
            paths = sorted(found)
            return ToolsetSignature(b"\0".join(paths), digest([found[path] for path in paths]))
        time.sleep(max(0, newest + TICK_NS - now) / 1e9)


def read_with_signature(root: Path, toolset_id: str) -> tuple[ToolsetSignature, Toolset]:
    """Read a toolset of a project, after a look at all that it is read from.

    So what changes while it is read changes its signature too.
    """
    seen = signature_of(root / "toolsets", toolset_id)
    from covalt_git.toolsets.toolset import read_toolset  # noqa: PLC0415 - mostly nothing changed

    toolset = read_toolset(root, toolset_id)
    if toolset.related_files:  # which only its manifest could tell
        seen = signature_of(root / "toolsets", toolset_id, toolset.related_files)
        toolset = read_toolset(root, toolset_id)
    return seen, toolset


def is_unchanged(toolsets: int, before: ToolsetSignature) -> bool:
    """Tell whether nothing of a toolset changed; ``toolsets`` is the folder, open."""
    facts: list[Facts | None] = []
    for path in before.paths.split(b"\0"):
        try:
            facts.append(facts_of(os.stat(path, dir_fd=toolsets, follow_symlinks=False)))
        except OSError:
            facts.append(None)
    return digest(facts) == before.signature


def _scan(toolsets: Path, toolset_id: str, beside: Iterable[str]) -> dict[bytes, Facts | None]:
    """Return the facts of every path, those of a folder from before it was listed.

    So whatever comes into a folder while this looks makes the facts old.
    """
    top = os.fsencode(toolsets) + b"/"
    alone = map(os.fsencode, (f"{STATE_FOLDER}/{toolset_id}.yaml", *beside))
    found = {path: lstat(top + path) for path in alone}
    waiting = [os.fsencode(toolset_id)]
    while waiting:
        path = waiting.pop()
        found[path] = facts = lstat(top + path)
        if facts and stat.S_ISDIR(facts[MODE]):
            with contextlib.suppress(OSError), os.scandir(top + path) as entries:
                names = [entry.name for entry in entries if entry.name != b"__pycache__"]
                waiting += [path + b"/" + name for name in names]
    return found
