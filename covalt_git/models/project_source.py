"""Model of ``project`` in the ``covalt.yaml`` of a node: the git repository that has the project."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from covalt_git.models.base import Int, One, StrictModel, Time, refusal
from covalt_git.models.git_url import GitAccess, check_git_url

_REF = re.compile(r"(?![-/.])[A-Za-z0-9._/+@-]+(?<![/.])")
_FORBIDDEN = ("..", "//", "@{", "/.", ".lock")
_EXAMPLE = "write https://git.example.com/team/project.git"


def _check_ref(ref: str) -> str:
    # A ref that begins with `-` would be an option of git.
    if not _REF.fullmatch(ref) or any(part in ref for part in _FORBIDDEN):
        raise refusal(
            f"{ref!r} is not the name of a branch, a tag or a commit", "write main, or v1.2.0"
        )
    return ref


class ProjectSource(GitAccess):
    """The git repository that has the files of the project."""

    url: Annotated[str, AfterValidator(lambda url: check_git_url(url, _EXAMPLE))] = Field(
        description="URL of the repository, whose top folder has the covalt.yaml of the project."
    )
    ref: Annotated[str, AfterValidator(_check_ref)] = Field(
        "main", description="Branch or tag that the node follows, or the full id of a commit."
    )
    every_s: Annotated[Int, Field(ge=1, le=86_400)] = Field(
        30, description="Time between two checks of the ref, in seconds."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        self.check_credentials(self.url)
        return self


class WaitingCommit(StrictModel):
    """A commit that a node does not run yet, and why."""

    commit: str
    kind: Literal["invalid", "not_trusted"]
    why: str


class ProjectState(StrictModel):
    """What a node has of its project: a file in ``data/project``.

    Attributes:
        url: the repository, and ``ref``, that the commits are from.
        current: the commit that new calls run; None before the first one.
        moved_at: when the node moved to it.
        waiting: the commit of the ref, if the node cannot move to it.
    """

    v: One = 1
    url: str
    ref: str
    current: str | None = None
    moved_at: Time | None = None
    waiting: WaitingCommit | None = None

    def is_of(self, source: ProjectSource) -> bool:
        """Return whether the commits are those of a source."""
        return (self.url, self.ref) == (source.url, source.ref)
