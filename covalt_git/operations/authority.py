"""Operations on permissions of toolsets: the current ones, and the changes between two commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.authority import FactChange, compare, read_commit, read_files
from covalt_git.authority.overview import ToolsetOverview, overview
from covalt_git.errors import Problem
from covalt_git.git_store.outer_repository import merge_base
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, operation
from covalt_git.toolsets.permissions import untrusted_words
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.authority import ProjectSnapshot


class GetAuthority(Request):
    """Request: a toolset; without one, all toolsets."""

    toolset_id: str | None = Field(None, max_length=200)


class CompareAuthority(Request):
    """Request: the commits to compare."""

    revisions: str = Field(
        description="BASE..HEAD; BASE...HEAD, which starts at their merge base; or BASE, which is compared"
        " with the current files."
    )


class Authority(Result):
    """Permissions of each toolset, limited to the tools that the role sees."""

    toolsets: tuple[ToolsetOverview, ...]
    not_trusted: tuple[str, ...] = Field(
        description="Permissions that do not act on this machine, because its user has not trusted them."
    )


class UnreadState(Result):
    """An error in one of the two commits, which therefore could not be read completely."""

    state: Literal["BASE", "HEAD"] = Field(serialization_alias="in")
    path: str
    line: int
    col: int
    code: str
    severity: str
    message: str
    hint: str

    def __str__(self) -> str:
        """Return the place and the message of the error, on one line."""
        about = self.model_dump(exclude={"state"})
        return f"{self.state}: {Problem(**about)}".partition("\n")[0]


class AuthorityCompared(Result):
    """Changes of permissions between BASE and HEAD; widenings come first."""

    base: str | None = Field(description="The commit of BASE; null for the current files.")
    head: str | None
    grown: bool = Field(
        description="Whether HEAD permits, or may permit, something that BASE does not."
    )
    changes: tuple[FactChange, ...]
    problems: tuple[UnreadState, ...]


@operation(errors=(404,))
def get_authority(context: Context, request: GetAuthority) -> Authority:
    """Return the permissions of each toolset: its tools, approvals, hosts, secrets and roles."""
    catalog, toolset_id = context.catalog, request.toolset_id
    if toolset_id is not None:
        toolset_id = catalog.find_toolset(toolset_id).id
    snapshot = read_files(context.root)
    tools = catalog.visible(snapshot.tools().values())
    # A hidden tool does not exist for the role, nor do the hosts that it may reach.
    everything = len(tools) == len(snapshot.tools())
    visible = None if everything else {tool.tool_id for tool in tools}
    overviews = overview(snapshot, visible)
    toolsets = tuple(toolset for toolset in overviews if toolset_id in (None, toolset.toolset_id))
    return Authority(
        toolsets=toolsets,
        not_trusted=tuple(
            words
            for toolset in toolsets
            for words in untrusted_words(
                read_toolset(context.root, toolset.toolset_id), context.project.config
            )
            # The permissions of a toolset name its hidden tools and their hosts too.
            if everything
        ),
    )


@operation(local=True)
def compare_authority(context: Context, request: CompareAuthority) -> AuthorityCompared:
    """Compare the permissions of two commits of the project, without checking out, running or writing files.

    A change that cannot be decided counts as a widening.
    """
    base, head = _snapshots(context.root, request.revisions)
    comparison = compare(base, head)
    return AuthorityCompared(
        base=base.commit,
        head=head.commit,
        grown=comparison.grown,
        changes=comparison.changes,
        problems=tuple(
            UnreadState.model_validate({"state": name} | problem.as_json())
            for name, problem in comparison.problems
        ),
    )


def _snapshots(root: Path, revisions: str) -> tuple[ProjectSnapshot, ProjectSnapshot]:
    """Return the two snapshots that ``BASE..HEAD``, ``BASE...HEAD`` or ``BASE`` names."""
    # Before `..`, which `...` contains. As in a pull request, what BASE got since the merge base is not a change by
    # HEAD (test_three_dots_compare_with_the_merge_base).
    if "..." in revisions:
        base, _, head = revisions.partition("...")
        base = merge_base(root, base or "HEAD", head or "HEAD")
        return read_commit(root, base), read_commit(root, head or "HEAD")
    base, dots, head = revisions.partition("..")
    if not dots:
        return read_commit(root, revisions), read_files(root)
    return read_commit(root, base or "HEAD"), read_commit(root, head or "HEAD")
