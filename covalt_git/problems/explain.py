"""Explanations of problem codes, a Markdown file for each code.

The first line of ``CGnnn.md`` is its title; the sections ``What``, ``Why`` and ``How to fix`` follow.
The last has examples in fenced code.  Their info string has the language, ``bad`` or ``good``, and the
path of the file if it is not ``toolset.yaml``.  ``tests/problems/test_explain.py`` runs them all.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from covalt_git.errors import UnknownNameError

_FOLDER = files(__package__) / "explanations"
SECTIONS: Final = ("What", "Why", "How to fix")


class Explanation(NamedTuple):
    """The explanation of a code: its file as ``markdown``, and its ``sections`` by heading."""

    code: str
    title: str
    markdown: str
    sections: dict[str, str]


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
    code = code.upper()
    if code not in titles():
        raise UnknownNameError("code", code, titles(), list_with="covalt-git explain")
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
    """Return the text of ``docs/problems.md``: all explanations, in the order of the codes."""
    chapters = [_INTRODUCTION]
    for code in titles():
        lines = explanation(code).markdown.rstrip().split("\n")
        fenced = False
        for at, line in enumerate(lines):
            fenced ^= line.startswith("```")
            if line.startswith("#") and not fenced:
                lines[at] = f"#{line}"
        chapters.append("\n".join(lines))
    return "\n\n".join(chapters) + "\n"


_INTRODUCTION: Final = """\
# Problem codes

The problems that `covalt-git validate` reports; `covalt-git explain CG201` prints a single code. Codes never
change their meaning: `CG1xx` is the YAML text, `CG2xx` its values, `CG3xx` the files of a toolset, `CG4xx` the
project.

This page is generated from `covalt_git/problems/explanations/`: `covalt-git explain --markdown > docs/problems.md`."""
