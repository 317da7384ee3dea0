"""Words of a text and of a query, and the excerpt of a text that matches a query.

A word is a run of letters and digits, without case and diacritics.  Letters of scripts that are written without spaces are
words of their own, so that each part of a sentence can be searched.  The tables of FTS5 store these words, and its
tokenizer ``ascii`` splits them only at spaces.  So SQLite and this module agree, whatever Unicode version SQLite has.
The tokenizer ``trigram`` would find parts of words, but no Chinese word of two characters, in an index of three times the
size.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.text.normal_form import normalized

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_LETTERS = 64
"""Letters of a word that count: longer ones are hashes or encoded data, which would fill the vocabulary."""

_MOST_WORDS = 64
"""Words of a query that are searched."""

_SHORTEST_PREFIX = 2
"""Letters from which the last word of a query also means the words that begin with it."""

_BEFORE, _AFTER = 60, 140
"""Characters of an excerpt before and after the start of the first match."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Thai, Lao, Burmese, Khmer, kana and Han."""

_ASCII_WORD = re.compile(rf"([0-9a-z]{{1,{_MOST_LETTERS}}})[0-9a-z]*")
_WORD = re.compile(
    rf"[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|[\u0300-\u036f])*|(?![\W_])[{_UNSPACED}]"
)
_MARK = re.compile("[\u0300-\u0344\u0346-\u036f\uff9e\uff9f]+")
"""Marks, which do not count; without U+0345, which is a letter without case."""

_ASCII_SIGN = re.compile(r"[\x00-\x2f\x3a-\x60\x7b-\x7f]")
_QUERY_PART = re.compile(r'"([^"]*)("?)|([^\s"]+)')


class Query(NamedTuple):
    """Phrases, each of at least one word, that a text must have all of.

    With ``is_open``, the last word is still being typed: it also means the words that begin with it.
    """

    phrases: tuple[tuple[str, ...], ...]
    is_open: bool

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for phrase in self.phrases for word in phrase)


class MarkedText(NamedTuple):
    """A part of an excerpt, and whether it matches the query."""

    text: str
    match: bool


def words(text: str) -> list[str]:
    """Return the words of a text, in their order, with repetitions."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return [word for match in _WORD.finditer(text) if (word := _folded(match[0]))]


def parse(text: str) -> Query:
    """Return the query of a text; all of it is literal, except that quotes join words to a phrase."""
    phrases: list[tuple[str, ...]] = []
    is_open, count = False, 0
    for quoted, closing, bare in _QUERY_PART.findall(text):
        phrase = tuple(words(quoted or bare))[: _MOST_WORDS - count]
        if phrase:
            phrases.append(phrase)
            count += len(phrase)
            is_open = not closing and len(phrase[-1]) >= _SHORTEST_PREFIX
    return Query(tuple(phrases), is_open)


def expressions(query: Query) -> Iterator[str]:
    """Yield the queries of FTS5 for a query, the strictest first; the last one has the rows of all."""
    if not query.phrases:
        return
    if len(query.phrases) > 1:
        yield _quoted(query.words)
    exact = [_quoted(phrase) for phrase in query.phrases]
    yield " AND ".join(exact)
    if query.is_open:
        yield " AND ".join([*exact[:-1], f"{exact[-1]} *"])


def is_match(query: Query, text: str) -> bool:
    """Return whether a text has all phrases of a query, as FTS5 decides it for the text's words."""
    return bool(query.phrases) and all(
        _has_phrase(_remembered_words(text), phrase, is_open=is_open)
        for phrase, is_open in _parts(query)
    )


def excerpt(query: Query, text: str, at: int | None = None) -> tuple[MarkedText, ...]:
    """Return the part of a text around the first phrase of a query, with all words of the query marked.

    It has no line breaks.  A text without the phrase is cut after its beginning.  ``at`` is its :func:`position`, if the
    caller has it.
    """
    at = position(query, text) if at is None else at
    start = 0 if at <= _BEFORE else text.find(" ", at - _BEFORE, at) + 1 or at - _BEFORE
    end = min(len(text), at + _AFTER)
    parts: list[MarkedText] = [MarkedText("… ", False)] if start else []
    for match in _WORD.finditer(text, start, end):
        if _is_marked(query, _folded(match[0])):
            parts += [MarkedText(text[start : match.start()], False), MarkedText(match[0], True)]
            start = match.end()
    parts.append(MarkedText(text[start:end] + (" …" if end < len(text) else ""), False))
    joined: list[MarkedText] = []
    for part in parts:
        # Neighbours without a gap, such as two Han, are one mark.
        if joined and joined[-1].match == part.match:
            joined[-1] = MarkedText(joined[-1].text + part.text, part.match)
        elif part.text:
            joined.append(part)
    return tuple(part._replace(text=re.sub(r"\s+", " ", part.text)) for part in joined)


def _parts(query: Query) -> list[tuple[tuple[str, ...], bool]]:
    """Return each phrase of a query, and whether its last word means all words that begin with it."""
    last = len(query.phrases) - 1
    return [(phrase, query.is_open and at == last) for at, phrase in enumerate(query.phrases)]


def _has_phrase(every: Sequence[str], phrase: tuple[str, ...], *, is_open: bool) -> bool:
    return any(
        _is_phrase(every[at : at + len(phrase)], phrase, is_open=is_open)
        for at in range(len(every) - len(phrase) + 1)
    )


def _is_phrase(some: Sequence[str], phrase: tuple[str, ...], *, is_open: bool) -> bool:
    if tuple(some[:-1]) != phrase[:-1]:
        return False
    return some[-1].startswith(phrase[-1]) if is_open else some[-1] == phrase[-1]


def position(query: Query, text: str) -> int:
    """Return the position of the first phrase of a query in a text, or 0."""
    if text.isascii():
        # By expressions: the words of a large file, one by one, take longer than the search in the index.
        matches = (_ascii_pattern(*part).search(text) for part in _parts(query))
        return min((first.start() for first in matches if first is not None), default=0)
    # In one pass for all phrases: each word of a text is folded once.
    places = [
        (word, match.start()) for match in _WORD.finditer(text) if (word := _folded(match[0]))
    ]
    every = [word for word, _ in places]
    firsts = tuple(phrase[0] for phrase in query.phrases)
    phrases = set(query.phrases)
    lengths = {len(phrase) for phrase in phrases}
    for at, (word, start) in enumerate(places):
        if word.startswith(firsts) and (
            any(tuple(every[at : at + length]) in phrases for length in lengths)
            or (query.is_open and _begins(every, at, query.phrases[-1]))
        ):
            return start
    return 0


def _begins(every: Sequence[str], at: int, phrase: tuple[str, ...]) -> bool:
    return _is_phrase(every[at : at + len(phrase)], phrase, is_open=True)


def _ascii_pattern(phrase: tuple[str, ...], is_open: bool) -> re.Pattern[str]:  # noqa: FBT001 - of a pair
    separated = "[^0-9a-z]+".join(map(re.escape, phrase))
    return re.compile(f"(?<![0-9a-z]){separated}{'' if is_open else '(?![0-9a-z])'}", re.IGNORECASE)


def _is_marked(query: Query, word: str) -> bool:
    every = query.words
    return word in every or (query.is_open and word.startswith(every[-1]))


@lru_cache(maxsize=1 << 14)
def _remembered_words(text: str) -> list[str]:
    """Return the words of a title or description, which lists compare with each query."""
    return words(text)


def _folded(word: str) -> str:
    """Return a word without case and diacritics, cut after its last letter that counts."""
    # Cut before the cache, whose keys would be large, and before normalization.
    letters = word if word.isascii() else _MARK.sub("", word)
    return _plain(letters[:_MOST_LETTERS])


@lru_cache(maxsize=1 << 16)
def _plain(word: str) -> str:
    if word.isascii():
        return word.lower()
    split = normalized("NFKD", normalized("NFKD", word).casefold())
    letters = "".join(letter for letter in split if unicodedata.category(letter) != "Mn")
    return _ASCII_SIGN.sub("", letters.casefold())[:_MOST_LETTERS]


def _quoted(phrase: Sequence[str]) -> str:
    # Without quotes, AND, OR, NOT and NEAR would be operators of FTS5.
    return f'"{" ".join(phrase)}"'
