"""Detection of credentials in texts: tokens of known formats, and random values after keys like ``api_key``.

The formats are those that providers document and that the rules of gitleaks collect.  A token of a known
format is certain; a value after ``api_key:`` is reported as a guess.  Placeholders are ignored:
``<YOUR_API_KEY>``, ``sk-xxxx``, ``${NAME}``.  Only the first characters of a credential are ever shown.
"""

from __future__ import annotations

import base64
import math
import re
import string
import sys
from bisect import bisect_right
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.credentials import token_formats, value_patterns
from covalt_git.credentials.connection_strings import EXPRESSION, passwords
from covalt_git.credentials.plain_names import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHOWN = 4
"""Number of a credential's first characters that are shown."""

MAX_FOUND = 500
"""Most tokens, and most guesses, that are reported for one text."""

_INK = re.compile(r"[^\r\n]")
_RECOGNIZED = 8
"""A text that begins with this many characters of a credential is masked as a part of it."""


class Credential(NamedTuple):
    """A credential at the character ``place`` of a text; ``certain`` if it has a known format."""

    place: int
    kind: str
    value: str
    certain: bool

    @property
    def shown(self) -> str:
        """The part of it that may be shown."""
        return f"{self.value[:SHOWN]}..."


_SHORTEST_VALUE = 16
_SHORTEST_PASSWORD = 6

_ESCAPE = re.compile(
    r"""%(?:25)*(?P<url>[2-7][0-9A-Fa-f])
        | (?<!\\)\\++ (?: (?:u(?P<u4>[0-9A-Fa-f]{4}) | x(?P<x2>[0-9A-Fa-f]{2}) | U(?P<u8>00[0-9A-Fa-f]{6})
                            | u\{(?P<braces>[0-9A-Fa-f]{1,6})\})
                        | (?P<continued>\r?\n[ \t]*+)
                        | (?P<octal>[0-3]?[0-7]{1,2}) | (?P<letter>[abefnrtv]) | (?P<sign>["'/]) )""",
    re.VERBOSE,
)
"""An escape of a printable character of ASCII in a URL, or of any character in JSON, YAML, JavaScript or Python.

Each document in another one doubles the backslashes, and each URL in another one writes ``%25`` for ``%``, so their
number does not matter.  A backslash at the end of a line joins it with the next line, so a token can be split there.
"""


_PLACEHOLDER = (
    r"(?i)example|your|placeholder|change.?me|redacted|dummy|sample|insert|replace|fake|secret.?here"
    r"|xxxx|0000000|1234567|abcdefg|\*\*\*|(.)\1{5}"
)
_PLAIN_PASSWORDS = (
    r"(?:[a-z_$][\w$]*\.)*(?:pass(?:w(?:or)?d)?|secret|token|user(?:name)?|admin|root|postgres)"
)
_RANDOM_BITS = 3.5
"""Entropy in bits per character above which a value is not a word; the bound of gitleaks."""

_KNOWN_BITS = 2.5
"""The same for tokens of known formats: only placeholders that people typed have less."""

_RANDOM_WORD = re.compile(
    r"(?<![A-Za-z0-9+/_.~-])(?<!sha256:)[A-Za-z0-9+/_.~-]{16,200}+(?![A-Za-z0-9+/_.~-])"
)
_RANDOM_TEXT = re.compile(r"""(?<![^\s"'`])[!#-&(-_a-~]{16,4096}+(?![^\s"'`])""")
"""The same with all signs, between spaces or quotes."""

_WORDS = re.compile(r"(?i)[A-Za-z]*[0-9]{0,4}|[0-9]+|v?[0-9]+[a-z]?")
_LONG_HEX = re.compile(r"(?i)[0-9a-f]{32,}")
_LOWER = {ord(letter): letter.lower() for letter in string.ascii_uppercase}
_SWITCH = re.compile(r"(?<=[A-Za-z])[0-9]|(?<=[0-9])[A-Za-z]")


_NEXT_TEXT = re.compile(r"""(?<!\\)"[\s\]}]*[,:]\s*["\[{]""")
"""The quote that ends a text of a document in JSON, and the beginning of the next value."""


def credentials(text: str) -> list[Credential]:
    r"""Return the credentials of a text in order, each once; at most about ``2 * MAX_FOUND``.

    A server decodes ``ghp%5F...`` before it reads the token, and a parser ``\u0022ghp_...``.  So the decoded text is
    searched too, and what it has is returned as it is written in the text.
    """
    decoded = _Decoded(text)
    tokens = _known_tokens(text, decoded)
    guesses = list(islice(_guesses(text), MAX_FOUND))
    if decoded.has_escapes:
        guesses += map(decoded.as_written, islice(_guesses(decoded.text), MAX_FOUND - len(guesses)))
    # The longest first: in the written text, an escape may end a value too early.
    # A guess that reaches beyond the closing quote of its JSON text comes last: it overlaps the next values, and the
    # credentials in them would be left out.
    for guess in sorted(
        guesses, key=lambda guess: (bool(_NEXT_TEXT.search(guess.value)), -len(guess.value))
    ):
        start, end = guess.place, guess.place + len(guess.value)
        if not any(
            start < token.place + len(token.value) and token.place < end for token in tokens
        ):
            tokens.append(guess)
    return sorted(tokens, key=lambda token: token.place)


def decoded(text: str) -> str:
    """Return a text without the escapes of URLs, JSON and programs, also escaped ones."""
    return _Decoded(text).text


def separated(text: str) -> str:
    """Return a text with a space before each beginning of a token of a known format, which letters may precede."""
    return token_formats.BEGINNINGS.sub(r" \g<0>", text)


def known_tokens(text: str) -> list[Credential]:
    """Return the credentials of a text that have a known format, in order; at most ``MAX_FOUND``.

    This takes a fifth of the time of :func:`credentials`.
    """
    return sorted(_known_tokens(text, _Decoded(text)), key=lambda token: token.place)


def _known_tokens(text: str, decoded: _Decoded) -> list[Credential]:
    tokens = list(islice(_of_known_shape(text), MAX_FOUND))
    if decoded.has_escapes:
        in_decoded = map(decoded.as_written, _of_known_shape(decoded.text))
        more = (
            token for token in in_decoded if not any(_contains(other, token) for other in tokens)
        )
        tokens += list(islice(more, MAX_FOUND - len(tokens)))
    return tokens


def _contains(outer: Credential, inner: Credential) -> bool:
    ends = outer.place + len(outer.value)
    return outer.place <= inner.place and inner.place + len(inner.value) <= ends


def _guesses(text: str) -> Iterator[Credential]:
    # Other letters can become two in lower case, which would move all places after them.
    lower = text.lower() if text.isascii() else text.translate(_LOWER)
    yield from _assigned(text, lower)
    yield from _in_addresses(text)
    yield from _in_connection_strings(text)


def masked(text: str, values: Iterable[str] | None = None) -> str:
    """Return ``text`` with its credentials shortened to their first characters, also truncated ones.

    ``values`` are the credentials to mask if ``text`` is a part of another text; otherwise its own.
    """
    for value in sorted(
        {credential.value for credential in credentials(text)} if values is None else set(values),
        key=lambda value: (-len(value), value),
    ):
        begins = value[:_RECOGNIZED]
        at = text.find(begins)
        while at >= 0:
            end = at + len(begins)
            while end - at < len(value) and text[end : end + 1] == value[end - at]:
                end += 1
            text = f"{text[: at + SHOWN]}...{text[end:].removeprefix('...')}"
            # Not from `at`: the shown characters can be equal to `begins`, and the loop would find them without an end.
            at = text.find(begins, at + SHOWN)
    return text


def blotted(text: str) -> str:
    """Return ``text`` with ``*`` in place of the credentials after their first characters; same length."""
    # The longest first: a short value in a long one would end its mask too early.
    for value in sorted(
        {credential.value for credential in credentials(text)}, key=len, reverse=True
    ):
        blot = value[:SHOWN] + _INK.sub("*", value[SHOWN:])
        text = text.replace(value, blot)
    return text


def _of_known_shape(text: str) -> Iterator[Credential]:
    # Every format is long and has no space, so that short words need not be searched.
    long = "\n".join([word for word in text.split() if len(word) >= token_formats.SHORTEST])
    for begins, kind, pattern in (
        token_formats.SHAPES if token_formats.BEGINNINGS.search(long) else ()
    ):
        if any(begin in text for begin in begins):
            for token in re.finditer(pattern, text):
                if _bits(token[0]) >= _KNOWN_BITS and not re.search(_PLACEHOLDER, token[0]):
                    yield Credential(token.start(), kind, token[0], certain=True)
    for token in token_formats.BASIC.finditer(text) if "asic" in text or "ASIC" in text else ():
        if _is_login(token["value"]):
            kind = "a user and a password of HTTP Basic"
            yield Credential(token.start("value"), kind, token["value"], certain=True)
    if "PRIVATE KEY" in text:
        for token in re.finditer(token_formats.PRIVATE_KEY, text):
            # In Base64, a run of A is zero bytes. Each key of OpenSSH has some, and would look like a placeholder.
            rest = re.sub("A{4,}", "", token["value"])
            if _bits(rest) >= _KNOWN_BITS and not re.search(_PLACEHOLDER, rest):
                yield Credential(token.start(), "a private key", token[0], certain=True)


def _is_login(encoded: str) -> bool:
    """Return whether a text is a user and a password in Base64, and no example of documents."""
    try:
        login = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode()
    except ValueError:
        return False
    user, has_password, password = login.partition(":")
    is_text = bool(has_password and password) and login.isprintable()
    return is_text and _is_password(password) and password.lower() not in {user, "open sesame"}


class _Decoded:
    """A text without escapes, and the places of its characters in the text as it is written."""

    def __init__(self, written: str) -> None:
        self._written = written
        self._ends: list[tuple[int, int]] = []
        shorter = 0

        def decode(escape: re.Match[str]) -> str:
            nonlocal shorter
            character = _character(escape)
            shorter += len(escape[0]) - len(character)
            self._ends.append((escape.end() - shorter, escape.end()))
            return character

        self.text = _ESCAPE.sub(decode, written)

    @property
    def has_escapes(self) -> bool:
        return bool(self._ends)

    def as_written(self, decoded: Credential) -> Credential:
        """Return a credential of the decoded text at its place, and with its value, in the written text."""
        start = self._place(decoded.place)
        end = self._place(decoded.place + len(decoded.value))
        return decoded._replace(place=start, value=self._written[start:end])

    def _place(self, at: int) -> int:
        last = bisect_right(self._ends, (at, sys.maxsize)) - 1
        if last < 0:
            return at
        decoded, written = self._ends[last]
        return written + at - decoded


def _character(escape: re.Match[str]) -> str:
    if escape["continued"]:
        return ""
    digits = escape["url"] or escape["u4"] or escape["x2"] or escape["u8"] or escape["braces"]
    number = int(digits, 16) if digits else int(escape["octal"] or "0", 8)
    return escape["sign"] or (
        chr(number) if number <= sys.maxunicode and not escape["letter"] else "\n"
    )


def _assigned(text: str, lower: str) -> Iterator[Credential]:
    """Yield the random values after names of secrets; ``lower`` is the text in lower case."""
    has_references = any(mark in text for mark in value_patterns.REFERENCE_MARKS)
    for word in value_patterns.KEY_WORDS:
        for at in _places(lower, word):
            ends = at + len(word)
            begins = value_patterns.KEY_BEGINS.search(text, max(0, at - 40), at)
            prefix = begins[0] if begins else ""
            patterns = (
                (*value_patterns.VALUES, *value_patterns.VALUES_OF_A_FLAG)
                if prefix.startswith("-")
                else value_patterns.VALUES
            )
            default = _default_value(text, ends, len(prefix)) if has_references else None
            value = default or _random_value(patterns, text, ends)
            if value is not None and (word != "key" or _opens_a_lock(text, prefix, at)):
                kind = _kind(text[at - len(prefix) : ends])
                yield Credential(value.start("value"), kind, value["value"], certain=False)


def _default_value(text: str, at: int, length: int) -> re.Match[str] | None:
    """Return the value in the reference that has, or follows, the name of a ``length`` that ends at a place.

    Shells, Compose, Jinja, Liquid, Go and others each have spellings of a default, such as ``${NAME:-value}``,
    ``{{ name | default('value') }}`` and ``{{ default "value" .name }}``, so every random literal in it counts.
    """
    begins = text.rfind("{", max(0, at - length - value_patterns.LONGEST_REFERENCE), at)
    if begins < 0 or text.find("}", begins, at) >= 0:
        follows = value_patterns.REFERENCE_AFTER_A_SIGN.match(text, at)
        if follows is None:
            return None
        begins = follows.end() - 1
    elif not text.endswith(("$", "{", "#", "%"), 0, begins) and not text.startswith("{%", begins):
        return None
    ends = (
        rest.end()
        if (rest := value_patterns.REST_OF_A_REFERENCE.match(text, begins + 1))
        else begins
    )
    # What follows the name first: before it, a colon is that of `env:NAME`.
    for start in {max(at, begins): None, begins: None}:
        for literal in value_patterns.VALUE_IN_A_REFERENCE.finditer(text, start, ends):
            if _is_value(literal["value"]):
                return literal
    return None


def _opens_a_lock(text: str, prefix: str, at: int) -> bool:
    """Return whether the name that ends with ``key`` at a place is not that of a key of a table.

    Flags, variables and parameters of URLs have values for a program, and a random one is no key of a table.
    """
    words = plain_name(text[max(0, at - value_patterns.WORDS_BEFORE) : at])
    is_parameter = text[max(0, at - len(prefix) - 1) : at - len(prefix)] in {"?", "&"}
    is_variable = re.fullmatch(r"[A-Z][A-Z0-9_]*_", prefix) is not None and text[at] == "K"
    is_given = prefix.startswith("-") or is_parameter or is_variable
    return is_given or re.search(value_patterns.KEY_OF_A_LOCK, words) is not None


def _random_value(patterns: Iterable[re.Pattern[str]], text: str, at: int) -> re.Match[str] | None:
    """Return the first match of the patterns at a place of a text whose value looks generated."""
    matches = (pattern.match(text, at) for pattern in patterns)
    return next((match for match in matches if match and _is_value(match["value"])), None)


def _kind(name: str) -> str:
    return f"the value of {name!r} looks like a credential"


def _in_addresses(text: str) -> Iterator[Credential]:
    # The sign first: most texts have none, and it costs much less than the patterns below.
    for at in _places(text, "://") if "@" in text else ():
        user = value_patterns.USER_ALONE.match(text, at + 3)
        # A user is a name; only a random one is a token.
        if user is not None and _is_random(user["value"]):
            yield Credential(at + 3, "a URL with a token as its user", user["value"], certain=False)
            continue
        login = value_patterns.USER_AND_PASSWORD.match(text, at + 3)
        password = (
            (login["value"], login.start("value")) if login else _default_password(text, at + 3)
        )
        is_user = login is not None and login["value"] == login["user"]
        if password is not None and not is_user and _is_password(password[0]):
            kind = "a URL with a password in it"
            yield Credential(password[1], kind, password[0], certain=False)


def _default_password(text: str, at: int) -> tuple[str, int] | None:
    """Return the value, and its place, that a reference has in place of the password of the URL at a place."""
    login = value_patterns.PASSWORD_WITH_REFERENCES.match(text, at)
    if login is None or re.fullmatch(
        value_patterns.REFERENCE_BY_NAME, login["password"], re.VERBOSE
    ):
        return None
    for literal in value_patterns.DEFAULT_PASSWORD.finditer(text, *login.span("password")):
        group = "value" if literal["value"] else "text"
        if group == "value" or not value_patterns.NAME_IN_QUOTES.fullmatch(literal["text"]):
            return literal[group], literal.start(group)
    return None


def _is_password(value: str) -> bool:
    """Return whether a text where a password belongs is more than an example, such as ``password`` or ``<yours>``."""
    is_plain = re.fullmatch(_PLAIN_PASSWORDS, value.lower()) is not None
    return not is_plain and not re.search(_PLACEHOLDER, value)


def _in_connection_strings(text: str) -> Iterator[Credential]:
    """Yield the passwords of texts such as ``Server=db;User Id=app;Password=...`` that are no references or examples."""
    for password in passwords(text):
        value = password.text
        own = value_patterns.REFERENCE_OF_A_TEMPLATE.sub("", value)
        if len(own.strip()) < _SHORTEST_PASSWORD or not _is_password(value):
            continue
        # A statement of a program has blanks around `=`, and semicolons too.
        is_statement = text[password.start - 1].isspace() and EXPRESSION.fullmatch(value)
        if is_token(value) or not (password.is_placeholder or is_statement):
            kind = "a connection string with a password in it"
            yield Credential(password.text_start, kind, value, certain=False)


def _places(text: str, word: str) -> Iterator[int]:
    """Yield the positions of a word; this is much faster than one pattern of all words."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def value_after_name(text: str, name: str) -> Credential | None:
    """Return the random value of a text whose ``name``, which is elsewhere, says that it is a credential.

    The text has nothing else than the value, its scheme and its user, so the value can have all signs.
    """
    blank = value_patterns.REFERENCE.sub(_blank, _without_operators(text))
    # In a sentence, only the first words can be the value that the name announces: the others describe something.
    words = [
        word.end() for word in islice(re.finditer(r"\S+", blank), value_patterns.MOST_WORDS + 1)
    ]
    ends = (
        words[value_patterns.WORDS_AT_START - 1]
        if len(words) > value_patterns.MOST_WORDS
        else len(blank)
    )
    for word in value_patterns.WORD_OF_VALUE.finditer(blank, 0, ends):
        if value_patterns.NO_VALUE.match(word[0]):
            continue
        value = word[0].rstrip(",;")
        user = re.match(rf"{value_patterns.USER_OF_VALUE}|{value_patterns.FLAG_OF_VALUE}", value)
        starts = (user.end(), 0) if user else (0,)
        for start in starts:
            if _is_value(value[start:]):
                return Credential(word.start() + start, _kind(name), value[start:], certain=False)
    return None


def _blank(reference: re.Match[str]) -> str:
    return " " * len(reference[0])


def references_with_a_value(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield the starts of references such as ``${NAME:-value}``, and the places of their ``}``, inner ones first.

    Such a value can have a reference with another one, at any depth.
    """
    opened: list[re.Match[str]] = []
    for part in value_patterns.PART_OF_A_REFERENCE.finditer(text) if "${" in text else ():
        if part[0] != "}":
            opened.append(part)
        elif opened and (start := opened.pop())["operator"]:
            yield start, part.start()


def _without_operators(text: str) -> str:
    """Return a text with spaces in place of ``${NAME:-`` and its ``}``, so that only the value in it is left."""
    blanks = [
        span
        for start, ends in references_with_a_value(text)
        for span in (start.span(), (ends, ends + 1))
    ]
    pieces, copied_to = [], 0
    for start, end in sorted(blanks):
        pieces += [text[copied_to:start], " " * (end - start)]
        copied_to = end
    return "".join([*pieces, text[copied_to:]])


def has_random_value(text: str) -> bool:
    """Return whether a text has a word that looks generated, apart from digests."""
    text = _Decoded(text).text
    return any(
        _is_random(word[0])
        for pattern in (_RANDOM_WORD, _RANDOM_TEXT)
        for word in pattern.finditer(text)
    )


def is_token(value: str) -> bool:
    """Return whether a value alone, as the user of a URL, looks like a token."""
    return len(value) >= _SHORTEST_VALUE and _is_random(value)


def _is_value(value: str) -> bool:
    """Return whether a text after a name is long and random enough for a credential."""
    return (
        len(value) >= _SHORTEST_VALUE
        and not value_patterns.NO_VALUE.match(value)
        and _is_random(value)
    )


def _is_random(value: str) -> bool:
    """Return whether a value looks generated, and not like words, versions or paths."""
    is_hex = _LONG_HEX.fullmatch(value) is not None
    # First, because most words have no digit; "utf8" and "sha256sum" have two switches.
    if not is_hex and len(_SWITCH.findall(value)) < 3:  # noqa: PLR2004
        return False
    if re.search(_PLACEHOLDER, value):
        return False
    if is_hex:  # 16 letters have at most 4 bits, and a random value may have 3
        return _bits(value) >= _KNOWN_BITS
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", value) if part]
    return _bits(value) >= _RANDOM_BITS and not all(_WORDS.fullmatch(part) for part in parts)


def _bits(value: str) -> float:
    """Return the Shannon entropy of a text in bits per character."""
    length = len(value)
    return -sum(n / length * math.log2(n / length) for n in Counter(value).values())
