"""Which resources and templates of a server a URI is of, and whether it is one of a skill.

Only the server knows what a URI means, and a URI has many spellings.  So the rule is the other way round: only a URI of
the one form that all parsers read alike (:func:`_canonical`) is compared with the offers; all offers decide about any
other URI, and an offer of another form decides about each URI.
"""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from covalt_git.models.sources.skill_entry import SCHEME
from covalt_git.text import display
from covalt_git.text.normal_form import normalized

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.toolsets.offers import ServerOffer

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_OPERATORS = tuple("+#./;?&")
"""Operators of RFC 6570, whose values can contain a ``/``."""

_QUERY = re.compile(r"[?#]")
_TEMPLATE_QUERY = re.compile(r"[?#]|\{[?&#]")
"""Where a query or a fragment begins: in a URI, and in a template."""

_MOST_URI = 2000

_NOT_IN_A_URI = re.compile(r"""[\x00-\x20\x7f\\<>"|^`{}]""")
"""Characters that RFC 3986 does not permit; in a template, expressions have braces."""

_NEVER_IN_A_VALUE = re.compile(r"[\x00-\x1f\x7f\\]")
"""What parsers drop, or take for a ``/``, even if it is escaped."""

# Letters and digits of ASCII, and few other characters.  What parsers, file systems or servers leave out, add or read as
# something else is missing here: a user, another case of the host, a port, an empty segment, which is also one slash more
# or less, and a path without a host.  In a segment, Python takes what follows `;` for parameters; many take `+` for a blank;
# Windows drops a dot or a blank at the end, takes what follows `:` for a stream, and has short names with `~`.  Other
# letters have several codes, some of them none that is visible, and each file system compares them in its own way.
_FORM = re.compile(
    r"(?:file://|[a-z][a-z0-9+.-]*://(?P<host>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*))"
    r"(?:/(?!%20)(?:[A-Za-z0-9._@=,-]|%20)*[A-Za-z0-9_@=,-](?<!%20))*"
)
_ESCAPED_ESCAPE = re.compile(r"%(?:25)+")
_MOST_ESCAPES = 3
"""Times that a URI is decoded, also if an escape is escaped, before its scheme is compared."""

_NOT_IN_A_SCHEME = re.compile(r"[^a-z0-9+.:/-]")
"""What a parser may drop before it compares a scheme: blanks, quotes, and characters that are not visible."""

_QUOTES = frozenset('<>"|^`')
"""What a parser may drop from a segment of a path, as it may characters that are not visible."""

_SEPARATOR = re.compile(r"[/?#]")
"""What separates segments for some parser, also for one that takes a query for a part of the path."""

_AFTER_A_NAME = re.compile("[;:]")
"""Where a port, parameters or a stream begin in a segment."""

_ONE_CHARACTER = str.maketrans({"+": " ", "\u3002": "."})
"""Characters that some parsers read as another: a blank of a form, and the full stop of a host in Chinese text."""

_READ_IN_SEVERAL_WAYS = re.compile(r"\\|\ufffd|%(?:u|[0-9a-f]{2})|~[0-9]")
"""Backslashes, codes that are not UTF-8, escapes that only some decode, and short names of Windows, after all decoding."""

_LOCALHOST, _LOOPBACK = "localhost", "127.0.0.1"

_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_ADDRESS = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})(?:\.(?!\Z)|\Z)){4}")


def is_skill_uri(uri: str, skills: Iterable[str] = ()) -> bool:
    """Return whether a URI or a template is one of a skill, in any spelling.

    Such URIs have the scheme of skills, or are in the folder of a skill whose ``SKILL.md`` has one of the URIs ``skills``.
    They are read only as files of accepted skills, with their digests.  To accept a resource or a template accepts
    no content, and a link is not accepted at all, so these do not suffice for a text that a model follows.

    A server can have skills and other resources of one scheme, so such a URI is compared by its segments
    (:func:`_segments`): only those below the folder are of the skill, and those that parsers may read as below it.
    A template is of the skill if the text before its first value is; the URIs of the others are asked about one by one.
    """
    scheme = _scheme_text(uri)
    if scheme.startswith(f"{SCHEME}:"):
        return True
    folders = [
        _segments(skill.rpartition("/")[0])
        for skill in skills
        if not skill.startswith(f"{SCHEME}:") and _has_scheme_of(scheme, skill)
    ]
    if not folders:
        return False
    if len(uri) > _MOST_URI:
        return True
    written = {_segments(text) for text in (uri, uri.partition("{")[0])}
    return None in written or any(
        folder is None or segments[: len(folder)] == folder
        for segments in written
        if segments is not None
        for folder in folders
    )


def _has_scheme_of(scheme: str, skill: str) -> bool:
    own = skill.partition(":")[0]
    # Many servers answer both with the same content.
    return scheme.startswith(("http:", "https:") if own in {"http", "https"} else f"{own}:")


@lru_cache(maxsize=4096)
def _segments(uri: str) -> tuple[str, ...] | None:
    """Return the host and the segments of a URI's path as the most lenient parser reads them, to compare them.

    Escapes are decoded, also escaped ones, case is ignored, and so is what parsers leave out: users, ports, parameters,
    streams of Windows, dots and blanks at the ends, empty segments, and characters that are not visible.

    None of a URI that may be any other.  This is also one with ``..`` in any spelling: parsers remove it, and the segment
    before it, some of them before they decode and some after, with or without empty segments and queries.
    """
    text = _decoded(uri).translate(_ONE_CHARACTER)
    if _READ_IN_SEVERAL_WAYS.search(text):
        return None
    scheme, _, rest = text.partition(":")
    segments: list[str] = []
    for part in _SEPARATOR.split(rest):
        name = "".join(c for c in part if c not in _QUOTES and display.is_shown(c))
        if not segments:
            name = name.rpartition("@")[2]
        name = _AFTER_A_NAME.split(name, maxsplit=1)[0].strip()
        if ".." in "".join(name.split()) and not name.strip(". "):
            return None
        if name := name.rstrip(". "):
            segments.append(name)
    if not segments:
        return ()
    host, *path = segments
    if host.startswith("["):
        return None  # an address of IPv6, which may be one of IPv4
    with suppress(OSError):
        host = socket.inet_ntoa(socket.inet_aton(host))  # of 127.1 and 0x7f000001 the usual form
    if host == _LOCALHOST:
        host = _LOOPBACK
    if _NOT_IN_A_SCHEME.sub("", scheme) == "file" and host == _LOOPBACK:
        return tuple(path)
    return (host, *path)


def _scheme_text(uri: str) -> str:
    """Return the text whose beginning is compared with a scheme: without escapes, and what parsers may drop."""
    return _NOT_IN_A_SCHEME.sub("", _decoded(uri))


def _decoded(uri: str) -> str:
    text = uri
    for _ in range(_MOST_ESCAPES):
        text = unquote(_ESCAPED_ESCAPE.sub("%", text))
    # Java takes `url:` before a scheme for nothing.
    return normalized("NFKC", text).casefold().removeprefix("url:")


def deciding_offers(offers: Iterable[ServerOffer], uri: str) -> list[ServerOffer]:
    """Return the offers that decide together whether a URI may be read: all of them must be allowed.

    A resource with exactly this URI decides alone.  If a parser may read another URI than is written, all offers decide.
    URIs of skills are read otherwise (:func:`is_skill_uri`).
    """
    readable = [offer for offer in offers if offer.locked.kind in {"resource", "template"}]
    exact = [offer for offer in readable if offer.locked.kind == "resource" and is_of(offer, uri)]
    if exact:
        return exact
    text = _canonical(uri)
    return [offer for offer in readable if text is None or _may_be_of(offer, text)]


def is_of(offer: ServerOffer, uri: str) -> bool:
    """Return whether a URI, as it is written, is that of a resource or of a template."""
    if offer.locked.kind == "resource":
        return offer.locked.upstream == uri
    return (
        len(uri) <= _MOST_URI
        and not _NOT_IN_A_URI.search(uri)
        and not _NEVER_IN_A_VALUE.search(unquote(uri))
        and _is_of_template(offer.locked.upstream, uri)
    )


def _may_be_of(offer: ServerOffer, text: str) -> bool:
    """Return whether a server may take a URI, of which this is the text to compare, for one of an offer.

    A server can leave parts of a query out or read them in another order, so only what is before it counts.
    """
    is_template = offer.locked.kind == "template"
    own = _canonical(offer.locked.upstream, is_template=is_template)
    if own is None:
        return True
    base = _QUERY.split(text, maxsplit=1)[0]
    if not is_template:
        return base == _QUERY.split(own, maxsplit=1)[0]
    return any(
        _is_of_template(template, compared)
        for template in (own, _TEMPLATE_QUERY.split(own, maxsplit=1)[0])
        for compared in (text, base)
    )


def _canonical(uri: str, *, is_template: bool = False) -> str | None:
    """Return the text to compare of a URI or a template that all parsers read alike; None of any other.

    The text is decoded and without differences of case, because file systems ignore them.
    """
    if is_template:
        # Values of a template are no part of its own form.  In a client's URI, an expression is only text, and could hide
        # `/../` from the comparison.
        base = _EXPRESSION.sub("x", _TEMPLATE_QUERY.split(uri, maxsplit=1)[0])
        written = _EXPRESSION.sub("x", uri)
    else:
        base, written = _QUERY.split(uri, maxsplit=1)[0], uri
    form = _FORM.fullmatch(base)
    if form is None or len(uri) > _MOST_URI or _NOT_IN_A_URI.search(written):
        return None
    host = form["host"] or ""
    # A file of another machine, or of `localhost`, which parsers leave out.
    if base.startswith("file:") and host:
        return None
    if _NUMBER.fullmatch(host) and not _ADDRESS.fullmatch(host):
        return None  # such as 127.1 and 0x7f000001
    return unquote(uri).casefold()


def _is_of_template(template: str, uri: str) -> bool:
    """Return whether a URI is the template with some values.

    The server decides about the values; only the texts between them are those of the template.  The places that a part
    can reach are collected, because a regular expression would try each combination of values.
    """
    places = {0}
    for position, part in enumerate(_EXPRESSION.split(template)):
        if position % 2 == 0:
            places = {at + len(part) for at in places if uri.startswith(part, at)}
        elif part[:1] in _OPERATORS and part:
            places = set(range(min(places), len(uri) + 1)) if places else set()
        else:
            places = {end for at in _firsts(places, uri) for end in _without_slash(at, uri)}
        if not places:
            return False
    return len(uri) in places


def _firsts(places: set[int], uri: str) -> dict[int, int]:
    """Return the first of the places in each segment of a URI, from which all later ones are reached."""
    firsts: dict[int, int] = {}
    for at in sorted(places):
        end = uri.find("/", at)
        firsts.setdefault(len(uri) if end < 0 else end, at)
    return {at: end for end, at in firsts.items()}


def _without_slash(at: int, uri: str) -> range:
    end = uri.find("/", at)
    return range(at, (len(uri) if end < 0 else end) + 1)
