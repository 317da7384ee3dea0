"""Signatures of toolsets, to detect changed files without reading them.

A signature is a digest of the mode, size, times and inode of every path of a toolset.  The paths are stored with
it, so a check takes one ``lstat`` for each path and no listing: a new or deleted file changes the time of its
folder.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.manifests.toolset_files import STATE_FOLDER, toolset_folder
from covalt_git.system.file_cache import CHANGED, TICK_NS, Facts, digest, facts_of, lstat, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from covalt_git.toolsets.toolset import Toolset

# A toolset into which a program writes all the time must not make each command wait for ever.
_MOST_SCANS = 6
# Bytecode that the author's tests write is no change: it is in no digest either (manifests/toolset_files.py).
_IGNORED = frozenset({b"__pycache__"})


class ToolsetSignature(NamedTuple):
    """Signature of a toolset, and the paths that it covers.

    ``paths`` are relative to ``toolsets/`` and separated by NUL, because names may not be valid text.
    """

    paths: bytes
    signature: str


def signature_of(toolsets: Path, toolset_id: str, related: Iterable[str] = ()) -> ToolsetSignature:
    """Return the current signature of a toolset and of the ``related`` paths outside its folder.

    File systems record times in ticks of a few milliseconds.  A second change in the same tick would not be
    detected, so this waits until the newest change is older than a tick.
    """
    scans = 0
    while True:
        started = time.time_ns()
        facts_by_path = _scan(toolsets, toolset_id, related)
        newest = max((facts[CHANGED] for facts in facts_by_path.values() if facts), default=0)
        ended = time.time_ns()
        scans += 1
        # A time in the future is from another clock, so waiting does not help.
        if scans == _MOST_SCANS or newest <= started - TICK_NS or newest > ended:
            paths = sorted(facts_by_path)
            return ToolsetSignature(
                b"\0".join(paths), digest([facts_by_path[path] for path in paths])
            )
        time.sleep(max(0, newest + TICK_NS - ended) / 1e9)


def read_with_signature(root: Path, toolset_id: str) -> tuple[ToolsetSignature, Toolset]:
    """Read a toolset after computing its signature, so that a change during the read is detected later."""
    signature = signature_of(root / "toolsets", toolset_id)
    from covalt_git.toolsets.toolset import read_toolset  # noqa: PLC0415 - often no toolset changed

    toolset = read_toolset(root, toolset_id)
    if toolset.related_files:  # known only from its manifest
        signature = signature_of(root / "toolsets", toolset_id, toolset.related_files)
        toolset = read_toolset(root, toolset_id)
    return signature, toolset


def changed_toolsets(
    toolsets: Path, ids: Iterable[str], signatures: Mapping[str, ToolsetSignature]
) -> list[str]:
    """Return those of ``ids`` without a signature, or with files that differ from it."""
    if not toolsets.is_dir():
        return []
    folder = os.open(toolsets, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return [
            name
            for name in ids
            if name not in signatures or not _is_unchanged(folder, signatures[name])
        ]
    finally:
        os.close(folder)


def _is_unchanged(toolsets: int, old: ToolsetSignature) -> bool:
    """Return whether a toolset is unchanged; ``toolsets`` is a descriptor of the folder."""
    facts: list[Facts | None] = []
    for path in old.paths.split(b"\0"):
        try:
            facts.append(facts_of(os.stat(path, dir_fd=toolsets, follow_symlinks=False)))
        except OSError:
            facts.append(None)
    return digest(facts) == old.signature


def _scan(toolsets: Path, toolset_id: str, related: Iterable[str]) -> dict[bytes, Facts | None]:
    """Return the mode, size, times and inode of every path; a file that is added meanwhile makes them outdated."""
    top = os.fsencode(toolsets) + b"/"
    single_files = map(os.fsencode, (f"{STATE_FOLDER}/{toolset_id}.yaml", *related))
    single = {path: lstat(top + path) for path in single_files}
    below = walk(top + os.fsencode(toolset_folder(toolset_id)), _IGNORED)
    return single | {path.removeprefix(top): facts for path, facts in below}
