"""A comparison in the words of people and of programs: lines, Markdown and SARIF."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from covalt_git.authority.kinds import KINDS
from covalt_git.problems.sarif import fingerprint, log_of_run, physical_location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from covalt_git.authority.facts import Change, Place
    from covalt_git.json_values import JsonObject

_UNREADABLE = "unreadable"
_RULES = [*KINDS, _UNREADABLE]
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#|!~@&$])")
_TITLES = {"widening": "Wider", "narrowing": "Narrower"}
_MOST_IN_MARKDOWN = 400
"""Changes that a summary lists: GitHub shows a mebibyte of it."""


def place_text(change: Change) -> str:
    """Return where a change stands: in HEAD, or in BASE where it is gone."""
    if change.at is not None:
        return str(change.at)
    return f"{change.was} in BASE" if change.was is not None else ""


def summary(changes: Sequence[Change]) -> str:
    """Return in one line whether authority grew."""
    verdicts = [change.verdict for change in changes]
    wider, narrower = verdicts.count("widening"), verdicts.count("narrowing")
    if not wider and not narrower:
        return "authority is the same"
    counts = ", ".join(
        f"{count} {word}" for count, word in ((wider, "wider"), (narrower, "narrower")) if count
    )
    return f"authority {'grew' if wider else 'shrank'}: {counts}"


def text_lines(changes: Iterable[Change]) -> Iterator[tuple[str, Change | None]]:
    """Yield the lines that people read, each change's first with it."""
    for change in _judged(changes):
        word = "wider" if change.verdict == "widening" else "narrower"
        sure = "" if change.certain else " (undecided)"
        yield f"{place_text(change)}: {word}{sure}: {change.message}", change
        for line in change.details:
            yield f"    {line}", None


def markdown(changes: Sequence[Change], errors: Sequence[str]) -> str:
    """Return a comparison for a pull request's summary; nothing of the files is taken for Markdown.

    ``errors`` are lines about what could not be read.
    """
    lines = [f"### covalt-git: {summary(changes)}", ""]
    left = _MOST_IN_MARKDOWN
    for verdict, title in _TITLES.items():
        judged = [change for change in changes if change.verdict == verdict]
        if not judged:
            continue
        lines += [f"**{title}**", ""]
        for change in judged[:left]:
            sure = "" if change.certain else " *(undecided)*"
            lines.append(f"- {_plain(change.message)}{sure}<br>{_plain(place_text(change))}")
            lines += [f"  - {_plain(line)}" for line in change.details]
        if len(judged) > left:
            lines.append(f"- and {len(judged) - left} more: `covalt-git authority diff`")
        left = max(left - len(judged), 0)
        lines.append("")
    if errors:
        lines += ["**Errors, so that not all could be read**", ""]
        lines += [f"- {_plain(one)}" for one in errors[:_MOST_IN_MARKDOWN]]
        lines.append("")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def sarif(changes: Iterable[Change], prefix: str) -> JsonObject:
    """Return changes as a SARIF log; ``prefix`` leads from the repository to the project.

    What is gone from HEAD is shown at what it was of, or else as about the whole file.
    """
    seen: Counter[str] = Counter()
    results = [_result(one, prefix, seen) for one in _judged(changes)]
    return log_of_run([_rule(kind) for kind in _RULES], results)


def _judged(changes: Iterable[Change]) -> list[Change]:
    """Return the changes that are wider or narrower, which come first."""
    return [change for change in changes if change.verdict != "neutral"]


def _rule(kind: str) -> JsonObject:
    return {
        "id": f"authority/{kind}",
        "shortDescription": {"text": f"What is permitted has changed: {kind.replace('_', ' ')}"},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": ["authority"]},
    }


def _result(change: Change, prefix: str, seen: Counter[str]) -> JsonObject:
    sure = "" if change.certain else " (undecided)"
    word = "wider" if change.verdict == "widening" else "narrower"
    text = "\n".join([f"{word}{sure}: {change.message}", *change.details])
    path, line, col = _sarif_place(change)
    return {
        "ruleId": f"authority/{change.kind}",
        "ruleIndex": _RULES.index(change.kind),
        "level": "warning" if change.verdict == "widening" else "note",
        "message": {"text": text},
        "locations": [{"physicalLocation": physical_location(prefix + path, line, col)}],
        "partialFingerprints": {
            "covaltAuthority/v1": fingerprint((change.kind, path, change.message), seen)
        },
    }


def _sarif_place(change: Change) -> tuple[str, int, int]:
    place: Place | None = change.at or change.near
    if place is not None:
        return place.path, place.line, place.col
    return (change.was.path if change.was else "covalt.yaml"), 0, 0
