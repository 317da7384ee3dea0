"""Asking MCP servers for their tools again, and accepting what they gave.

The answer goes into the lock; what is accepted, into the toolset's state.  Only what was shown is
accepted: whoever accepts names the digests that they looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.errors import CovaltError, StaleError, UnknownNameError
from covalt_git.manifests.reading import shown_path
from covalt_git.manifests.state_files import lock_file, read_lock, write_lock
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.server_definition import command_line
from covalt_git.models.tool_lock import ToolLock
from covalt_git.names import local_names
from covalt_git.toolsets.state_store import changeable, find_toolset, update_state
from covalt_git.toolsets.tool_locks import lock_namespaces
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.toolsets.update_lock import locks_toolsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from covalt_git.models.tool_lock import LockedTool
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import ToolsetState
    from covalt_git.toolsets.toolset import Toolset

    Listed = Callable[[Toolset, McpServer], Sequence[LockedTool]]
    """Asks a server which tools it has now."""

Kind = Literal["new", "changed", "gone"]


class NoLockError(CovaltError):
    """A server was not asked for its tools yet, or what it gave cannot be read."""

    code = "no_lock"
    http_status = 409


class ToolDifference(NamedTuple):
    """What differs of a tool between what was accepted, or stood in the lock, and what its server gives.

    Attributes:
        name: what it is called within its namespace.
        kind: whether it is new, changed or gone.
        before: the definition that there was; None of a new one, and where nobody kept it.
        after: the definition that there is; None of one that is gone.
    """

    name: str
    kind: Kind
    before: LockedTool | None
    after: LockedTool | None

    @property
    def digest(self) -> str | None:
        """The digest of what would be accepted; None for a tool that is gone."""
        return self.after.computed_digest if self.after else None

    @property
    def fields(self) -> dict[str, tuple[object, object]]:
        """What each part of the definition was and is, of the parts that differ."""
        old = self.before.definition if self.before else {}
        new = self.after.definition if self.after else {}
        names = dict.fromkeys((*old, *new))
        return {
            name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)
        }


class ToolSource(NamedTuple):
    """An MCP server of a toolset, and what of its tools is in force."""

    toolset: Toolset
    server: McpServer
    namespace: str
    lock: ToolLock | None

    @property
    def shown_id(self) -> str:
        """What commands call it: ``gear/disk``."""
        return f"{self.toolset.id}/{self.namespace}"

    @property
    def to_accept(self) -> tuple[ToolDifference, ...]:
        """How what its server gave last differs from what was accepted."""
        return _to_accept(self.lock, self.toolset.state) if self.lock else ()

    @property
    def accepted(self) -> int:
        """How many of its tools are as they were accepted."""
        every = self.lock.tools if self.lock else {}
        return len(every) - sum(one.after is not None for one in self.to_accept)

    @property
    def is_on(self) -> bool:
        """Whether it and its toolset are enabled."""
        return self.toolset.enabled and self.server.enabled


class Refreshed(NamedTuple):
    """What a server gave now, and how that differs from what it gave before."""

    source: ToolSource
    drift: tuple[ToolDifference, ...]


def sources(root: Path, toolset_id: str | None = None) -> list[ToolSource]:
    """Return the MCP servers of one toolset, or of all, that have a namespace of their own.

    They are in the order of the manifests.

    Raises:
        UnknownNameError: naming the nearest toolset.
    """
    if toolset_id is None:
        toolsets = [read_toolset(root, one) for one in toolset_ids(root / "toolsets")]
    else:
        toolsets = [find_toolset(root, toolset_id)]
    found = []
    for toolset in toolsets:
        if toolset.manifest is None:
            continue
        spaces = lock_namespaces(root, toolset.id, toolset.manifest, toolset.state)
        for server in toolset.manifest.mcp_servers:
            if server.id in spaces:
                lock = toolset.locks.get(server.id)
                given = lock.value if lock else None
                found.append(ToolSource(toolset, server, spaces[server.id], given))
    return found


def named_sources(root: Path, name: str) -> list[ToolSource]:
    """Return the MCP servers that ``TOOLSET``, ``TOOLSET/NAMESPACE`` or ``NAMESPACE`` names.

    Raises:
        UnknownNameError: naming the nearest toolset, or namespace.
    """
    toolset_id, slash, namespace = name.partition("/")
    if slash:
        return [find_source(root, toolset_id, namespace)]
    known = toolset_id in toolset_ids(root / "toolsets")
    of_namespace = [] if known else [one for one in sources(root) if one.namespace == name]
    return of_namespace or sources(root, toolset_id)


def find_source(root: Path, toolset_id: str, namespace: str) -> ToolSource:
    """Return an MCP server of a toolset by the namespace of its tools.

    Raises:
        UnknownNameError: naming the nearest toolset, or namespace.
    """
    every = {one.namespace: one for one in sources(root, toolset_id)}
    if namespace not in every:
        raise UnknownNameError(
            "source", namespace, every, list_with=f"covalt-git source list {toolset_id}"
        )
    return every[namespace]


def reference_of(server: McpServer) -> str:
    """Return what is asked for a server's tools: its command on one line, or its address."""
    if server.command is None:
        return server.url or ""
    return command_line((server.command, *server.args))


def refresh(root: Path, source: ToolSource, listed: Listed, *, write: bool = True) -> Refreshed:
    """Ask a server for its tools, and write what it gave into its lock; nothing is accepted by that.

    Without ``write`` nothing is written.  The toolsets are not held while the server is asked, which may
    take minutes the first time.

    Raises:
        CovaltError: when the server is off, cannot be asked, or lists one name twice; and what ``listed``
            raises.
        StaleError: when the toolset declares another server by now.
    """
    if not source.server.enabled:
        raise CovaltError(
            f"the MCP server {source.server.id!r} is off",
            hint=f"write enabled: true of it under mcp_servers in toolsets/{source.toolset.id}/toolset.yaml",
        )
    given = _named(source.server, listed(source.toolset, source.server))
    return _write_lock(root, source, given) if write else _compared(source, given)


@locks_toolsets
def _write_lock(root: Path, source: ToolSource, given: dict[str, LockedTool]) -> Refreshed:
    changeable(root, source.toolset.id)
    file = lock_file(root, source.namespace)
    there = read_lock(file, shown_path(file, root)).value if file.exists() else None
    if there is not None and there.toolset_id != source.toolset.id:
        raise CovaltError(
            f"the namespace {source.namespace!r} has a lock of the toolset {there.toolset_id!r}",
            hint=f"write in toolsets/state/{source.toolset.id}.yaml: "
            f"aliases: {{{source.server.id}: {source.toolset.id}-{source.server.id}}}",
        )
    now = find_source(root, source.toolset.id, source.namespace)
    if now.server != source.server:
        raise StaleError(f"the MCP server {source.server.id!r} is declared otherwise by now")
    found = _compared(now, given)
    assert found.source.lock is not None
    if found.source.lock != now.lock:
        write_lock(lock_file(root, now.namespace), found.source.lock)
    return found


def _compared(source: ToolSource, given: dict[str, LockedTool]) -> Refreshed:
    before, state = source.lock, source.toolset.state
    old = before.tools if before else {}
    kept = [*before.replaced.items(), *old.items()] if before else []
    lock = ToolLock(
        namespace=source.namespace,
        toolset_id=source.toolset.id,
        kind="mcp",
        reference=reference_of(source.server),
        tools=given,
        replaced={
            name: tool
            for name, tool in kept
            if _is_accepted(state, source.namespace, name, tool)
            and not (name in given and _is_accepted(state, source.namespace, name, given[name]))
        },
    )
    drift = _differences(old, given)
    return Refreshed(ToolSource(source.toolset, source.server, source.namespace, lock), drift)


@locks_toolsets
def accept(
    root: Path, toolset_id: str, namespace: str, shown: Mapping[str, str | None]
) -> ToolSource:
    """Accept definitions of a lock: of each tool the digest that was shown, or None for one that is gone.

    Raises:
        UnknownNameError: when there is no such toolset, namespace or tool.
        NoLockError: when its tools were never asked for, or the lock cannot be read.
        StaleError: when one of them is another by now; nothing is accepted.
    """
    toolset = changeable(root, toolset_id)
    source = find_source(root, toolset_id, namespace)
    lock = _lock_of(source)
    accepted = dict(toolset.state.accepted)
    for name, digest in shown.items():
        tool, tool_id = lock.tools.get(name), f"{namespace}:{name}"
        if tool is None and tool_id not in accepted:
            raise UnknownNameError(
                "tool", name, lock.tools, list_with=f"covalt-git source diff {source.shown_id}"
            )
        if (tool.computed_digest if tool else None) != digest:
            raise StaleError(
                f"{tool_id} is not what was shown any more; nothing is accepted",
                hint=f"covalt-git source diff {source.shown_id}",
            )
        if digest is None:
            del accepted[tool_id]
        else:
            accepted[tool_id] = digest
    update_state(root, toolset, {"accepted": accepted})
    left = {name: tool for name, tool in lock.replaced.items() if name not in shown}
    if left != lock.replaced:
        write_lock(lock_file(root, namespace), lock.model_copy(update={"replaced": left}))
    return find_source(root, toolset_id, namespace)


def _lock_of(source: ToolSource) -> ToolLock:
    if source.lock is not None:
        return source.lock
    reading = source.toolset.locks.get(source.server.id)
    if reading is None:
        raise NoLockError(
            f"the tools of the MCP server {source.server.id!r} have not been listed yet",
            hint=f"covalt-git source refresh {source.shown_id}",
        )
    raise NoLockError(
        f"{reading.path} has errors",
        hint=f"covalt-git source refresh {source.shown_id}",
        problems=reading.problems,
    )


def _named(server: McpServer, tools: Iterable[LockedTool]) -> dict[str, LockedTool]:
    """Return tools by what they are called here."""
    given: dict[str, LockedTool] = {}
    for tool in tools:
        if given.setdefault(tool.upstream, tool) != tool:
            raise CovaltError(
                f"the MCP server {server.id!r} lists the tool {tool.upstream!r} twice"
            )
    names = local_names(given)
    return {names[upstream]: tool for upstream, tool in given.items()}


def _differences(
    old: Mapping[str, LockedTool], new: Mapping[str, LockedTool]
) -> tuple[ToolDifference, ...]:
    found = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before != after:
            kind: Kind = "new" if before is None else "gone" if after is None else "changed"
            found.append(ToolDifference(name, kind, before, after))
    return tuple(found)


def _to_accept(lock: ToolLock, state: ToolsetState) -> tuple[ToolDifference, ...]:
    begins = f"{lock.namespace}:"
    ids = [one for one in state.accepted if one.startswith(begins)]
    known = {one.removeprefix(begins): state.accepted[one] for one in ids}
    found = []
    for name in sorted({*lock.tools, *known}):
        after, digest = lock.tools.get(name), known.get(name)
        if after is not None and after.computed_digest == digest:
            continue
        before = lock.replaced.get(name)
        if before is not None and before.computed_digest != digest:
            before = None
        kind: Kind = "gone" if after is None else "new" if digest is None else "changed"
        found.append(ToolDifference(name, kind, before, after))
    return tuple(found)


def _is_accepted(state: ToolsetState, namespace: str, name: str, tool: LockedTool) -> bool:
    return state.accepted.get(f"{namespace}:{name}") == tool.computed_digest
