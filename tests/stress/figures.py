"""A stress test: its promise, its figures, and the page that holds them."""

import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "project" / "stress.md"

_FIGURE_CELLS = 2
_INTRODUCTION = """\
# Stress tests

`make stress` runs these tests, which take longer than others. Each section has the results of the last complete run, and its command. A test
that fails changes nothing on this page.
"""


class DisprovedError(AssertionError):
    """Something that this project promises does not hold."""


@dataclass
class Proof:
    """One promise being tried: how far it is, and its figures in the order in which they came.

    ``rows`` are a table below the figures, by their first cells; ``titles`` are those of its columns.
    """

    name: str
    promise: str
    figures: dict[str, str] = field(default_factory=dict)
    titles: tuple[str, ...] = ()
    rows: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _told: float = 0.0

    def note(self, what: str, figure: object) -> None:
        """Keep one figure."""
        self.figures[what] = f"{figure:,}" if isinstance(figure, int) else str(figure)

    def progress(self, done: int, total: int) -> None:
        """Say on a terminal how far it is, a few times a second."""
        now = time.monotonic()
        if sys.stderr.isatty() and (done == total or now - self._told > 0.2):
            self._told = now
            end = "\n" if done == total else ""
            print(f"\r{self.name}: {done:,} of {total:,} ", end=end, file=sys.stderr, flush=True)

    def check(self, truth: object, told: str) -> None:
        """Continue only if it is true.

        Raises:
            DisprovedError: where it is not.
        """
        if not truth:
            raise DisprovedError(f"{self.name}: {told}")


def keep(proof: Proof, command: str) -> None:
    """Write a proof's section of the page, in place of the earlier one."""
    lines = [f"| {what} | {figure} |" for what, figure in proof.figures.items()]
    section = "\n".join(
        [
            _head(proof.name),
            "",
            f"{proof.promise} `{command}` on {_machine()}:",
            "",
            *("| | |", "| --- | ---: |", *lines),
            "",
            *_table(proof),
        ]
    )
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else _INTRODUCTION
    before = _section(proof.name)
    if before.search(page):
        page = before.sub(lambda _: section + "\n", page, count=1)
    else:
        page = page.rstrip("\n") + "\n\n" + section
    PAGE.write_text(page.rstrip("\n") + "\n", encoding="utf-8")


def rows_of(name: str) -> dict[str, tuple[str, ...]]:
    """Return the rows of the table that the page has of a proof, by their first cells."""
    section = _section(name).search(PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")
    lines = section[0].splitlines() if section else []
    rows = [tuple(re.split(r" (?<!\\)\| ", line[2:-2])) for line in lines if line.startswith("| ")]
    return {row[0]: row for row in rows if len(row) > _FIGURE_CELLS and set(row[0]) != {"-"}}


def _table(proof: Proof) -> list[str]:
    if not proof.rows:
        return []
    rows = (proof.titles, tuple("---" for _ in proof.titles), *proof.rows.values())
    return [*(f"| {' | '.join(row)} |" for row in rows), ""]


def _head(name: str) -> str:
    return f"## {name.replace('_', ' ').capitalize()}"


def _section(name: str) -> re.Pattern[str]:
    return re.compile(rf"^{re.escape(_head(name))}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def _machine() -> str:
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.release().partition('-')[0]}, "
        f"Python {platform.python_version()}, {git.strip()}"
    )
