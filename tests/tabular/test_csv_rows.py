"""Rows of CSV files, also of files with mistakes."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.tabular.csv_rows import CsvRows
from tests.examples import examples


@pytest.mark.parametrize(
    ("content", "rows", "encoding"),
    [
        ("a,b\n1,2\n".encode("utf-8-sig"), [["a", "b"], ["1", "2"]], "utf-8"),
        ("a;b\r\n1,5;é\r\n".encode("utf-16"), [["a", "b"], ["1,5", "é"]], "utf-16"),
        (b"\xfe\xff" + "a\tb\n".encode("utf-16-be"), [["a", "b"]], "utf-16"),
        (b"a|caf\xe9\n1|2", [["a", "café"], ["1", "2"]], "latin-1"),
        (b'"a, b";c\n1;2', [["a, b", "c"], ["1", "2"]], "utf-8"),
        (b"a,b\n\0,2\n\n3\n", [["a", "b"], ["\0", "2"], ["3"]], "utf-8"),
        (b'a,b\n"x\ny",2\n', [["a", "b"], ["x\ny", "2"]], "utf-8"),
        (b"", [], "utf-8"),
    ],
    ids=str,
)
def test_a_file_is_read_in_its_encoding_and_with_its_delimiter(
    content: bytes, rows: list[list[str]], encoding: str
) -> None:
    table = CsvRows(content)

    assert [*table] == rows
    assert [*table] == rows
    assert (table.encoding, table.unclosed_line) == (encoding, None)


@pytest.mark.parametrize("rest", ["", "x,y\n" * 50_000], ids=["to the end", "over the limit"])
def test_a_quote_that_is_not_closed_does_not_hide_the_rest(rest: str) -> None:
    table = CsvRows(f'a,b\n"q\nr",2\n"open,2\n3,4\n{rest}'.encode())
    rows = [*table]

    assert rows[:4] == [["a", "b"], ["q\nr", "2"], ['"open', "2"], ["3", "4"]]
    assert len(rows) == 4 + rest.count("\n")
    assert table.unclosed_line == 4


@settings(max_examples=examples(200))
@given(st.lists(st.lists(st.text('ab,;"\n\r\0é ', max_size=4), min_size=2, max_size=3), max_size=6))
def test_written_rows_are_read_as_they_were(rows: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([["x", "y"], *rows])

    assert [*CsvRows(text.getvalue().encode())] == [["x", "y"], *rows]


@given(st.binary(max_size=60) | st.text('",\n;a', max_size=30).map(str.encode))
def test_any_content_has_rows(content: bytes) -> None:
    assert all(isinstance(cell, str) for row in CsvRows(content) for cell in row)
