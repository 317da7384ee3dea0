"""Reports of a comparison as text, Markdown and SARIF."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from covalt_git.authority.kinds import KINDS
from covalt_git.problems.sarif import fingerprint, log_of_run, physical_location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from covalt_git.authority.facts import FactChange, Place
    from covalt_git.json_values import JsonObject

_RULES = [*KINDS, "approvals", "default_role", "unreadable"]
"""All kinds of changes; the last three are not kinds of facts."""

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#|!~@&$])")
_TITLES = {"widening": "Wider", "narrowing": "Narrower"}
_MOST_IN_MARKDOWN = 400
"""Maximum number of changes in a summary; GitHub displays at most 1 MiB."""


def place_text(change: FactChange) -> str:
    """Return the place of a change in HEAD, or in BASE if the fact is removed."""
    if change.at is not None:
        return str(change.at)
    return f"{change.was} in BASE" if change.was is not None else ""


def summary(changes: Sequence[FactChange]) -> str:
    """Return one line that summarizes whether authority grew."""
    verdicts = [change.verdict for change in changes]
    wider, narrower = verdicts.count("widening"), verdicts.count("narrowing")
    if not wider and not narrower:
        return "authority is the same"
    counts = ", ".join(
        f"{count} {word}" for count, word in ((wider, "wider"), (narrower, "narrower")) if count
    )
    return f"authority {'grew' if wider else 'shrank'}: {counts}"


def text_lines(changes: Iterable[FactChange]) -> Iterator[tuple[str, FactChange | None]]:
    """Yield the lines of the text report; the first line of a change comes with the change."""
    for change in _reported(changes):
        word = "wider" if change.verdict == "widening" else "narrower"
        sure = "" if change.certain else " (undecided)"
        yield f"{place_text(change)}: {word}{sure}: {change.message}", change
        for line in change.details:
            yield f"    {line}", None


def markdown(changes: Sequence[FactChange], errors: Sequence[str]) -> str:
    """Return a comparison for a pull request's summary, with all text from files escaped.

    ``errors`` are lines about unreadable files.
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
        lines += ["**Errors: some files could not be read**", ""]
        lines += [f"- {_plain(error)}" for error in errors[:_MOST_IN_MARKDOWN]]
        lines.append("")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Return a text on one line, with Markdown's special characters escaped."""
    # Names and messages come from the pull request itself, which could draw a table of its own.
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def sarif(changes: Iterable[FactChange], prefix: str) -> JsonObject:
    """Return changes as a SARIF log; ``prefix`` is the path from the repository to the project.

    The location of a removed fact is its subject in HEAD, or else the whole file.
    """
    counts: Counter[str] = Counter()
    results = [_result(change, prefix, counts) for change in _reported(changes)]
    return log_of_run([_rule(kind) for kind in _RULES], results)


def _reported(changes: Iterable[FactChange]) -> list[FactChange]:
    return [change for change in changes if change.verdict != "neutral"]


def _rule(kind: str) -> JsonObject:
    return {
        "id": f"authority/{kind}",
        "shortDescription": {"text": f"Permissions changed: {kind.replace('_', ' ')}"},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": ["authority"]},
    }


def _result(change: FactChange, prefix: str, counts: Counter[str]) -> JsonObject:
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
            "covaltAuthority/v1": fingerprint((change.kind, path, change.message), counts)
        },
    }


def _sarif_place(change: FactChange) -> tuple[str, int, int]:
    place: Place | None = change.at or change.near
    if place is not None:
        return place.path, place.line, place.col
    return (change.was.path if change.was else "covalt.yaml"), 0, 0
