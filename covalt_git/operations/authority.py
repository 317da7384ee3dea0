"""Operations on authority: what toolsets can do, and what a change newly permits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.authority import Change, compare, state_at, state_here
from covalt_git.authority.overview import ToolsetOverview, overview
from covalt_git.errors import Problem
from covalt_git.git_store.outer_repository import merge_base
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, operation

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.authority import State


class GetAuthority(Request):
    """Which toolset's; all of them without one."""

    toolset_id: str | None = Field(None, max_length=200)


class CompareAuthority(Request):
    """Which states of the project to compare."""

    revisions: str = Field(
        description="BASE..HEAD; BASE...HEAD, from the commit that both come from; or BASE, with the"
        " files as they are."
    )


class Authority(Result):
    """What each toolset can do today, as far as the role sees its tools."""

    toolsets: tuple[ToolsetOverview, ...]


class UnreadState(Result):
    """An error in one of the two states, so that not all of it could be read."""

    state: Literal["BASE", "HEAD"] = Field(serialization_alias="in")
    path: str
    line: int
    col: int
    code: str
    severity: str
    message: str
    hint: str

    def __str__(self) -> str:
        """Return its place and its message, on one line."""
        about = self.model_dump(exclude={"state"})
        return f"{self.state}: {Problem(**about)}".partition("\n")[0]


class AuthorityCompared(Result):
    """What HEAD permits that BASE does not, and the other way round; widenings come first."""

    base: str | None = Field(description="The commit of BASE; null for the files as they are.")
    head: str | None
    grown: bool = Field(description="Whether anything newly is permitted, or might be.")
    changes: tuple[Change, ...]
    problems: tuple[UnreadState, ...]


@operation(errors=(404,))
def get_authority(context: Context, request: GetAuthority) -> Authority:
    """Return what each toolset can do: its tools, approvals, hosts, secrets and roles."""
    catalog, toolset_id = context.catalog, request.toolset_id
    if toolset_id is not None:
        toolset_id = catalog.find_toolset(toolset_id).id
    state = state_here(context.root)
    tools = catalog.visible(state.tools().values())
    # A hidden tool does not exist for the role, nor do the hosts that it may reach.
    everything = len(tools) == len(state.tools())
    visible = None if everything else {tool.tool_id for tool in tools}
    found = overview(state, visible)
    return Authority(toolsets=tuple(one for one in found if toolset_id in (None, one.toolset_id)))


@operation(local=True)
def compare_authority(context: Context, request: CompareAuthority) -> AuthorityCompared:
    """Compare what two states of the project permit; nothing is checked out, run or written.

    A change that cannot be decided counts as a widening.
    """
    base, head = _states(context.root, request.revisions)
    found = compare(base, head)
    return AuthorityCompared(
        base=base.commit,
        head=head.commit,
        grown=found.grown,
        changes=found.changes,
        problems=tuple(
            UnreadState.model_validate({"state": name} | problem.as_json())
            for name, problem in found.problems
        ),
    )


def _states(root: Path, revisions: str) -> tuple[State, State]:
    """Read the two states that ``BASE..HEAD``, ``BASE...HEAD`` or ``BASE`` names."""
    if "..." in revisions:
        base, _, head = revisions.partition("...")
        base = merge_base(root, base or "HEAD", head or "HEAD")
        return state_at(root, base), state_at(root, head or "HEAD")
    base, dots, head = revisions.partition("..")
    if not dots:
        return state_at(root, revisions), state_here(root)
    return state_at(root, base or "HEAD"), state_at(root, head or "HEAD")
