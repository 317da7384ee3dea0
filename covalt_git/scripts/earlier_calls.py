"""Earlier calls of a script, compared with the call that waits: what a reviewer allows for the next ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.json_values.difference import same
from covalt_git.json_values.storable import storable

if TYPE_CHECKING:
    from covalt_git.models.calls import Approval
    from covalt_git.scripts.stored_script import StoredScript


class EarlierCalls(NamedTuple):
    """The earlier calls of one tool in a script: their number, and whether each argument had the same value in all."""

    calls: int
    is_same: dict[str, bool]


def earlier_calls(stored: StoredScript, approval: Approval) -> EarlierCalls:
    """Compare the arguments of a call that waits with those of all earlier calls of its tool in the script.

    The arguments are those of the call that waits, then those that only earlier calls had, which differ.
    """
    # A call without an id was refused before it was made, and does not count.
    earlier = [
        call.args
        for call in stored.calls.values()
        if call.tool_id == approval.tool_id and call.call_id is not None
    ]
    # As stored: an integer beyond 2^53 is a text there.
    waiting = storable(approval.args).value
    names = dict.fromkeys([*waiting, *(name for args in earlier for name in args)])
    # Not ==, for which True equals 1 in Python.
    return EarlierCalls(
        len(earlier),
        {
            name: name in waiting
            and all(name in args and same(args[name], waiting[name]) for args in earlier)
            for name in names
        },
    )
