"""Problems of toolsets that only their comparison shows: namespaces that two of them have, and locks of none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.errors import Problem, UnknownNameError, listed
from covalt_git.manifests.override_keys import declared_with_aliases
from covalt_git.names import id_key
from covalt_git.operations.registry import Result
from covalt_git.sources.left_over import accepted_names
from covalt_git.toolsets.project_files import left_over_locks, namespace_conflicts

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


def namespace_claims(context: Context, toolset_id: str) -> tuple[NamespaceClaim, ...]:
    """Return the namespaces of a toolset that other toolsets declare too; as :func:`problems_across` for an admin only."""
    return tuple(
        NamespaceClaim(
            namespace=conflict.namespace,
            toolset_id=_toolset_of(conflict),
            problem=conflict.problem,
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
    return namespace_conflicts(context.root, context.toolset_index().namespaces())


def _toolset_of(conflict: NamespaceConflict) -> str:
    return conflict.problem.path.split("/", 2)[1]


def namespace_owners(context: Context, toolset: Toolset) -> list[str]:
    """Return which namespaces of a toolset another one has already, one line each."""
    owners = {
        id_key(named): other
        for other, names in context.toolset_index().namespaces()
        if other != toolset.id
        for named in (other, *(name for _, _, name in names))
    }
    return [
        f"the toolset {owners[id_key(named)]!r} already has the namespace {named!r}:"
        f" its tools are listed only after you rename one of them"
        for _, _, named in declared_with_aliases(toolset.manifest, toolset.state)
        if id_key(named) in owners
    ]
