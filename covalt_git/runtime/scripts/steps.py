"""Values that pass between a script and its caller: the source, its limits, calls, replies and the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

ScriptLanguage = Literal["python", "javascript"]
LANGUAGES: Final[tuple[ScriptLanguage, ...]] = get_args(ScriptLanguage)

LogLevel = Literal["debug", "info", "warn", "error"]


class ScriptSource(NamedTuple):
    """A script, and all that decides what it does besides the replies to its calls."""

    text: str
    language: ScriptLanguage
    args: JsonObject
    """The variable ``args`` of the script."""
    started_ms: int
    """The time that its clock shows, in milliseconds since 1970; it does not move."""
    seed: int
    """The seed of its random numbers."""


class ScriptLimits(NamedTuple):
    """The most that one script may take."""

    time_s: float = 30
    """Time in which the script itself runs, without the time in which it waits for replies."""
    memory_mb: int = 64
    """Memory of the script's values, in MiB."""
    calls: int = 200
    output_kb: int = 100
    """Size of its logs and of its value together, in KiB."""


# Not a tuple, whose method `index` the field would hide.
@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A call that the script has issued; ``tools.a.b.c(...)`` has the path ``a.b.c``."""

    index: int
    """The number of the call in the whole script, from 0."""
    path: str
    arguments: JsonObject
    line: int | None
    """The line that the call is in; None where the interpreter does not report it."""


class ScriptFault(NamedTuple):
    """Error of a call, which is raised in the script and can be caught there."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class CallReply:
    """Answer to a call: a JSON value, or an error."""

    index: int
    value: Any = None
    error: ScriptFault | None = None


class ScriptLog(NamedTuple):
    """A line that the script printed."""

    level: LogLevel
    message: str


class ScriptError(NamedTuple):
    """Why a script failed; ``code`` is one of :data:`CODES`, or that of a call's error that it did not catch."""

    code: str
    message: str
    line: int | None = None
    col: int | None = None
    """The column, from 1, of an error that no code had run before."""


class ScriptEnd(NamedTuple):
    """End of a script: its value, or its error."""

    value: Any = None
    error: ScriptError | None = None


class Step(NamedTuple):
    """What a script did until it needed a reply: the calls that it issued, in order, or its end.

    A step can have neither: if the script waits for other replies, or for those of calls before them.  ``answered`` are
    calls to which the process had replies of an earlier run; whether they are the same calls is the caller's to check.
    """

    calls: tuple[ScriptCall, ...] = ()
    logs: tuple[ScriptLog, ...] = ()
    end: ScriptEnd | None = None
    answered: tuple[ScriptCall, ...] = ()


CODES: Final = (
    "script_syntax",
    "script_unsupported",
    "script_raised",
    "script_value",
    "script_stuck",
    "script_time",
    "script_memory",
    "script_calls",
    "script_output",
    "script_died",
)
"""The codes of a script's own errors.

``script_syntax``: the source is not of its language.  ``script_unsupported``: the interpreter lacks what it uses.
``script_raised``: an exception that it did not catch.  ``script_value``: its value is not JSON data.  ``script_stuck``:
it waits for something that is no call.  ``script_died``: its process ended, or wrote what no script writes.  The others
are limits.
"""
