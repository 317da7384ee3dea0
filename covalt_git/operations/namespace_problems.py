"""Problems of toolsets that only their comparison shows: namespaces that two of them have, and locks of none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git import timestamps
from covalt_git.catalog import toolset_cache
from covalt_git.errors import Problem, UnknownNameError, listed
from covalt_git.manifests.override_keys import Claimant, declared_with_aliases
from covalt_git.names import id_key
from covalt_git.operations.registry import Result
from covalt_git.sources.left_over import accepted_names
from covalt_git.toolsets.project_files import (
    contested_claims,
    left_over_locks,
    listed_owner,
    namespace_conflicts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.operations.context import Context
    from covalt_git.toolsets.project_files import NamespaceConflict
    from covalt_git.toolsets.toolset import Toolset


class NamespaceClashError(UnknownNameError):
    """A tool of a namespace that several toolsets declare, so that its tools are not listed."""

    def __init__(self, tool_id: str, toolset_ids: Sequence[str]) -> None:
        super().__init__("tool", tool_id, (), list_with="covalt-git tool list")
        self.toolset_ids = tuple(toolset_ids)
        namespace = tool_id.partition(":")[0]
        self.message += (
            f": the toolsets {listed(toolset_ids)} declare the namespace {namespace!r}, so its tools"
            " are not listed"
        )
        self.hint = f"rename it in one of them: covalt-git validate toolsets/{toolset_ids[-1]}"


class NamespaceClaim(Result):
    """A namespace of a toolset that another toolset declares too; none of the tools there is listed meanwhile."""

    namespace: str
    toolset_id: str
    problem: Problem
    is_listed: bool = Field(
        description="Whether the tools that are listed under the namespace are those of ``toolset_id``."
    )


class LeftOverLockRow(Result):
    """A lock that names a toolset, of a namespace that no toolset declares; ``remove_left_over_lock`` removes it."""

    namespace: str
    path: str
    listed: int = Field(description="Number of the definitions in it.")
    accepted: tuple[str, ...] = Field(
        description="The accepted definitions, whose acceptance ends with the lock."
    )


def problems_across(context: Context) -> dict[str, list[Problem]]:
    """Return the problems that ``validate`` finds between toolsets, by the toolset whose file they are in, or which it names.

    They name other toolsets, which a role may not see, so only an admin gets them.
    """
    problems: dict[str, list[Problem]] = {}
    for conflict in _conflicts(context):
        problems.setdefault(_toolset_of(conflict), []).append(conflict.problem)
    if context.is_admin:
        namespaces = context.toolset_index().namespaces()
        for left_over in left_over_locks(context.root, namespaces):
            problems.setdefault(left_over.lock.toolset_id, []).append(left_over.problem)
    return problems


def locks_left_over(context: Context, toolset: Toolset) -> tuple[LeftOverLockRow, ...]:
    """Return the locks that name a toolset and that no toolset declares; as :func:`problems_across` for an admin only."""
    if not context.is_admin:
        return ()
    namespaces = context.toolset_index().namespaces()
    return tuple(
        LeftOverLockRow(
            namespace=lock.namespace,
            path=problem.path,
            listed=len(lock.entries),
            accepted=accepted_names(toolset.state, lock.namespace),
        )
        for lock, problem in left_over_locks(context.root, namespaces)
        if lock.toolset_id == toolset.id
    )


def add_counts(row: JsonObject, across: Iterable[Problem]) -> None:
    """Add the numbers of errors and warnings between toolsets to the row of a toolset."""
    for problem in across:
        name = "errors" if problem.severity == "error" else "warnings"
        row[name] = row.get(name, 0) + 1


def taken_from(context: Context, toolset_id: str) -> dict[str, NamespaceConflict]:
    """Return the conflicts about namespaces that a toolset declares and another one has; as :func:`problems_across`."""
    return {
        conflict.namespace: conflict
        for conflict in _conflicts(context)
        if _toolset_of(conflict) == toolset_id and conflict.owner != toolset_id
    }


def namespace_claims(context: Context, toolset_id: str) -> tuple[NamespaceClaim, ...]:
    """Return the namespaces of a toolset that other toolsets declare too; as :func:`problems_across` for an admin only."""
    return tuple(
        NamespaceClaim(
            namespace=conflict.namespace,
            toolset_id=_toolset_of(conflict),
            problem=conflict.problem,
            is_listed=listed_owner(context.root, conflict.namespace) == _toolset_of(conflict),
        )
        for conflict in _conflicts(context)
        if conflict.owner == toolset_id and _toolset_of(conflict) != toolset_id
    )


def claimants(context: Context, namespace: str) -> tuple[str, ...]:
    """Return the toolsets that declare a namespace, if several do; as :func:`problems_across` for an admin only."""
    both = (
        (conflict.owner, _toolset_of(conflict))
        for conflict in _conflicts(context)
        if id_key(conflict.namespace) == id_key(namespace)
    )
    return tuple(dict.fromkeys(toolset_id for pair in both for toolset_id in pair))


def _conflicts(context: Context) -> list[NamespaceConflict]:
    if not context.is_admin:
        return []
    return namespace_conflicts(context.root, context.toolset_index().claimants())


def _toolset_of(conflict: NamespaceConflict) -> str:
    return conflict.problem.path.split("/", 2)[1]


def taken_namespaces(context: Context, toolset: Toolset) -> list[str]:
    """Return what happens to each namespace of an imported toolset that another toolset declares too, one line for each toolset.

    The decision is that of ``validate``, for the toolset as it is after the import, and for the case that it is enabled.
    """
    everyone = {claimant.id: claimant for claimant in context.toolset_index().claimants()}
    # A dry run of a first import has no state file yet.  One of an update has the aliases of this project.
    existing = everyone.pop(toolset.id, None)
    state = toolset.state
    if existing is not None:
        state = toolset_cache.toolset(context.root, toolset.id).state
    namespaces = declared_with_aliases(toolset.manifest, state)
    imported = Claimant(toolset.id, enabled=False, installed_at=timestamps.now(), namespaces=())
    imported = (existing or imported)._replace(namespaces=namespaces)

    def conflicts(claimant: Claimant) -> dict[str, tuple[str, str]]:
        """Return the toolset that has the error, and the owner, of each namespace that concerns the imported one."""
        contested = contested_claims(context.root, [*everyone.values(), claimant])
        return {
            id_key(claim.namespace): (claim.toolset_id, owner)
            for claim, owner in contested
            if owner != claim.toolset_id and toolset.id in {owner, claim.toolset_id}
        }

    after, if_enabled = conflicts(imported), conflicts(imported._replace(enabled=True))
    declared = [(toolset.id, toolset.id), *((name, named) for _, name, named in namespaces)]
    groups: dict[tuple[str, str, str], dict[str, str]] = {}
    for name, named in declared:
        key = id_key(named)
        if key in after:
            groups.setdefault((*after[key], if_enabled[key][0]), {})[name] = named
    return [_taken(toolset.id, *group, names) for group, names in groups.items()]


def _taken(
    toolset_id: str, faulty: str, owner: str, faulty_if_enabled: str, names: dict[str, str]
) -> str:
    """Return what happens to namespaces, which are by their names in the manifest of the imported toolset."""
    is_one = len(names) == 1
    spaces = f"the {'namespace' if is_one else 'namespaces'} {listed([repr(named) for named in names.values()])}"
    each = "an error" if is_one else "an error for each"
    these = "this namespace" if is_one else "these namespaces"
    others = "it has another name there" if is_one else "they have other names there"
    if faulty != toolset_id:
        return (
            f"the imported toolset has {spaces}, which the toolset {faulty!r} declares too: {faulty!r} gets {each},"
            f" and its tools of {these} cannot be called until {others}"
        )
    aliases = ", ".join(f"{name}: {toolset_id}-{name}" for name in names)
    line = (
        f"the toolset {owner!r} keeps {spaces}: the imported toolset gets {each}, and lists no tools"
        f" of {these} until {others}. After the import, write other names in"
        f" toolset.yaml, or write in toolsets/state/{toolset_id}.yaml: aliases: {{{aliases}}}"
    )
    if faulty_if_enabled == owner:
        line += f". If you enable it, {owner!r} gets {each} instead, because it is disabled"
    return line
