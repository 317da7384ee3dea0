"""Model of the refs of a chat that processes of a project report to each other."""

from pydantic import Field

from covalt_git.models.base import Int, One, StrictModel


class ReportedRefs(StrictModel):
    """The refs that a chat had on the git server, as a node has pushed or read them; ``counter`` is that of the lease.

    It saves a request that reads them, and decides nothing: a push still carries the expected old value of each ref.
    """

    v: One = 1
    counter: Int
    refs: dict[str, str] = Field(default_factory=dict)


UNREAD = ReportedRefs(counter=-1)
"""What a caller passes that is content with the copy of its node, because a worker or a push decides."""
