"""The page docs/project/specification.md, generated from requirements.yaml."""

from collections import Counter
from typing import Any

from tests.specification.marks import TESTS, read

PAGE = TESTS.parent / "docs" / "project" / "specification.md"
BEGINNING = """\
# The specification, statement by statement

covalt-git implements five documents. This page lists their statements, in our words: what holds, what differs and why, and what is
planned. It is generated from `tests/specification/requirements.yaml` by `python -m tests.specification`.

A statement that holds has a test with its id: `pytest.mark.requirement("covalt-1.1.id")`. Names of keys are those of `toolset.yaml`, if a
document of another system calls the same thing differently.
"""
COLUMNS = {
    "holds": ("text",),
    "differs": ("text", "instead", "why"),
    "planned": ("text", "capability"),
}
"""The keys that the table of each status shows."""


def page() -> str:
    """Return the text of the page."""
    content = read("requirements.yaml")
    parts = [BEGINNING, _counts(content)]
    for prefix, document in content["documents"].items():
        entries = {
            name: entry
            for name, entry in content["requirements"].items()
            if name.startswith(f"{prefix}-")
        }
        parts.append(f"## {document['title']}\n\n`{document['file']}`\n")
        parts += [_table(entries, status, keys) for status, keys in COLUMNS.items()]
    return "\n".join(filter(None, parts))


def _counts(content: dict[str, Any]) -> str:
    rows = ["| document | holds | differs | planned |", "| --- | --- | --- | --- |"]
    total: Counter[str] = Counter()
    for prefix, document in content["documents"].items():
        counts = Counter(
            entry["status"]
            for name, entry in content["requirements"].items()
            if name.startswith(f"{prefix}-")
        )
        total += counts
        rows.append(_row(document["title"], counts))
    return "\n".join([*rows, _row("all", total), ""])


def _row(title: str, counts: Counter[str]) -> str:
    return f"| {title} | {counts['holds']} | {counts['differs']} | {counts['planned']} |"


def _table(entries: dict[str, Any], status: str, keys: tuple[str, ...]) -> str:
    rows = [
        " | ".join((f"| `{name}`", *(entry[key] for key in keys))) + " |"
        for name, entry in entries.items()
        if entry["status"] == status
    ]
    if not rows:
        return ""
    columns = ("id", "statement", *keys[1:])
    head = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    return "\n".join([f"### {status.capitalize()}\n", *head, *rows, ""])
