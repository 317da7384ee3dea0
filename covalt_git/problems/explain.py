"""Explanations of codes: a Markdown file for each problem code, and a table of the codes of calls.

The first line of ``CGnnn.md`` is its title; the sections ``What``, ``Why`` and ``How to fix`` follow.
The last has examples in fenced code.  Their info string has the language, ``bad`` or ``good``, and the
path of the file if it is not ``toolset.yaml``.  ``tests/problems/test_explain.py`` runs them all.

``call_codes.md`` has a row for each code of a call that failed, was refused or is pending.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from covalt_git.errors import UnknownNameError

_FOLDER = files(__package__) / "explanations"
_CALL_CODES = files(__package__) / "call_codes.md"
_HTTP_STATUS = re.compile(r"http_\d{3}")
SECTIONS: Final = ("What", "Why", "How to fix")


class Explanation(NamedTuple):
    """The explanation of a code: its file as ``markdown``, and its ``sections`` by heading."""

    code: str
    title: str
    markdown: str
    sections: dict[str, str]


class CallCode(NamedTuple):
    """The explanation of a code of calls, such as ``limit_time``; ``http_*`` is every HTTP status."""

    code: str
    what: str
    how_to_fix: str


@cache
def call_codes() -> dict[str, CallCode]:
    """Return the explanations of all codes of calls, in alphabetical order."""
    _titles, _line, *rows = _CALL_CODES.read_text(encoding="utf-8").splitlines()
    cells = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    return {code.strip("`"): CallCode(code.strip("`"), what, how) for code, what, how in cells}


def call_code(code: str) -> CallCode | None:
    """Return the explanation of a code of calls, which can be in upper case; None if the code does not exist."""
    code = code.lower()
    row = call_codes().get("http_*" if _HTTP_STATUS.fullmatch(code) else code)
    return row._replace(code=code) if row else None


@cache
def titles() -> dict[str, str]:
    """Return the titles of all codes, in the order of the codes."""
    names = sorted(file.name for file in _FOLDER.iterdir() if file.name.endswith(".md"))
    heads = (_markdown(name).partition("\n")[0].partition(": ") for name in names)
    return {head.removeprefix("# "): title for head, _, title in heads}


def explanation(code: str) -> Explanation:
    """Return the explanation of a code, which can be in lower case.

    Raises:
        UnknownNameError: if the code does not exist; the hint has the most similar one.
    """
    given, code = code, code.upper()
    if code not in titles():
        every_code = (*titles(), *call_codes())
        name = code if code.startswith("CG") else given
        raise UnknownNameError("code", name, every_code, list_with="covalt-git explain")
    text = _markdown(f"{code}.md")
    _, *parts = text.split("\n## ")
    sections = {}
    for part in parts:
        name, _, body = part.partition("\n")
        sections[name] = body.strip()
    return Explanation(code, titles()[code], text, sections)


def _markdown(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def problems_page() -> str:
    """Return the text of ``docs/reference/problems.md``: all explanations, in the order of the codes."""
    chapters = [_INTRODUCTION]
    for code in titles():
        lines = explanation(code).markdown.rstrip().split("\n")
        fenced = False
        for at, line in enumerate(lines):
            fenced ^= line.startswith("```")
            if line.startswith("#") and not fenced:
                lines[at] = f"#{line}"
        chapters.append("\n".join(lines))
    chapters.append(f"{_CALLS}\n\n{_CALL_CODES.read_text(encoding='utf-8').rstrip()}")
    return "\n\n".join(chapters) + "\n"


_CALLS: Final = """\
## Codes of calls

A call that failed, was refused or is pending has one of these codes: `error_detail.code` of `call --json`, `error` of an answer of the API and
of an agent's result. The codes of other requests that these documents name are here, too. `covalt-git explain limit_time` prints a single code."""

_INTRODUCTION: Final = """\
# Problem codes

The problems that `covalt-git validate` reports; `covalt-git explain CG201` prints a single code. Codes never
change their meaning: `CG1xx` is the YAML text, `CG2xx` its values, `CG3xx` the files of a toolset, `CG4xx` the
project. At the end are the [codes of calls](#codes-of-calls).

This page is generated from `covalt_git/problems/`: `covalt-git explain --markdown > docs/reference/problems.md`."""
