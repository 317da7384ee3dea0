"""The lock files of a toolset's MCP servers: which one is whose, and what must hold of it.

What a server says is nobody's mistake here: it can make a warning, but no error, and takes nothing
from the toolset's own tools.  Errors are of what only a hand can have written.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.checks.hidden_characters import hidden_characters
from covalt_git.checks.text_files import check_text, without
from covalt_git.json_values import json_schema
from covalt_git.manifests.override_keys import namespace_of
from covalt_git.manifests.reading import shown_path
from covalt_git.manifests.state_files import LOCK_FOLDER, lock_file, parsed_lock, read_lock
from covalt_git.names import RESERVED_TOOLSET_IDS
from covalt_git.problems import codes
from covalt_git.templating.references import texts
from covalt_git.toolsets.effective_tools import ServerLock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.errors import Problem
    from covalt_git.manifests.model_errors import Loc
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.tool_lock import LockedTool, ToolLock
    from covalt_git.models.toolset_manifest import ToolsetManifest
    from covalt_git.models.toolset_state import ToolsetState

_MAX_TOLD = 20
"""How many hidden characters are told of one tool."""


def lock_namespaces(
    root: Path, toolset_id: str, manifest: ToolsetManifest, state: ToolsetState
) -> dict[str, str]:
    """Return the namespaces that a toolset's MCP servers may have here, by the servers' ids.

    One that is another toolset's, or the built-in tools', gives nothing.
    """
    found: dict[str, str] = {}
    for server in manifest.mcp_servers:
        namespace = namespace_of(server.id, state)
        if namespace not in found.values() and not _is_of_another(root, toolset_id, namespace):
            found[server.id] = namespace
    return found


def _is_of_another(root: Path, toolset_id: str, namespace: str) -> bool:
    if namespace == toolset_id:
        return False
    if namespace in RESERVED_TOOLSET_IDS:  # two of which are folders, and no toolsets
        return namespace not in {"state", LOCK_FOLDER}
    return (root / "toolsets" / namespace).is_dir()


def read_server_locks(
    root: Path, toolset_id: str, manifest: ToolsetManifest, state: ToolsetState
) -> dict[str, Reading[ToolLock]]:
    """Return the locks that a toolset's MCP servers have, by the servers' ids."""
    found = {}
    for server, namespace in lock_namespaces(root, toolset_id, manifest, state).items():
        file = lock_file(root, namespace)
        if not file.exists():
            continue
        lock = read_lock(file, shown_path(file, root))
        if lock.value is None or lock.value.toolset_id == toolset_id:
            found[server] = lock
    return found


def locks_of_toolset(root: Path, toolset_id: str) -> list[Reading[ToolLock]]:
    """Return the locks that name a toolset, or are named like it, whether it declares their servers or not."""
    files = sorted((root / "toolsets" / LOCK_FOLDER).glob("*.yaml"))
    locks = [read_lock(file, shown_path(file, root)) for file in files]
    return [
        lock
        for file, lock in zip(files, locks, strict=True)
        if file.stem == toolset_id
        or (lock.value is not None and lock.value.toolset_id == toolset_id)
    ]


def usable_locks(locks: dict[str, Reading[ToolLock]]) -> dict[str, ServerLock]:
    """Return those locks that can be read, and are of the namespace that their file is named after."""
    found = {}
    for server, lock in locks.items():
        if lock.value is None or lock.value.kind != "mcp" or not _is_named_so(lock):
            continue
        faults = _faults_of(lock)
        found[server] = ServerLock(lock.value, faults.untrue, faults.unusable)
    return found


def _is_named_so(lock: Reading[ToolLock]) -> bool:
    return lock.value is not None and lock.path.endswith(f"/{lock.value.namespace}.yaml")


def check_lock(lock: Reading[ToolLock], manifest: ToolsetManifest | None) -> list[Problem]:
    """Return what is wrong with a lock, which a toolset with that manifest has."""
    problems = [*_faults_of(lock).problems]
    if lock.value is not None:
        for name in lock.value.tools:
            problems += _twice(lock, lock.value, name, manifest)
    return problems


class _Faults(NamedTuple):
    """What is wrong with a lock, whoever has it; the tools' names as of :class:`ServerLock`."""

    problems: tuple[Problem, ...]
    untrue: frozenset[str] = frozenset()
    unusable: frozenset[str] = frozenset()


def _faults_of(lock: Reading[ToolLock]) -> _Faults:
    if lock.document is None:
        return _Faults(lock.problems)
    return _faults(lock.document.text, lock.path)


@lru_cache(maxsize=32)
def _faults(text: str, path: str) -> _Faults:
    """Look at each tool of a lock once, and not again for each call of one."""
    lock = parsed_lock(text.encode(), path)
    found, secret = check_text(text, path)
    problems = [*lock.problems]
    problems += [one for one in found if one.code != codes.HIDDEN_CHARACTER]
    if lock.value is None:
        return _Faults(tuple(without(secret, problems)))
    problems += _name_problems(lock, lock.value)
    tools = lock.value.tools
    for name, tool in tools.items():
        problems += _tool_problems(lock, ("tools", name), tool)
    unusable = {
        name for name, one in tools.items() if json_schema.schema_problems(one.input_schema)
    }
    untrue = {name for name, one in tools.items() if not one.is_true}
    return _Faults(tuple(without(secret, problems)), frozenset(untrue), frozenset(unusable))


def _name_problems(lock: Reading[ToolLock], value: ToolLock) -> Iterator[Problem]:
    if not _is_named_so(lock):
        name = lock.path.rpartition("/")[2].removesuffix(".yaml")
        message = f"{value.namespace!r} is not the name of the file"
        hint = f"write namespace: {name}, or rename the file"
        yield lock.problem(codes.BAD_ID, ("namespace",), message, hint=hint)


def _tool_problems(lock: Reading[ToolLock], loc: Loc, tool: LockedTool) -> Iterator[Problem]:
    refresh = "covalt-git source refresh"
    if not tool.is_true:
        message = "the digest is not that of the definition that stands here"
        yield lock.problem(codes.FALSE_DIGEST, (*loc, "digest"), message, hint=refresh)
    for place, message in islice(json_schema.schema_problems(tool.input_schema), 1):
        yield lock.problem(
            codes.BAD_SCHEMA,
            (*loc, "input_schema", *place),
            f"{message}, so that the tool stays off",
            hint="tell whoever writes the server",
            severity="warning",
        )
    told = 0
    for place, text in texts(tool.definition):
        for one in islice(hidden_characters(text), 1):
            told += 1
            if told <= _MAX_TOLD:
                yield lock.problem(
                    codes.HIDDEN_CHARACTER,
                    loc,
                    f"in its {'.'.join(map(str, place))} {one.message}",
                    hint="read it with `covalt-git source diff` before you accept it",
                    key=True,
                    severity="warning",
                )


def _twice(
    lock: Reading[ToolLock], value: ToolLock, name: str, manifest: ToolsetManifest | None
) -> Iterator[Problem]:
    """Find a tool of a server that shares its toolset's name, and is called like one of its tools."""
    if manifest is None or value.namespace != manifest.id:
        return
    if name in {tool.id for tool in manifest.tools}:
        alias = f"aliases: {{{value.namespace}: {manifest.id}-server}}"
        yield lock.problem(
            codes.DUPLICATE_ID,
            ("tools", name),
            f"the toolset {manifest.id!r} has a tool {name!r} of its own, which is the one in force",
            hint=f"write in toolsets/state/{manifest.id}.yaml: {alias}",
            key=True,
        )
