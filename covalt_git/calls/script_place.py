"""Place in a script that makes a call: what the engine needs of it while the chat is locked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.workspaces import script_claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.catalog.catalog import Found
    from covalt_git.models.calls import PendingCall
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer


class OtherBranchError(CovaltError):
    """Another branch than the call's is active."""

    code = "other_branch"
    http_status = 409

    def __init__(self, chat_id: str, branch: str) -> None:
        super().__init__(
            f"the call belongs to the branch {branch!r}, and another one is active",
            hint=f"covalt-git chat checkout {chat_id} {branch}",
        )


class ScriptPlace(NamedTuple):
    """The script that makes a call, its branch, and the line of the call.

    ``allow`` returns the call with the approval that allowed it in advance, and counts it durably; None if there is no
    such approval.
    """

    script_id: str
    branch: str
    line: int | None
    allow: Callable[[Writer, PendingCall, Found], PendingCall | None]

    def check_branch(self, chat: ChatStore) -> None:
        """Check that the script's branch is the active one, whose files its calls read and write, and that it runs here.

        Raises:
            OtherBranchError: if it is not.
            ScriptBusyError: if another node may have taken over the script.
        """
        script_claim.check(chat, self.script_id)
        if chat.active_branch() != self.branch:
            raise OtherBranchError(chat.id, self.branch)
