"""The base of every error shown to a person: what is wrong, where, and what to do next.

Named subclasses live beside the code that raises them.  The CLI and the server catch only
:class:`CovaltError`; anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, order=True, slots=True)
class Problem:
    """One thing wrong in one place of a file a person wrote.

    ``line`` and ``col`` count from 1, in characters; 0 means that the problem has no line, as when
    a file is missing.  ``code`` is stable from the first release; ``covalt_git.problems.codes``
    lists them all.  ``item`` names what is meant within the file, as ``tools[greet].http``; the
    message begins with it.
    """

    path: str
    line: int
    col: int
    code: str
    message: str
    hint: str = ""
    severity: str = "error"
    item: str = ""

    def __str__(self) -> str:
        """Return ``path:line:col: CODE message`` and, on a line of its own, the hint."""
        place = f"{self.path}:{self.line}:{self.col}" if self.line else self.path
        warning = "warning: " if self.severity == "warning" else ""
        hint = f"\n{hint_text(self.hint)}" if self.hint else ""
        return f"{place}: {self.code} {warning}{self.message}{hint}"

    def as_json(self) -> dict[str, Any]:
        """Return the problem as the API and ``--json`` show it."""
        return {
            "path": self.path,
            "line": self.line,
            "col": self.col,
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "hint": self.hint,
        }


class CovaltError(Exception):
    """A problem in input, files or the outside world, told in plain words.

    Attributes:
        code: the stable name of this kind of error, as the API's ``error`` field.
        message: one line, lower case, no full stop.
        hint: what to do next, something that can be typed; several commands are one a line.
        problems: every place that is wrong, when the error is about files.
    """

    code = "invalid_request"
    exit_code = 1
    http_status = 400

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """Return the problems, the message and the hint, a line each."""
        lines = [str(problem) for problem in self.problems]
        lines.append(self.message)
        if self.hint:
            lines.append(hint_text(self.hint))
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the one error shape of the API and of ``--json``."""
        return {
            "error": self.code,
            "error_description": self.message,
            "hint": self.hint,
            "problems": [problem.as_json() for problem in self.problems],
        }


class ClientGoneError(ConnectionError):
    """The client of the server's request went away, or the server ends: an answer reaches no one."""


class WrongCallError(CovaltError):
    """A call that could not be understood."""

    exit_code = 2


class StaleError(CovaltError):
    """What a request is about has changed since the user or client read it; nothing was done."""

    code = "moved"
    http_status = 409


class UnknownNameError(CovaltError):
    """Nothing of that kind has that name; the hint names the nearest that does exist."""

    http_status = 404

    def __init__(self, kind: str, name: str, known: Iterable[str], *, list_with: str) -> None:
        nearest = nearest_name(name, known)
        hint = f"did you mean {nearest!r}? " if nearest else ""
        super().__init__(f"no {kind} {name!r}", hint=f"{hint}list them with `{list_with}`")
        self.code = f"unknown_{kind.replace(' ', '_')}"


def hint_text(hint: str) -> str:
    """Return a hint as it is printed below a message; it may be several commands, one a line."""
    return "  hint: " + hint.replace("\n", "\n        ")


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like ``name``, or None where none is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return found[0] if found else None
