"""Words of texts and queries: equal letters in each form, and work that does not grow with the query."""

import unicodedata
from functools import partial

from covalt_git.index.search_words import MarkedText, excerpt, parse, words
from covalt_git.index.text_rows import MOST_TEXT, argument_text
from covalt_git.json_values import canonical_json
from tests.counted_work import work_of


def test_a_word_counts_without_its_marks_however_many_it_has() -> None:
    for text in ("Ἀθήνᾳ", "ᾳ̈", "ǰΐ", "ﾊﾞｽ"):
        assert words(text) == words(unicodedata.normalize("NFD", text))
    assert words("Ἀθήνᾳ") == ["αθηναι"]
    assert words("cafe" + "\u0301" * 999 + "s") == ["cafes"]
    assert words("é" + "x" * 99) == ["e" + "x" * 63]


def test_an_excerpt_reads_a_text_once_for_all_phrases() -> None:
    text = "élan " + "word " * 2000 + "last"
    single = work_of(lambda: excerpt(parse("last"), text))
    many = work_of(lambda: excerpt(parse(" ".join([*map("w{}".format, range(60)), "last"])), text))

    assert many < 1.5 * single


def test_an_excerpt_begins_before_the_first_of_all_phrases() -> None:
    text = "é " * 100 + "an apple red one " + "ü " * 100
    parts = excerpt(parse('"red one" apple'), text)

    assert [part for part in parts if part.match] == [
        MarkedText(word, True) for word in ("apple", "red", "one")
    ]


def test_the_text_of_arguments_ends_after_the_characters_that_are_searched() -> None:
    short, long = (canonical_json.dumps(["a" * 1000] * count).decode() for count in (300, 600))
    works = [work_of(partial(argument_text, args)) for args in (short, long)]

    assert len(argument_text(short)) == MOST_TEXT
    assert works[0] == works[1]
