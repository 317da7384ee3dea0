"""Lock files of a toolset's MCP servers: which server has which lock, and the checks of a lock.

The author of a toolset cannot fix the definitions of a server.  So problems in them are warnings and
do not affect the toolset's own tools.  Only problems that a manual edit must have caused are errors.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from covalt_git.checks.hidden_characters import hidden_characters
from covalt_git.checks.text_files import check_text, without
from covalt_git.errors import Problem
from covalt_git.json_values import json_schema
from covalt_git.manifests.override_keys import namespace_of
from covalt_git.manifests.reading import shown_path
from covalt_git.manifests.state_files import LOCK_FOLDER, lock_file, parsed_lock, read_lock
from covalt_git.models.tool_lock import LockedTool
from covalt_git.names import RESERVED_TOOLSET_IDS
from covalt_git.problems import codes
from covalt_git.templating.references import texts
from covalt_git.toolsets.effective_tools import ServerLock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.manifests.reading import Reading
    from covalt_git.models.tool_lock import Locked, ToolLock
    from covalt_git.models.toolset_manifest import ToolsetManifest
    from covalt_git.models.toolset_state import ToolsetState

_MAX_REPORTED = 20
"""The most hidden characters that are reported for one tool."""


def lock_namespaces(
    root: Path, toolset_id: str, manifest: ToolsetManifest, state: ToolsetState
) -> dict[str, str]:
    """Return the namespaces of a toolset's MCP servers in this project, by server id.

    Servers with the namespace of another toolset or of the built-in tools are left out.
    """
    namespaces: dict[str, str] = {}
    for server in manifest.mcp_servers:
        namespace = namespace_of(server.id, state)
        # The first server keeps the namespace: two servers with one namespace would share a lock, and an accepted
        # tool could be sent to the other server.
        if namespace not in namespaces.values() and not _is_of_another(root, toolset_id, namespace):
            namespaces[server.id] = namespace
    return namespaces


def _is_of_another(root: Path, toolset_id: str, namespace: str) -> bool:
    if namespace == toolset_id:
        return False
    if namespace in RESERVED_TOOLSET_IDS:  # two of these are folders of covalt-git, not toolsets
        return namespace not in {"state", LOCK_FOLDER}
    return (root / "toolsets" / namespace).is_dir()


def read_server_locks(
    root: Path, toolset_id: str, manifest: ToolsetManifest, state: ToolsetState
) -> dict[str, Reading[ToolLock]]:
    """Return the locks of a toolset's MCP servers, by server id."""
    locks = {}
    for server, namespace in lock_namespaces(root, toolset_id, manifest, state).items():
        file = lock_file(root, namespace)
        if not file.exists():
            continue
        lock = read_lock(file, shown_path(file, root))
        # A lock names its toolset, so that a new toolset with an old server's namespace does not get that server's
        # tools.
        if lock.value is None or lock.value.toolset_id == toolset_id:
            locks[server] = lock
    return locks


def locks_of_toolset(root: Path, toolset_id: str) -> list[Reading[ToolLock]]:
    """Return the locks with a toolset's id in the file or as the file name, also of removed servers."""
    files = sorted((root / "toolsets" / LOCK_FOLDER).glob("*.yaml"))
    locks = [read_lock(file, shown_path(file, root)) for file in files]
    return [
        lock
        for file, lock in zip(files, locks, strict=True)
        if file.stem == toolset_id
        or (lock.value is not None and lock.value.toolset_id == toolset_id)
    ]


def usable_locks(locks: dict[str, Reading[ToolLock]]) -> dict[str, ServerLock]:
    """Return the locks that are valid and contain the namespace of their file name."""
    checked = ((server, _checked(lock)[1]) for server, lock in locks.items())
    return {server: usable for server, usable in checked if usable is not None}


def _has_its_namespace(lock: Reading[ToolLock]) -> bool:
    return lock.value is not None and lock.path.endswith(f"/{lock.value.namespace}.yaml")


def check_lock(lock: Reading[ToolLock], manifest: ToolsetManifest | None) -> list[Problem]:
    """Return the problems of a lock of a toolset with that manifest."""
    problems = [*_checked(lock)[0]]
    if manifest is not None and lock.value is not None and lock.value.namespace == manifest.id:
        problems += _twice(lock, manifest)
    return problems


_Checked = tuple[tuple[Problem, ...], ServerLock | None]
"""The problems inside a lock file, and the lock if it is usable."""


def _checked(lock: Reading[ToolLock]) -> _Checked:
    return (lock.problems, None) if lock.document is None else _check(lock.document.text, lock.path)


@lru_cache(maxsize=32)
def _check(text: str, path: str) -> _Checked:
    """Check the tools of a lock; cached, so that a call does not check them again."""
    lock = parsed_lock(text.encode(), path)
    of_text, secret = check_text(text, path)
    problems = [*lock.problems]
    problems += [problem for problem in of_text if problem.code != codes.HIDDEN_CHARACTER]
    if lock.value is None:
        return tuple(without(secret, problems)), None
    problems += _name_problems(lock)
    tools = lock.value.tools
    for name, tool in tools.items():
        problems += _tool_problems(lock.below("tools", name), tool)
    for name, offer in lock.value.offers.items():
        problems += _definition_problems(lock.below("offers", name), offer)
    unusable = {
        name for name, tool in tools.items() if json_schema.schema_problems(tool.input_schema)
    }
    untrue = {name for name, tool in tools.items() if not tool.digest_matches}
    usable = lock.value.kind == "mcp" and _has_its_namespace(lock)
    of_server = ServerLock(lock.value, frozenset(untrue), frozenset(unusable)) if usable else None
    return tuple(without(secret, problems)), of_server


def _name_problems(lock: Reading[ToolLock]) -> Iterator[Problem]:
    if not _has_its_namespace(lock):
        name = lock.path.rpartition("/")[2].removesuffix(".yaml")
        message = f"the namespace {lock.valid.namespace!r} must equal the file name"
        hint = f"write namespace: {name}, or rename the file"
        yield lock.problem(codes.BAD_ID, ("namespace",), message, hint=hint)


def _tool_problems(lock: Reading[ToolLock], tool: LockedTool) -> Iterator[Problem]:
    """Find problems of a tool, which is at the place of ``lock``."""
    for place, reason in islice(json_schema.schema_problems(tool.input_schema), 1):
        at, message = ("input_schema", *place), f"{reason}; the tool stays disabled"
        hint = "report it to the author of the server"
        yield lock.warning(codes.BAD_SCHEMA, at, message, hint=hint)
    yield from _definition_problems(lock, tool)


def _definition_problems(lock: Reading[ToolLock], entry: Locked) -> Iterator[Problem]:
    """Find problems of a definition, which is at the place of ``lock``."""
    what = "tool" if isinstance(entry, LockedTool) else entry.kind
    if not entry.digest_matches:
        message = f"the digest does not match the definition of the {what}"
        hint = "covalt-git source refresh"
        yield lock.problem(codes.FALSE_DIGEST, ("digest",), message, hint=hint)
    hint = "read the definition with `covalt-git source diff` before you accept it"
    hidden = (
        f"the {what}'s {'.'.join(map(str, place))}: {character.message}"
        for place, text in texts(entry.definition)
        for character in islice(hidden_characters(text), 1)
    )
    for message in islice(hidden, _MAX_REPORTED):
        yield lock.warning(codes.HIDDEN_CHARACTER, (), message, hint=hint, key=True)


def _twice(lock: Reading[ToolLock], manifest: ToolsetManifest) -> Iterator[Problem]:
    """Find tools of a server with the id of a tool that the toolset itself declares."""
    hint = f"write in toolsets/state/{manifest.id}.yaml: aliases: {{{manifest.id}: {manifest.id}-server}}"
    for name in lock.valid.tools.keys() & {tool.id for tool in manifest.tools}:
        message = (
            f"the toolset {manifest.id!r} declares a tool {name!r} itself, which is used instead"
        )
        yield lock.problem(codes.DUPLICATE_ID, ("tools", name), message, hint=hint, key=True)
