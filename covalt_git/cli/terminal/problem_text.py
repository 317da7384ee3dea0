"""Text output of problems: a line each, and on a terminal an excerpt of the file."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from covalt_git.credentials.leaks import blotted
from covalt_git.problems.excerpts import Excerpt, Sources
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from covalt_git.errors import Problem

_WIDTH = 100


def print_problems(problems: Iterable[Problem], root: Path, *, excerpts: bool = True) -> None:
    """Print problems with paths relative to the current folder, which terminals can open.

    Without ``excerpts``, the lines of the files are not shown on a terminal either.
    """
    watched = sys.stdout.isatty() and excerpts
    # The line of a problem may contain a credential (test_no_excerpt_shows_a_credential).
    sources = Sources(root, blotted)
    room = shutil.get_terminal_size((_WIDTH, 24)).columns
    for problem in problems:
        relative_problem = replace(problem, path=os.path.relpath(root / problem.path))
        if not watched:
            click.echo(display.in_lines(str(relative_problem)))
            continue
        click.echo(_head(relative_problem))
        margin = len(str(problem.line)) + 3
        excerpt = sources.excerpt(problem, max(room - margin - 1, 20))
        if excerpt:
            click.echo(_drawn(excerpt, problem.severity))
        if problem.hint:
            click.echo(f"  {click.style('hint', fg='cyan')}: {display.in_lines(problem.hint)}")
        click.echo()


def _head(problem: Problem) -> str:
    place = f":{problem.line}:{problem.col}" if problem.line else ""
    path = click.style(display.in_line(problem.path), bold=True)
    code = click.style(problem.code, fg=_colour(problem.severity), bold=True)
    warning = "warning: " if problem.severity == "warning" else ""
    return f"{path}{place}: {code} {warning}{display.in_lines(problem.message)}"


def _drawn(excerpt: Excerpt, severity: str) -> str:
    number = str(excerpt.line)
    bar = click.style("|", fg="blue")
    carets = click.style("^" * excerpt.width, fg=_colour(severity), bold=True)
    return (
        f"{click.style(number, fg='blue')} {bar} {excerpt.text}\n"
        f"{' ' * len(number)} {bar} {' ' * excerpt.start}{carets}"
    )


def _colour(severity: str) -> str:
    return "yellow" if severity == "warning" else "red"
