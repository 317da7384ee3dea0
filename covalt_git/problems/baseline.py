"""Baselines: lists of accepted problems, so that ``validate`` reports new ones only.

A problem is identified by path, code, item and message, not by its line, which changes with edits above
it.  Equal problems in a file are counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from covalt_git.errors import Problem

_LINE = re.compile(r"\bin line \d+")
_MAX_BYTES = 64 << 20


class ProblemKey(NamedTuple):
    """The identity of a problem in baselines."""

    path: str
    code: str
    item: str
    message: str


class BrokenBaselineError(CovaltError):
    """A baseline file cannot be read."""

    code = "broken_baseline"
    exit_code = 2


class BaselineComparison(NamedTuple):
    """The new problems, the number of hidden ones, and the entries of fixed problems."""

    new: list[Problem]
    hidden: int
    stale: list[ProblemKey]


def problem_key(problem: Problem) -> ProblemKey:
    """Return the identity of a problem, without line numbers."""
    # A message such as "also in line 3" changes with edits above that line.
    message = _LINE.sub("in line ...", problem.message)
    return ProblemKey(problem.path, problem.code, problem.item, message)


def compare(problems: Iterable[Problem], baseline: Counter[ProblemKey]) -> BaselineComparison:
    """Compare problems with a baseline; of equal problems, the first ones are hidden."""
    unused = Counter(baseline)
    new = []
    hidden = 0
    for problem in problems:
        entry = problem_key(problem)
        if unused[entry] > 0:
            unused[entry] -= 1
            hidden += 1
        else:
            new.append(problem)
    return BaselineComparison(
        new, hidden, sorted(entry for entry, count in unused.items() if count > 0)
    )


def update(
    problems: Iterable[Problem], baseline: Counter[ProblemKey], was_checked: Callable[[str], bool]
) -> Counter[ProblemKey]:
    """Return the baseline of these problems, with the old entries of files that were not checked."""
    old = {entry: count for entry, count in baseline.items() if not was_checked(entry.path)}
    return Counter(problem_key(problem) for problem in problems) + Counter(old)


def read_baseline(file: Path) -> Counter[ProblemKey]:
    """Return the entries of a baseline file with their counts.

    Raises:
        BrokenBaselineError: when it cannot be read, or is not a baseline.
    """
    hint = f"create it with: covalt-git validate --baseline {file} --write-baseline"
    try:
        with file.open("rb") as stream:
            data = json.loads(stream.read(_MAX_BYTES))
        if data["version"] != 1:
            raise ValueError
        return Counter(dict(_entry(item) for item in data["problems"]))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BrokenBaselineError(f"{str(file)!r} cannot be read: {reason}", hint=hint) from None
    except (ValueError, KeyError, TypeError, RecursionError):  # the last one: deeply nested JSON
        raise BrokenBaselineError(f"{str(file)!r} is not a baseline", hint=hint) from None


def baseline_text(entries: Counter[ProblemKey]) -> str:
    """Return a baseline as JSON with one sorted entry a line, so that git can merge branches."""
    lines = [
        json.dumps(entry._asdict() | {"count": entries[entry]}, ensure_ascii=False)
        for entry in sorted(entries)
    ]
    listed = "".join(f"\n    {line}," for line in lines).removesuffix(",")
    return f'{{\n  "version": 1,\n  "problems": [{listed}\n  ]\n}}\n'


def _entry(item: Any) -> tuple[ProblemKey, int]:
    texts = [item[name] for name in ProblemKey._fields]
    count = item["count"]
    # By type(), because true is an int in Python.
    if not all(isinstance(text, str) for text in texts) or type(count) is not int or count < 1:
        raise ValueError
    return ProblemKey(*texts), count
