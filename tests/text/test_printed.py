"""Printed text of tools as records store it."""

import random

import pytest

from covalt_git.text.printed import MOST_STORED, Printed, Size, shortened, size_of


@pytest.mark.parametrize(
    "text", ["", "a", "a\nb", "a\nb\n", "x" * MOST_STORED, "\U0001f600\n" * 9000]
)
def test_a_short_text_is_stored_completely(text: str) -> None:
    size = len(text.encode())
    assert shortened(text) == text
    assert size_of(text) == Size(len(text.splitlines()), size, len(text.splitlines()), size)


def test_a_long_text_is_its_first_and_last_lines_with_the_size_of_the_rest() -> None:
    lines = [f"line {at}" for at in range(20_000)]

    stored = shortened("\n".join(lines) + "\n").splitlines()

    (gap,) = (at for at, line in enumerate(stored) if line.startswith("... "))
    assert stored[:gap] == lines[:gap]
    assert stored[gap + 1 :] == lines[gap + 1 - len(stored) :]
    assert stored[gap].startswith(f"... {20_001 - len(stored)} of 20000 lines (")


def test_a_long_line_is_cut_in_its_middle() -> None:
    stored = shortened("x" * 100_000)

    assert stored.count("x") == MOST_STORED
    assert "... 1 of 1 lines (34464 of 100000 bytes) are not stored ..." in stored


def test_the_stored_text_does_not_depend_on_the_chunks() -> None:
    text = "".join(f"{at}\n" for at in range(30_000)).encode()
    chooser, printed, at = random.Random(1), Printed(), 0
    while at < len(text):
        size = chooser.choice([1, 7, 5000, 70_000])
        printed.take(text[at : at + size])
        at += size

    assert str(printed) == shortened(text.decode())
    assert size_of(str(printed)).size == printed.received == len(text)
