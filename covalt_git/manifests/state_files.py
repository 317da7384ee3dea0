"""The files that the machine keeps beside the hand-written ones: ``toolsets/state`` and ``locks``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from covalt_git import yaml_text
from covalt_git.manifests.reading import Reading, check, read_yaml
from covalt_git.models.tool_lock import ToolLock
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.system import atomic_write

if TYPE_CHECKING:
    from pathlib import Path

HEADER = (
    "Written by covalt-git: what this project decided about the toolset. Check it in.\n"
    "Change it with covalt-git toolset, tool and grant rather than by hand."
)

LOCK_HEADER = (
    "Written by covalt-git: the tools that a server gave when it was asked last. Check it in.\n"
    "Ask again with covalt-git source refresh; what changed is off until you accept it."
)

_MAX_LOCK_BYTES = 64 << 20
_MAX_LOCK_NODES = 5_000_000


LOCK_FOLDER = "locks"


def lock_file(root: Path, namespace: str) -> Path:
    """Return the file of what a server or source of that namespace gave."""
    return root / "toolsets" / LOCK_FOLDER / f"{namespace}.yaml"


def read_state(file: Path, shown: str) -> Reading[ToolsetState]:
    """Read a toolset's state; a file that is not there is the state of a toolset of our own."""
    if not file.exists():
        return Reading(shown, ToolsetState(), None)
    return read_yaml(file, shown, ToolsetState)


def read_lock(file: Path, shown: str) -> Reading[ToolLock]:
    """Read the tools that a server or a source gave; there may be thousands of them.

    What was read once is not parsed again: each call of a tool reads its toolset anew.
    """
    try:
        return parsed_lock(yaml_text.read_file(file, shown, max_bytes=_MAX_LOCK_BYTES), shown)
    except yaml_text.YamlProblems as error:
        return Reading(shown, None, None, error.problems)


@lru_cache(maxsize=32)
def parsed_lock(content: bytes, shown: str) -> Reading[ToolLock]:
    """Return what the content of a lock file says."""
    try:
        document = yaml_text.load(
            content, shown, max_bytes=_MAX_LOCK_BYTES, max_nodes=_MAX_LOCK_NODES
        )
    except yaml_text.YamlProblems as error:
        return Reading(shown, None, None, error.problems)
    return check(document, ToolLock)


def write_lock(file: Path, lock: ToolLock) -> None:
    """Write what a server or a source gave, sorted; the same answer makes the same file."""
    facts = lock.model_dump(mode="json", exclude_defaults=True) | {"version": 1}
    atomic_write.replace(file, yaml_text.dump(facts, LOCK_HEADER))


def write_state(file: Path, state: ToolsetState) -> None:
    """Write a toolset's state, sorted, one fact a line; an empty state is no file.

    Git takes changes of lines that touch for a conflict, so that empty lines keep what is decided of
    one thing apart from what is decided of another.
    """
    facts = state.model_dump(mode="json", exclude_defaults=True)
    if not facts:
        file.unlink(missing_ok=True)
        return
    parts = [yaml_text.dump({name: facts[name]}) for name in sorted(facts)]
    atomic_write.replace(file, "\n".join([yaml_text.comment(HEADER), *parts]))
