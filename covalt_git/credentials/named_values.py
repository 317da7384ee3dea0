"""The names of the texts in a document, and the names that say that a text is a credential.

A format writes the name of a value in many places: as its key (``api_key: ...``), beside it (``{name: X-Api-Key,
value: ...}``), around it (``properties: {api_key: {default: ...}}``), before it (``[--api-key, ...]``), or as a
mark (``{password: true, default: ...}``).  Conversion, checks and bundles all take the names from here, so that none
of them knows a place that another one does not know.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.credentials.connection_names import CONNECTIONS, connection_name
from covalt_git.credentials.leaks import value_after_name
from covalt_git.credentials.plain_names import VARIABLE_OF_JOINED_WORDS, plain_name
from covalt_git.credentials.value_patterns import LOCKS, WORD_OF_VALUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.credentials.leaks import Credential

_ANNOUNCING = (
    r"authorization|token(?!i[sz])|secret|pass_?w(?:o?r)?d|passphrase|passcode|api_?key"
    rf"|(?:{LOCKS})_?key|credential|bearer|jwt|connection_?string"
    r"|session_?id|(?:^|_)(?:pass|pwd|pw|pat|auth|dsn|creds)(?:$|_)|(?:db|ssh|pg|mysql|redis|root|admin|user)_?(?:pass|pwd|pw)(?:$|_)"
)
_ANNOUNCES = re.compile(_ANNOUNCING, re.IGNORECASE)
_SECRET_NAME = re.compile(
    rf"{_ANNOUNCING}|cookie|signature|(?:^|_)(?:keys?|sig)(?:$|_)|(?-i:(?:^|(?<!DESKTOP)_)SESSION$)"
    rf"|(?-i:{VARIABLE_OF_JOINED_WORDS})",
    re.IGNORECASE,
)
"""In a connection also names that mean something else elsewhere, such as the key of a table.

``SESSION`` is a credential as a variable; the flag ``--session`` mostly has the name of one.
"""

_ALWAYS_SECRET = re.compile(
    r"(?:^|_|(?<=[a-z]))(?:pass_?word|passwd|passphrase|client_?secret|api_?key|(?:access|auth|authorization|bearer)_?token"
    r"|(?:secret|private)_?key)$",
    re.IGNORECASE,
)
_NOT_SECRET = re.compile(
    r"(?:url|uri|file|path|type|end_?point|env_?var|name|header)$", re.IGNORECASE
)
_KEY_OF_A_TABLE = re.compile(
    r"(?:primary|foreign|partition|sort|group|row|column|cache|index|lookup|object)_?key$",
    re.IGNORECASE,
)
"""These names and those above say that a value is something else, if it has the form of that."""

_KEYS = re.compile(r"(?:^|_)keys$", re.IGNORECASE)
"""Keys of a service, or those of a mapping, which are words."""

_NAMES_A_SECRET: Final = re.compile("client_secret_key")
_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
"""The key and the values of a name in the store of secrets of Goose."""

_PATH = re.compile(r"(?:[A-Za-z]:)?[\\/]|~|\.{1,2}/|[\w+.-]{1,30}://|[\w./\\-]*\.[A-Za-z]{2,5}\Z")
_NAME = re.compile(r"[A-Za-z]{2,}[_.-]")
"""The start of a name of something, such as ``db-password-a1b2``; a random value seldom has it."""

_WORD = re.compile(r"[A-Za-z_]{1,24}")
SCHEMES: Final = r"(?:bearer|basic|token|api-?key|key|bot|ssws|geniekey|splunk)\s+"
_VALUE_OF_A_HEADER = re.compile(rf"{SCHEMES}(?!(?:auth\w*|tokens?|\$\S*)\Z)\S+", re.IGNORECASE)
_PUBLIC = re.compile(r"(?:public|publishable)_?key$", re.IGNORECASE)
_WEBHOOK = re.compile(r"web_?hook(?:_?ur[li])?$", re.IGNORECASE)
"""Names of addresses of webhooks, which are credentials: the address alone permits sending."""

_VALUE_KEYS: Final = frozenset(
    {
        *("value", "values", "default", "defaults", "const", "enum", "example", "examples", "v"),
        *("defaultvalue", "default_value", "initial", "initialvalue", "initial_value", "current"),
    }
)
"""Keys, in lower case, that do not name their value: another key of the object does, or the object's own key."""

_NAMING_KEYS: Final = frozenset(
    {
        *("name", "key", "id", "header", "variable", "env", "field", "param", "parameter", "k"),
        *("property", "label", "title", "type", "format", "flag"),
    }
)
"""Keys, in lower case, whose text can be the name of a value beside it."""

_MARKS: Final = frozenset(
    {"password", "secret", "issecret", "is_secret", "sensitive", "issensitive", "is_sensitive"}
    | {"writeonly", "x-secret", "x-sensitive"}
)
"""Keys, in lower case, that mark the values beside them as secret if they are true."""

_FLAG: Final = re.compile(r"--?[\w.:-]+")
_MAX_INNER: Final = 1 << 20
_ESCAPED: Final = re.compile(r"\s*[\[{][\[{\s]*\\+\"")
"""A document whose quotes are escaped for a shell, without quotes around it."""


_Loc = tuple[str | int, ...]


class NamedText(NamedTuple):
    """A text of a document, the keys and indexes that lead to it, and its possible names, the nearest first.

    A text that is a JSON document itself is followed by the texts in it, at the same place, with ``is_inner``.
    """

    loc: tuple[str | int, ...]
    text: str
    names: tuple[str, ...]
    is_inner: bool = False

    @property
    def is_in_connection(self) -> bool:
        """Whether the text belongs to the headers, variables or arguments of a connection."""
        keys = (connection_name(key) for key in self.loc if isinstance(key, str))
        return any(key in CONNECTIONS or key == "args" for key in keys)

    @property
    def is_in_cookies(self) -> bool:
        """Whether the text belongs to a mapping of cookies, whose names are those that a service invented."""
        return any(isinstance(key, str) and connection_name(key) == "cookies" for key in self.loc)


def named_texts(document: object) -> Iterator[NamedText]:
    """Yield the texts of a document with their names."""
    # Not recursive: documents in texts of documents can be deeper than Python's stack.
    # ``outer`` is the place of the text that contains the value.
    waiting: list[tuple[_Loc, _Loc | None, Any, tuple[str, ...]]] = [((), None, document, ())]
    while waiting:
        loc, outer, value, names = waiting.pop()
        if isinstance(value, dict):
            around = (*_sibling_names(value), *names)
            waiting += [
                (
                    (*loc, key),
                    outer,
                    inner,
                    (*around, key) if key.lower() in _VALUE_KEYS else _names_of(key, inner),
                )
                for key, inner in reversed(value.items())
            ]
        elif isinstance(value, list):
            is_pair = len(value) == 2 and bool(loc) and isinstance(loc[-1], int)  # noqa: PLR2004
            waiting += [
                (
                    (*loc, at),
                    outer,
                    value[at],
                    (*_preceding_name(value, at, is_pair=is_pair), *names),
                )
                for at in reversed(range(len(value)))
            ]
        elif isinstance(value, str):
            yield NamedText(loc if outer is None else outer, value, names, outer is not None)
            inner = _inner_document(value)
            if inner is not None:
                waiting.append((loc, loc if outer is None else outer, inner, names))


def announced_credentials(document: object) -> Iterator[tuple[NamedText, Credential]]:
    """Yield the random values whose names say that they are credentials, each with the text that contains it."""
    for named in named_texts(document):
        credential = announced(named)
        if credential is not None:
            yield named, credential


def announced(named: NamedText) -> Credential | None:
    """Return the random value of a text if one of its names says that it is a credential."""
    if not WORD_OF_VALUE.search(named.text):
        return None  # before the names, as a large lock has 100,000 of them
    name = next((name for name in named.names if announces(name, named.text)), None)
    if name is None:
        secret = (name for name in named.names if _announces_in_connection(name, named.text))
        name = next(secret, "cookie" if named.is_in_cookies else None)
        # Outside of a connection, such a name has other meanings: `key` of a table, `token` of a text.
        if name is None or not named.is_in_connection:
            return None
    return value_after_name(named.text, name)


def announces(name: str, value: str = "") -> bool:
    """Return whether a name says that a random value is a credential, wherever a document has it."""
    return may_announce(name) and not _means_something_else(_plain(name), value)


def may_announce(name: str) -> bool:
    """Return whether a name says that some values are credentials: of ``passwordFile``, those that are no path."""
    return _is_announcing(_plain(name))


def is_secret(name: str, value: str = "") -> bool:
    """Return whether the name of a value of a connection (a header, a variable, a flag) says that it is a credential."""
    plain = _plain(name)
    if _WEBHOOK.search(plain):
        return True
    return _is_secret_name(plain) and not _means_something_else(plain, value)


def _announces_in_connection(name: str, value: str) -> bool:
    """Return whether a name in a connection says that a random value is a credential, as a public key is not."""
    return is_secret(name, value) and not _PUBLIC.search(_plain(name))


_plain = lru_cache(maxsize=4096)(plain_name)


@lru_cache(maxsize=4096)
def _is_announcing(plain: str) -> bool:
    return _ANNOUNCES.search(plain) is not None


@lru_cache(maxsize=4096)
def _is_secret_name(plain: str) -> bool:
    return _SECRET_NAME.search(plain) is not None


def _means_something_else(plain: str, value: str) -> bool:
    """Return whether a name that announces something else, such as the file of a password, has such a value."""
    if _KEY_OF_A_TABLE.search(plain):
        return not value or _WORD.fullmatch(value) is not None
    if _KEYS.search(plain):
        return value_after_name(value, plain) is None
    if not _NOT_SECRET.search(plain):
        return False
    text = value.strip()
    if plain.lower().endswith("header") and _VALUE_OF_A_HEADER.fullmatch(text):
        return False
    # By the value: `passwordFile: hunter2secret99` has a password in it.
    is_other = _PATH.match(text) or _NAME.match(text)
    return is_other is not None or value_after_name(text, plain) is None


@lru_cache(maxsize=4096)
def is_always_secret(name: str) -> bool:
    """Return whether a name says that its value is a credential in each object, whatever the value looks like."""
    return _ALWAYS_SECRET.search(plain_name(name)) is not None


def first_secret(names: Iterable[str], value: str, *, in_connection: bool) -> str:
    """Return the first of a value's names that says that it is a credential; empty without one."""
    for name in names:
        if _NAMES_A_SECRET.fullmatch(name) and _VARIABLE.fullmatch(value):
            continue
        if is_always_secret(name) or (in_connection and is_secret(name, value)):
            return name
    return ""


def _names_of(key: str, value: Any) -> tuple[str, ...]:
    """Return the name of a value by its key: of a JSON pointer its last part.

    Toolsets have what other formats lack below pointers (formats/carried.py); a list there has names of keys.
    """
    if not key.startswith("/"):
        return (key,)
    return () if isinstance(value, list) else (key.rpartition("/")[2],)


def _sibling_names(value: dict[str, Any]) -> list[str]:
    names = [
        text for key, text in value.items() if key.lower() in _NAMING_KEYS and isinstance(text, str)
    ]
    is_marked = any(mark is True and key.lower() in _MARKS for key, mark in value.items())
    return [*names, "password"] if is_marked else names


def _preceding_name(values: list[Any], at: int, *, is_pair: bool) -> tuple[str, ...]:
    """Return the item before another one if it names it: a flag, or the first item of a pair in a list of pairs."""
    ends_flags = at > 1 and values[at - 1] == "--"
    preceding = values[at - 2 if ends_flags else at - 1] if at else None
    if not isinstance(preceding, str):
        return ()
    is_value = isinstance(values[at], str) and not values[at].startswith("-")
    return (preceding,) if is_pair or (is_value and _FLAG.fullmatch(preceding)) else ()


def _inner_document(text: str) -> Any:
    """Return the document that a text is, or the text that it is as a JSON string; None for other texts.

    Each decoding makes the text shorter, so this ends.
    """
    # Parsing all documents in documents takes time for each level, which the author of the text chooses.
    if len(text) > _MAX_INNER:
        return None
    # As the text of a string of JSON, so that one decoding ends the escapes of the shell.
    source = f'"{text}"' if _ESCAPED.match(text) else text
    if not source.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return json.loads(source)
    # A document of others can be deeper than the stack.
    except (ValueError, RecursionError):
        return None
