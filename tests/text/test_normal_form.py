"""Normalization of texts that a model, client or server chose: the work is linear, and what counts is unchanged."""

import itertools
import unicodedata
from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git import paths
from covalt_git.git_store import tracked_files
from covalt_git.http_tools.files import file_name
from covalt_git.index.search_text import query_words
from covalt_git.index.search_words import excerpt, parse, words
from covalt_git.text.normal_form import MOST_MARKS, normalized
from tests.examples import examples

HOSTILE = "x" + "\u0301" * 3000 + "\u0316" * 3000 + "\uff9e\u0344" * 1000
NORMALIZE = unicodedata.normalize
USES: list[Callable[[str], object]] = [
    words,
    parse,
    query_words,
    lambda text: excerpt(parse("x é"), f"é {text}"),
    lambda text: excerpt(parse(text), "a text"),
    lambda text: list(paths.collisions([text])),
    lambda text: paths.is_git_file(text, ".gitignore"),
    lambda text: tracked_files._folded(text.encode()),
    lambda text: file_name("", f"https://example.com/{text}", "text/plain"),
]


def longest_run(text: str) -> int:
    """Return the number of consecutive marks that a normalization of a text has to sort."""
    split = "".join(NORMALIZE("NFKD", character) for character in text)
    return max(
        (
            len(list(run))
            for is_mark, run in itertools.groupby(split, lambda one: unicodedata.combining(one) > 0)
            if is_mark
        ),
        default=0,
    )


@pytest.mark.parametrize("use", USES)
def test_the_marks_of_a_hostile_text_are_bounded(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[str], object]
) -> None:
    runs = []

    def counting(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
        runs.append(longest_run(text))
        return NORMALIZE(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counting)
    use(HOSTILE)

    assert all(run <= MOST_MARKS for run in runs)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.text(max_size=40), st.text("\u0301\u0316\u0345\uff9eé\u0344a", max_size=MOST_MARKS // 2 - 1)
)
def test_texts_with_fewer_marks_are_normalized_as_unicode_says(text: str, marks: str) -> None:
    for form in ("NFC", "NFKC", "NFKD"):
        assert normalized(form, text + marks) == unicodedata.normalize(form, text + marks)


def test_a_name_of_a_file_is_normalized_exactly() -> None:
    name = "x" + "\u0301\u0316" * 63

    assert len(name.encode()) <= paths.MAX_ELEMENT_BYTES
    assert normalized("NFC", name) == unicodedata.normalize("NFC", name)
