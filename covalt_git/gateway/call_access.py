"""Access of an open call: whether its principal may still call the tool.

It is decided before each message of a call and once a second, so it has to be cheap.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from mcp_types import INTERNAL_ERROR

from covalt_git.access.grants import GrantNeededError
from covalt_git.access.security import TokenRefusedError
from covalt_git.access.visibility import HiddenTargetError
from covalt_git.calls import tool_grants
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.gateway.agent_hints import error_facts
from covalt_git.gateway.protocol import DENIED, NO_TOKEN
from covalt_git.manifests.toolset_files import STATE_FOLDER
from covalt_git.system.file_cache import PacedSignatures, shallow_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import mcp_types as types

    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject
    from covalt_git.project import Project

_UNAVAILABLE = 503
_CODES = {401: NO_TOKEN, 403: DENIED}
_PACED = PacedSignatures()

_TOOLSETS = "toolsets"
_GONE = ("the tool of this call may not be called any more", "denied", 403)


class OpenCall(NamedTuple):
    """A call of a request; ``check`` raises an error if its principal may not make it any more."""

    request_id: types.RequestId | None
    check: Callable[[], None]

    def error_event(self, error: CovaltError) -> bytes:
        """Return the event of a stream with an error as the response."""
        facts: JsonObject = {
            "code": _CODES.get(error.http_status, INTERNAL_ERROR),
            "message": error.message,
            "data": error_facts(error),
        }
        response = {"jsonrpc": "2.0", "id": self.request_id, "error": facts}
        return f"event: message\r\ndata: {json.dumps(response)}\r\n\r\n".encode()


class _Refusal(NamedTuple):
    """The facts of an error, which is raised anew each time, as each raise adds to its traceback."""

    message: str
    code: str
    status: int
    problems: tuple[Problem, ...] = ()


def check(
    open_project: Callable[[], Project],
    tool_id: str,
    files: Sequence[Path],
    cached: Callable[[str | None, Callable[[], _Refusal | None]], _Refusal | None],
) -> None:
    """Check that the principal of a project may still call a tool.

    A toolset that has errors, because its author is editing it, ends no call.

    Args:
        open_project: returns the project.
        tool_id: the tool.
        files: the files that determine the tools: ``covalt.yaml``, ``toolsets/`` and others.
        cached: returns the earlier decision if the signature of the files is unchanged, else makes it.

    Raises:
        CovaltError: if it may not; with the status 503 while the project cannot be opened, so that this is unknown,
            such as with errors in ``covalt.yaml``.
    """
    # A change of covalt.yaml, of a state file or of a consent counts at once.  The files of all toolsets are too many to
    # be compared each time.
    states = [file / STATE_FOLDER for file in files if file.name == _TOOLSETS]
    signature = shallow_signature(*files, *states)
    if signature is not None:
        signature += _PACED.get(*files)
    refusal = cached(signature, lambda: _decide(open_project, tool_id))
    if refusal is not None:
        raise CovaltError(
            refusal.message,
            code=refusal.code,
            http_status=refusal.status,
            problems=refusal.problems,
        )


def _decide(open_project: Callable[[], Project], tool_id: str) -> _Refusal | None:
    try:
        catalog = open_project().catalog
    except CovaltError as error:
        return _Refusal(error.message, error.code, _UNAVAILABLE, error.problems)
    try:
        if not catalog.sees(tool_id):
            return _Refusal(*_GONE)
        target = catalog.find_callable(tool_id)
        tool_grants.check_runnable(target.tool, target.toolset.state)
    except (
        *(DisabledToolError, HiddenTargetError, TokenRefusedError),
        *(UnknownNameError, GrantNeededError),
    ):
        return _Refusal(*_GONE)
    except CovaltError:  # such as an error in its toolset
        return None
    is_direct = all("direct" in tool.callers for tool in target.tools)
    return None if is_direct else _Refusal(*_GONE)
