"""Previews of files by their content: text, tables, JSON, images and sounds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_server.render.previews import MAX_TEXT, Table, preview, table_of_csv

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("notes.md", b"# Notes\n", "document"),
        ("a.csv", b"a,b\n1,2\n", "table"),
        ("a.json", b"{}", "json"),
        ("a.json", b"{", "text"),
        ("a.html", b"<h1>x</h1>", "page"),
        ("a.svg", b"<svg/>", "page"),
        ("a.py", b"x = 1\n", "text"),
        ("a.txt", b"", "empty"),
        ("a.png", PNG, "image"),
        ("a.txt", PNG, "image"),
        ("a.bin", b"OggS\0\x02", "sound"),
        ("a.png", b"no image", "text"),
        ("a.txt", b"a\0b", "binary"),
        ("a.txt", b"caf\xe9\n", "encoded"),
        ("a.bin", b"\xff\x01\x02", "binary"),
    ],
)
def test_a_file_is_previewed_by_its_content(path: str, content: bytes, kind: str) -> None:
    assert preview(path, content).kind == kind


@given(
    st.binary(max_size=200) | st.lists(st.sampled_from([b"a", b"\r", b"\n"])).map(b"".join),
    st.sampled_from(["a.md", "a.csv", "a.json", "a.html", "a.txt"]),
)
def test_every_content_has_a_preview(content: bytes, path: str) -> None:
    shown = preview(path, content)

    if shown.editable:
        assert shown.text.encode() == content
        assert len(set(re.findall(r"\r\n|\r|\n", shown.text))) <= 1


def test_a_large_text_is_cut_after_a_line() -> None:
    shown = preview("a.md", b"a line of text\n" * MAX_TEXT)

    assert shown.kind == "text"
    assert not shown.complete
    assert not shown.editable
    assert len(shown.text) <= MAX_TEXT
    assert shown.text.endswith("text\n")


def table(content: str, path: str = "a.csv") -> Table:
    found = table_of_csv(path, content.encode())
    assert found is not None
    return found


def test_the_rows_of_a_table_have_one_width() -> None:
    found = table('name,size\n"a, b",1\nc\nd,2.5,extra\n')

    assert found.titles == ("name", "size", "")
    assert found.rows == (("a, b", "1", ""), ("c", "", ""), ("d", "2.5", "extra"))
    assert found.numeric == {1}
