"""The graph of a history on a terminal: each commit has its dot, and each line leads to a parent."""

from __future__ import annotations

import io
import sys
from typing import NamedTuple

import pytest

from covalt_git.cli.terminal import history_graph
from covalt_git.conversations.history import layout

MERGE = "m<bc c<a b<a a"
"""Commits, newest first: ``m<bc`` is the commit m with the parents b and c."""


class Line(NamedTuple):
    id: str
    parents: tuple[str, ...]


def graph(commits: str, trunk: str | None = None) -> str:
    """Draw commits: the line of each, and the one below it."""
    split = [text.partition("<") for text in commits.split()]
    drawn = []
    for row in layout([Line(name, tuple(above)) for name, _, above in split], trunk=trunk):
        first, below = history_graph.graph_rows(row)
        drawn += [*first[:-1], f"{first[-1]} {row.id}", below]
    return "\n".join(drawn)


@pytest.mark.parametrize(
    ("commits", "trunk", "drawn"),
    [
        pytest.param("c<b b<a a", None, "* c\n│\n* b\n│\n* a\n", id="one line"),
        pytest.param(
            "c<a b<a a", "b", "  * c\n  │\n* │ b\n│ │\n├─╯\n* a\n", id="the trunk is left"
        ),
        pytest.param(MERGE, "m", "* m\n├─╮\n│ * c\n│ │\n* │ b\n│ │\n├─╯\n* a\n", id="a merge"),
        pytest.param(
            "d<a c<x b<a a<x x",
            "d",
            "* d\n│\n│ * c\n│ │\n│ │ * b\n│ │ │\n├─│─╯\n* │ a\n│ │\n├─╯\n* x\n",
            id="a line between",
        ),
        pytest.param(
            "d<a m<bac c<a b<a a",
            "d",
            "* d\n│\n│ * m\n├─┼─╮\n│ │ * c\n│ │ │\n│ * │ b\n│ │ │\n├─┴─╯\n* a\n",
            id="a merge of three",
        ),
    ],
)
def test_a_graph(commits: str, trunk: str | None, drawn: str) -> None:
    assert graph(commits, trunk) == drawn


def test_a_terminal_without_line_characters_gets_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))

    assert graph(MERGE, "m") == "* m\n+-+\n| * c\n| |\n* | b\n| |\n+-+\n* a\n"
