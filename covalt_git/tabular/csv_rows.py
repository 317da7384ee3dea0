"""Rows of a CSV file (RFC 4180, and what programs write in its place), read one at a time."""

from __future__ import annotations

import codecs
import csv
import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES = (".csv", ".tsv")
"""Ends of the names of CSV files."""

_DELIMITERS = ",;\t|"
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE = 64 << 10
_QUOTED = re.compile(r'"[^"]*"')
_BREAK = "\r\n"


class CsvRows:
    """The rows of a CSV file, without empty lines; each iteration reads the file again.

    A file of 50 MB is decoded in pieces, so that only its bytes and one row are in memory.  If a quote is not closed, or a
    cell has more than 131,072 characters, the lines from there on are split without quotes: otherwise one stray quote
    would make a single cell of the rest of the file.

    Attributes:
        encoding: ``utf-8``, ``utf-16`` or ``latin-1``; a file without a byte order mark that is not UTF-8 is read as Latin-1.
        delimiter: the most frequent candidate in the first line, outside of quotes; in ``.tsv`` files a tab.
        unclosed_line: after an iteration, the line of the quote that is not closed, counted from 1; None without one.
    """

    def __init__(self, content: bytes, *, tabs: bool = False) -> None:
        self._content = content
        self._codec = _codec(content)
        self.encoding = self._codec.removesuffix("-sig")
        self.unclosed_line: int | None = None
        self.delimiter = "\t" if tabs else self._delimiter()

    def __iter__(self) -> Iterator[list[str]]:
        self.unclosed_line = None
        stream = self._open()
        pending: list[str] = []
        at_end = False

        def lines() -> Iterator[str]:
            nonlocal at_end
            for line in stream:
                pending.append(line)
                yield line
            at_end = True

        reader = csv.reader(lines(), delimiter=self.delimiter)
        try:
            for row in reader:
                # The reader asks for another line only within quotes.
                if at_end:
                    break
                pending.clear()
                if row:
                    yield row
        except csv.Error:  # a cell of more than csv.field_size_limit()
            at_end = True
        if not pending:
            return
        self.unclosed_line = reader.line_num - len(pending) + 1
        for source in (pending, stream):
            for line in source:
                text = line.rstrip(_BREAK)
                if text:
                    yield text.split(self.delimiter)

    def _open(self) -> io.TextIOWrapper:
        # With newline="", line ends in quoted cells stay as they are.
        return io.TextIOWrapper(
            io.BytesIO(self._content), encoding=self._codec, errors="replace", newline=""
        )

    def _delimiter(self) -> str:
        line = self._open().readline(_SAMPLE)
        return max(_DELIMITERS, key=_QUOTED.sub("", line).count)


def _codec(content: bytes) -> str:
    for mark, codec in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return codec
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(content), 1 << 20):
            decoder.decode(content[start : start + (1 << 20)])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
