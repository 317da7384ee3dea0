"""Tables with their query in the URL: ``?c2=>3&sort=-2&page=3``.

``c2`` is the condition on the second column: a text that it contains, or ``=``, ``<`` or ``>`` and a value.  ``sort`` is a
column, with ``-`` from the largest to the smallest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import redirect, request, url_for

from covalt_git.tabular.query import number
from covalt_git.text.display import shorten
from covalt_server.render.previews import MAX_CELL, MAX_COLUMNS, is_numeric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from werkzeug.wrappers import Response

    from covalt_git.operations.chats.tables import TablePage

ROWS = 100
"""Rows of a page."""

TABLE = "rows"
"""Id of the table in its page."""

_MOST_PAGE = 10_000_000
_SORT = re.compile(r"(-?)([1-9][0-9]{0,3})")
_TESTS = ("~", "=", "<", ">")


class Column(NamedTuple):
    """A column of a page: its condition, and the URL of the page that it sorts."""

    title: str
    condition: str
    is_numeric: bool
    order: str
    link: str


class Condition(NamedTuple):
    """A condition on a column; ``link`` is the URL of the page without it.

    ``compared_text`` is a value that ``<`` or ``>`` compares as a text, so that it matches no number; empty otherwise.
    """

    title: str
    text: str
    link: str
    compared_text: str


class TableView(NamedTuple):
    """A page of a table.

    Attributes:
        fields: the parts of the URL's query that a new condition does not change.
        left_out: number of columns that are not shown.
        previous, following: URLs of the pages before and after; None without one.
        plain: the URL without conditions and order; None if it has none.
        where: the conditions, as operations accept them.
        conditions: the conditions, each with the URL of the page without it.
        export: the conditions and the order, as the operation :func:`.export_table` accepts them.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    facts: TablePage
    number: int
    pages: int
    fields: tuple[tuple[str, str], ...]
    left_out: int
    previous: str | None
    following: str | None
    plain: str | None
    where: str
    conditions: tuple[Condition, ...]
    export: dict[str, str]


def without_empty_fields() -> Response | None:
    """Return a redirect to the current URL without empty fields, which a browser sends too; None if it has none."""
    if all(request.args.values()):
        return None
    rest = {name: text for name, text in request.args.items() if text}
    # A browser keeps the anchor of the URL that it asked for.
    return redirect(_link(rest, None), 303)


def where() -> str:
    """Return the conditions in the current URL as operations accept them."""
    lines = []
    for at in range(1, MAX_COLUMNS + 1):
        text = request.args.get(f"c{at}", "").partition("\n")[0]
        if text:
            lines.append(f"#{at}{text if text.startswith(_TESTS) else '~' + text}")
    return "\n".join(lines)


def view(read: Callable[..., TablePage]) -> TableView:
    """Return the page in the current URL; ``read`` is the operation :func:`.read_table` of a table."""
    args = {name: text for name, text in request.args.items() if text}
    sort = _SORT.fullmatch(args.get("sort", ""))
    page_number = min(max(request.args.get("page", 1, type=int), 1), _MOST_PAGE)
    order = {"sort": f"#{sort[2]}"} if sort else {}
    if sort and sort[1]:
        order["descending"] = "true"
    page = read(
        where=where(),
        sort=order.get("sort"),
        descending="descending" in order,
        offset=(page_number - 1) * ROWS,
        limit=ROWS,
    )
    width = min(len(page.titles), MAX_COLUMNS)
    rows = tuple((row.number, _cells(row.cells, width)) for row in page.rows)
    pages = max(1, -(-page.reachable // ROWS))
    query = {name for name in args if re.fullmatch(r"c[0-9]+|sort|page", name)}
    kept = {name: text for name, text in args.items() if name != "page"}
    return TableView(
        columns=tuple(_column(page, rows, at, sort, kept) for at in range(width)),
        rows=rows,
        facts=page,
        number=page_number,
        pages=pages,
        fields=tuple(
            (name, text) for name, text in kept.items() if not re.fullmatch(r"c[0-9]+", name)
        ),
        left_out=len(page.titles) - width,
        previous=_link({**args, "page": min(page_number - 1, pages)}) if page_number > 1 else None,
        following=_link({**args, "page": page_number + 1}) if page_number < pages else None,
        plain=_link({name: text for name, text in args.items() if name not in query})
        if query - {"page"}
        else None,
        where=where(),
        conditions=tuple(_conditions(page, kept)),
        export={"where": where(), **order},
    )


def _conditions(page: TablePage, kept: dict[str, str]) -> Iterator[Condition]:
    """Yield the conditions in the current URL, also those on columns that the page does not show."""
    for at in range(1, MAX_COLUMNS + 1):
        name = f"c{at}"
        if text := kept.get(name):
            title = page.titles[at - 1] if at <= len(page.titles) else ""
            rest = {key: value for key, value in kept.items() if key != name}
            name = shorten(title, MAX_CELL).strip() or f"column {at}"
            value = text[1:].strip()
            is_text = text[0] in "<>" and bool(value) and number(value) is None
            yield Condition(name, text, _link(rest), value if is_text else "")


def _column(
    page: TablePage,
    rows: tuple[tuple[int, tuple[str, ...]], ...],
    at: int,
    sort: re.Match[str] | None,
    kept: dict[str, str],
) -> Column:
    order = ""
    if sort and int(sort[2]) == at + 1:
        order = "descending" if sort[1] else "ascending"
    # The third click shows the order of the table again.
    following = {"": f"{at + 1}", "ascending": f"-{at + 1}", "descending": None}[order]
    return Column(
        shorten(page.titles[at], MAX_CELL).strip() or f"column {at + 1}",
        request.args.get(f"c{at + 1}", ""),
        is_numeric([cells[at] for _, cells in rows]),
        order,
        _link({**kept, "sort": following}, f"column-{at + 1}"),
    )


def _link(query: dict[str, Any], anchor: str | None = TABLE) -> str:
    """Return the URL of a page of the table; a browser moves the focus to its ``anchor``, not to the top of the page."""
    return url_for(request.endpoint or "", **(request.view_args or {}), **query, _anchor=anchor)


def _cells(cells: tuple[str, ...], width: int) -> tuple[str, ...]:
    short = [shorten(cell, MAX_CELL) for cell in cells[:width]]
    return tuple(short + [""] * (width - len(short)))
