"""The picture of a history on a terminal: every manifest has its dot, every line leads somewhere."""

from __future__ import annotations

import io
import sys
from typing import NamedTuple

import pytest

from covalt_git.cli.terminal import history_graph
from covalt_git.workspaces.history import layout


class Line(NamedTuple):
    id: str
    parents: tuple[str, ...]


def picture(*texts: str, trunk: str | None = None) -> list[str]:
    """Draw ``m<ab`` as the manifest m, made from a and b: its lines and the one below them."""
    split = [text.partition("<") for text in texts]
    drawn = []
    for row in layout([Line(name, tuple(above)) for name, _, above in split], trunk=trunk):
        first, below = history_graph.graph_rows(row)
        drawn += [*first[:-1], f"{first[-1]} {row.id}", below]
    return drawn


def test_one_line_of_work_is_one_column() -> None:
    assert picture("c<b", "b<a", "a") == ["* c", "│", "* b", "│", "* a", ""]


def test_a_branch_comes_out_of_the_manifest_that_it_began_at() -> None:
    assert picture("c<a", "b<a", "a", trunk="c") == [
        *("* c", "│"),
        *("│ * b", "│ │"),
        *("├─╯", "* a", ""),
    ]


def test_the_active_branch_has_the_first_column() -> None:
    assert picture("c<a", "b<a", "a", trunk="b") == [
        *("  * c", "  │"),
        *("* │ b", "│ │"),
        *("├─╯", "* a", ""),
    ]


def test_a_merge_takes_in_a_line_below_its_dot() -> None:
    assert picture("m<bc", "c<a", "b<a", "a", trunk="m") == [
        *("* m", "├─╮"),
        *("│ * c", "│ │"),
        *("* │ b", "│ │"),
        *("├─╯", "* a", ""),
    ]


def test_several_branches_of_one_manifest_come_together() -> None:
    assert picture("d<a", "c<a", "b<a", "a", trunk="d")[-3:] == ["├─┴─╯", "* a", ""]


def test_a_line_that_passes_between_is_not_touched() -> None:
    assert picture("d<a", "c<x", "b<a", "a<x", "x", trunk="d") == [
        *("* d", "│"),
        *("│ * c", "│ │"),
        *("│ │ * b", "│ │ │"),
        *("├─│─╯", "* │ a", "│ │"),
        *("├─╯", "* x", ""),
    ]


def test_a_merge_of_a_line_that_is_there_already_joins_it() -> None:
    assert picture("d<a", "m<ba", "b<a", "a", trunk="d") == [
        *("* d", "│"),
        *("│ * m", "├─┤"),
        *("│ * b", "│ │"),
        *("├─╯", "* a", ""),
    ]


def test_a_merge_of_three_lines_goes_both_ways() -> None:
    drawn = picture("d<a", "m<bac", "c<a", "b<a", "a", trunk="d")

    assert drawn[2:4] == ["│ * m", "├─┼─╮"]


def test_a_terminal_without_lines_gets_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))

    assert picture("m<bc", "c<a", "b<a", "a", trunk="m") == [
        *("* m", "+-+"),
        *("| * c", "| |"),
        *("* | b", "| |"),
        *("+-+", "* a", ""),
    ]
