"""Base classes of errors for users: what is wrong, where, and what to do next.

Subclasses are defined in the modules that raise them, for errors that are raised at several places or handled by
code; other errors only have their own ``code``.  The CLI and the server catch only
:class:`CovaltError`; any other exception is a bug and is reported with its traceback.
"""

from __future__ import annotations

import difflib
import logging
import re
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


NEEDS_APPROVAL = 4
"""Exit code of a command whose call needs approval, so that it did not run."""


@dataclass(frozen=True, order=True, slots=True)
class Problem:
    """A problem at a place in a file.

    ``line`` and ``col`` count from 1, in characters; they are 0 if the problem has no line, for example
    if a file is missing.  ``code`` is stable from the first release; ``covalt_git.problems.codes`` lists
    all codes.  ``item`` is a path within the file, such as ``tools[greet].http``, with which the message
    begins.
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
        """Return the problem as in the API and ``--json``."""
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
    """An error in input, files or other systems, for the user.

    Attributes:
        code: stable name of the kind of error; the API's ``error`` field.
        message: one line, lower case, no full stop.
        hint: what to do next, if possible as a command that can be pasted; one command a line.
        problems: all problems, if the error is about files.
    """

    code = "invalid_request"
    exit_code = 1
    http_status = 400

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        problems: Sequence[Problem] = (),
        code: str | None = None,
        http_status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.problems = tuple(problems)
        self.code = code or self.code
        self.http_status = http_status or self.http_status

    def __str__(self) -> str:
        """Return the message, the hint and the problems, a line each."""
        lines = [self.message]
        if self.hint:  # before the problems, which have hints of their own
            lines.append(hint_text(self.hint))
        lines += map(str, self.problems)
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the error as in the API and ``--json``."""
        return {
            "error": self.code,
            "error_description": self.message,
            "hint": self.hint,
            "problems": [problem.as_json() for problem in self.problems],
        }


class ClientGoneError(ConnectionError):
    """The client of a request has disconnected, or the server stops, so a response cannot be sent."""


class InternalError(CovaltError):
    """A bug in covalt-git, of which a client of the server gets no details."""

    code = "internal_error"
    http_status = 500

    def __init__(self) -> None:
        hint = "the log in the server's terminal has the traceback"
        super().__init__("covalt-git has a bug", hint=hint)


class WrongCallError(CovaltError):
    """A command with invalid arguments."""

    exit_code = 2


class StaleError(CovaltError):
    """A request based on outdated data: its object has changed since; nothing was done."""

    code = "moved"
    http_status = 409


class UnknownNameError(CovaltError):
    """A name that does not exist; the hint suggests the most similar existing name.

    If names are of things that run, ``is_harmless`` decides whether one is suggested, as in :func:`nearest_harmless`.
    """

    http_status = 404

    def __init__(
        self,
        kind: str,
        name: str,
        names: Iterable[str],
        *,
        list_with: str,
        is_harmless: Callable[[str], bool] | None = None,
    ) -> None:
        existing = list(names)
        # Users often leave out the namespace of a tool.
        in_full = (full for full in existing if full.endswith(f":{name}"))
        # A complete name that lacks only its namespace is not misspelt, so its tool is meant.
        nearest = next(in_full, None) or nearest_harmless(name, existing, is_harmless or bool)
        hint = f"did you mean {nearest!r}? " if nearest else ""
        super().__init__(f"no {kind} {name!r}", hint=f"{hint}list them with `{list_with}`")
        self.name = name
        self.code = f"unknown_{kind.replace(' ', '_').replace('-', '_')}"


MOST_LISTED = 40
"""Names that a message lists."""

_MOST_COMPARISONS = 20_000
_COMPARISONS: ContextVar[list[int] | None] = ContextVar("comparisons", default=None)
_BUGS = (AssertionError, AttributeError, LookupError, NameError, NotImplementedError, TypeError)
_MOST_SHOWN = 300
_FIELDS = attrgetter(*(field.name for field in fields(Problem)))


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return each of the problems once, by file and place."""
    # With a key: comparing two dataclasses makes two tuples, a million times for a file with 20,000 problems.
    return tuple(sorted(set(problems), key=_FIELDS))


def hint_text(hint: str) -> str:
    """Return a hint as printed below a message; it may have several lines."""
    return "  hint: " + hint.replace("\n", "\n        ")


def failure_text(error: BaseException) -> str:
    """Return a library's error as one line for users: its message, or else the name of its type as words.

    Errors that mean a bug, such as a failed assertion, are logged with their traceback.
    """
    # Their texts are those of Python, such as a key alone, and mean nothing to a user.
    if isinstance(error, _BUGS):
        logging.getLogger(__name__).error("a bug", exc_info=error)
        return "an unexpected error, whose traceback is in the log"
    first = shorten(str(error).partition("\n")[0], _MOST_SHOWN)
    return first or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first names and the number of the others as text.

    A message for each of many unknown names must not contain each of many known ones.
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


@contextmanager
def few_suggestions() -> Iterator[None]:
    """Limit the comparisons of :func:`nearest_name` within it, which reads files of others; also a decorator.

    Each of many unknown names is compared with each of many known ones, and each comparison takes time.
    """
    token = _COMPARISONS.set([_MOST_COMPARISONS])
    try:
        yield
    finally:
        _COMPARISONS.reset(token)


_NAMESPACE = re.compile(r"[.:/]|__")


def nearest_name(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str | None:
    """Return the known name most similar to ``name``, or None if the similarity of all is below ``cutoff``.

    It is also None if the limit of :func:`few_suggestions` is exhausted.
    """
    left = _COMPARISONS.get()
    if left is not None and left[0] <= 0:
        return None
    names = list(known)
    if not names:  # difflib would analyse the name of each of 20,000 unknown keys
        return None
    if left is not None:
        left[0] -= len(names)
    similar = difflib.get_close_matches(name, names, n=3, cutoff=cutoff)
    return next((near for near in similar if _has_similar_end(name, near, cutoff)), None)


def _has_similar_end(name: str, near: str, cutoff: float) -> bool:
    """Return whether two names are similar after the namespace or folder that they share."""
    end = max((match.end() for match in _NAMESPACE.finditer(name)), default=0)
    dot = name.find(".")
    if dot > 0 and near.startswith(f"{name[:dot]}:"):  # as patterns write a namespace
        return bool(difflib.get_close_matches(name[dot + 1 :], [near[dot + 1 :]], cutoff=cutoff))
    if not end or not near.startswith(name[:end]):
        return True
    return bool(difflib.get_close_matches(name[end:], [near[end:]], cutoff=cutoff))


def nearest_harmless(
    name: str, known: Iterable[str], is_harmless: Callable[[str], bool], *, cutoff: float = 0.5
) -> str | None:
    """Return the nearest of the names of things that run; None if that one may delete or overwrite something.

    A user or an agent runs what is proposed, so something destructive is run by its own name only.
    """
    near = nearest_name(name, known, cutoff=cutoff)
    return near if near is not None and is_harmless(near) else None
