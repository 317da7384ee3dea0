"""Which resources and templates of a server a URI is of.

Only the server knows what a URI means, and a URI has many spellings.  So a template opens no resource, and no URI of
another template, by another spelling: of a path, of letters, or with a query.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from covalt_git.paths import normal_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.toolsets.offers import ServerOffer

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_OPERATORS = tuple("+#./;?&")
"""Operators of RFC 6570, whose values can contain a ``/``."""

_MOST_URI = 2000
_MOST_ESCAPES = 5
"""Most times that a URI is decoded; one that is then not decoded completely matches no template."""


_NOT_IN_A_URI = re.compile(r"""[\x00-\x20\x7f\\<>"|^`]""")
"""Characters that RFC 3986 does not permit, but for braces, which a template has."""

_NORMALISED = re.compile(r"[\x00-\x1f\x7f\\]")
_OTHER_AUTHORITY = re.compile(
    r"(?i)[a-z][a-z0-9+.-]*://(?:[^/?#]*@|(?<=file://)localhost(?=[:/?#]|\Z)|[^/?#]*:(?:80|443)?(?=[/?#]|\Z))"
)
"""A user, a default port, or the name of the own machine, all of which a parser may leave out."""


def deciding_offers(offers: Iterable[ServerOffer], uri: str) -> list[ServerOffer]:
    """Return the offers that decide together whether a URI may be read: all of them must be allowed.

    A resource with exactly this URI decides alone.  If a parser may read another URI than is written, all offers decide.
    """
    known = [offer for offer in offers if offer.locked.kind != "prompt"]
    exact = [offer for offer in known if offer.locked.kind == "resource" and is_of(offer, uri)]
    if exact:
        return exact
    spellings = _spellings(uri)
    return [offer for offer in known if not spellings or _may_be_of(offer, uri, spellings)]


def is_of(offer: ServerOffer, uri: str) -> bool:
    """Return whether a URI, as it is written, is that of a resource or of a template."""
    if offer.locked.kind == "resource":
        return offer.locked.upstream == uri
    return (
        len(uri) <= _MOST_URI
        and _spellings(uri) != frozenset()
        and _is_of_template(offer.locked.upstream, uri)
    )


def _may_be_of(offer: ServerOffer, uri: str, spellings: frozenset[str]) -> bool:
    """Return whether a server may take a URI for one of an offer."""
    upstream = offer.locked.upstream
    if offer.locked.kind == "resource":
        own = _spellings(upstream, with_query=True)
        return not own or not spellings.isdisjoint(own)
    templates = (upstream, upstream.casefold(), unquote(upstream).casefold())
    return len(uri) <= _MOST_URI and any(
        _is_of_template(template, text) for template in templates for text in (uri, *spellings)
    )


def _spellings(uri: str, *, with_query: bool = False) -> frozenset[str]:
    """Return what a server may read instead of a URI; nothing if that cannot be said, as of one with a backslash.

    By default, these are the texts with and without the query and the fragment.
    """
    # A server's parser may leave these out, or read them as others: it would open another resource than the one that
    # was decided about (test_no_template_opens_a_resource_that_a_role_is_denied).
    if _NOT_IN_A_URI.search(uri) or _OTHER_AUTHORITY.match(uri):
        return frozenset()
    for _ in range(_MOST_ESCAPES):
        decoded = unquote(uri)
        if decoded == uri:
            break
        uri = decoded
    else:
        return frozenset()
    if _NORMALISED.search(uri) or uri != uri.strip():
        return frozenset()
    texts = {uri}
    if not with_query:
        texts |= {uri.partition("#")[0], re.split("[?#]", uri, maxsplit=1)[0]}
    return frozenset(
        spelling.casefold() for text in texts for spelling in (text, _without_dots(text))
    )


def _without_dots(uri: str) -> str:
    scheme, colon, rest = uri.partition(":")
    path, mark, query = rest.partition("?")
    begin = "//" * path.startswith("//")
    return f"{scheme}{colon}{begin}{normal_path(path.removeprefix(begin).strip('/'))}{mark}{query}"


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
