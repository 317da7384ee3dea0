"""Baselines: problems that are known and accepted for now, so that only new ones are reported.

A problem is known by its code, its file and its message, which names the item; never by its line,
so that editing above it changes nothing.  One that stands twice in a file is counted.
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
    """What a problem is recognised by."""

    path: str
    code: str
    item: str
    message: str


class BrokenBaselineError(CovaltError):
    """A baseline cannot be read: nothing is hidden on a guess."""

    code = "broken_baseline"
    exit_code = 2


class Compared(NamedTuple):
    """What a baseline leaves: new problems, how many it hides, and its entries that nothing needs."""

    new: list[Problem]
    hidden: int
    stale: list[ProblemKey]


def problem_key(problem: Problem) -> ProblemKey:
    """Return what a problem is recognised by, whatever moves."""
    message = _LINE.sub("in line ...", problem.message)
    return ProblemKey(problem.path, problem.code, problem.item, message)


def compare(problems: Iterable[Problem], baseline: Counter[ProblemKey]) -> Compared:
    """Return what is new; the first ones in a file are those that the baseline has."""
    left = Counter(baseline)
    new = []
    hidden = 0
    for problem in problems:
        entry = problem_key(problem)
        if left[entry] > 0:
            left[entry] -= 1
            hidden += 1
        else:
            new.append(problem)
    return Compared(new, hidden, sorted(entry for entry, count in left.items() if count > 0))


def updated(
    problems: Iterable[Problem], baseline: Counter[ProblemKey], looked_at: Callable[[str], bool]
) -> Counter[ProblemKey]:
    """Return the baseline of these problems; entries of files that were not looked at stay."""
    kept = {entry: count for entry, count in baseline.items() if not looked_at(entry.path)}
    return Counter(problem_key(problem) for problem in problems) + Counter(kept)


def read_baseline(file: Path) -> Counter[ProblemKey]:
    """Return the entries of a baseline file, each with how often it may stand.

    Raises:
        BrokenBaselineError: when it cannot be read, or is none.
    """
    hint = f"make it with: covalt-git validate --baseline {file} --write-baseline"
    try:
        with file.open("rb") as stream:
            written = json.loads(stream.read(_MAX_BYTES))
        if written["version"] != 1:
            raise ValueError
        return Counter(dict(_entry(one) for one in written["problems"]))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BrokenBaselineError(f"{str(file)!r} cannot be read: {reason}", hint=hint) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BrokenBaselineError(f"{str(file)!r} is not a baseline", hint=hint) from None


def baseline_text(entries: Counter[ProblemKey]) -> str:
    """Return a baseline as JSON, sorted, one entry a line, so that branches merge."""
    lines = [
        json.dumps(entry._asdict() | {"count": entries[entry]}, ensure_ascii=False)
        for entry in sorted(entries)
    ]
    listed = "".join(f"\n    {line}," for line in lines).removesuffix(",")
    return f'{{\n  "version": 1,\n  "problems": [{listed}\n  ]\n}}\n'


def _entry(written: Any) -> tuple[ProblemKey, int]:
    texts = [written[name] for name in ProblemKey._fields]
    count = written["count"]
    if not all(isinstance(text, str) for text in texts) or type(count) is not int or count < 1:
        raise ValueError
    return ProblemKey(*texts), count
