"""Problems of toolsets that only their comparison shows: namespaces that two of them have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.manifests.override_keys import declared_with_aliases
from covalt_git.names import id_key
from covalt_git.toolsets.project_files import namespace_problems

if TYPE_CHECKING:
    from covalt_git.errors import Problem
    from covalt_git.operations.context import Context
    from covalt_git.toolsets.toolset import Toolset


def problems_across(context: Context) -> dict[str, list[Problem]]:
    """Return the problems that ``validate`` finds between toolsets, by the toolset whose file they are in.

    They name other toolsets, which a role may not see, so only an admin gets them.
    """
    if not context.is_admin:
        return {}
    problems: dict[str, list[Problem]] = {}
    for problem in namespace_problems(context.root, context.toolset_index().namespaces()):
        _, toolset_id, _ = problem.path.split("/", 2)
        problems.setdefault(toolset_id, []).append(problem)
    return problems


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
