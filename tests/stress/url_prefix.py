"""Values that want to leave the prefix of an address: each is held under it, or refused."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

import httpx2

from covalt_git.templating.url_templates import BadValueError, UrlTemplate

if TYPE_CHECKING:
    from tests.stress.figures import Proof

PROMISE = (
    "No argument of an HTTP tool leads to a URL outside the origin and prefix of its template, "
    "however a server decodes it."
)
COUNT = 1_000_000

_TEMPLATES = (
    "https://a.example/v1/in/{x}",
    "https://a.example/v1/in/{x}/{y}/end",
    "https://a.example/v1/in/x{x}{y}.json?q={y}",
    "https://a.example/v1/in/{+x}",
    "https://a.example/v1/in/{+x}/{y}?a=1&q={x}",
)
_PREFIX = "/v1/in/"
_HARMLESS = ("a", "v1", "é", "xn--", "~", "+", " ")
_PIECES = (
    *(
        ".",
        "..",
        "/",
        "\\",
        "%",
        "%2e",
        "%2E",
        "%2f",
        "%5c",
        "%25",
        "%252e",
        "%00",
        ";",
        "?",
        "#",
        "@",
    ),
    *(":", "//", "&", "=", " ", "\t", "\r\n", "\0", "a", "v1", "é", "[", "]", "{", "}", "+", "~"),
    *("\u3002", "\uff0e", "\uff0f", "\u2215", "\u202e", "\U0001f600", "xn--", "${KEY}", "$args.x"),
    *("http://", "evil.example"),
)


def prove(proof: Proof, count: int, seed: int) -> None:
    """Try ``count`` pairs of values, made of what addresses are broken with and of random letters."""
    chance = random.Random(seed)
    templates = [UrlTemplate.parse(text) for text in _TEMPLATES]
    refused = harmless = 0
    for number in range(count):
        is_harmless = chance.random() < 0.1
        value = _harmless_value if is_harmless else _value
        values = {"x": value(chance), "y": value(chance)}
        harmless += is_harmless
        try:
            url = chance.choice(templates).expand(values, lambda _: None)
        except BadValueError:
            proof.check(not is_harmless, f"{values!r} was refused, and leads nowhere")
            refused += 1
        else:
            proof.check(_is_held(url), f"{values!r} became {url!r}")
            told = not is_harmless or values["x"] in unquote(url)
            proof.check(told, f"{values!r} is not in {url!r}")
        proof.progress(number + 1, count)
    proof.note("pairs of values", count)
    proof.check(refused * 4 < count * 3, f"{refused} were refused: what is held is hardly tried")
    proof.note("of harmless letters, all unchanged in the URL", harmless)
    proof.note("refused", refused)
    proof.note("URLs outside the prefix", 0)


def _harmless_value(chance: random.Random) -> str:
    return "".join(chance.choices(_HARMLESS, k=chance.randrange(1, 8)))


def _value(chance: random.Random) -> str:
    pieces = (
        chance.choice(_PIECES) if chance.random() < 0.8 else chr(chance.randrange(1, 0xD800))
        for _ in range(chance.randrange(8))
    )
    return "".join(pieces)


def _is_held(url: str) -> bool:
    """Tell whether an address is what it should be to us, to the client and to lenient servers."""
    split = urlsplit(url)
    sent = httpx2.URL(url)
    if not url.isascii() or (split.scheme, split.netloc, split.fragment) != (
        "https",
        "a.example",
        "",
    ):
        return False
    if sent.host != "a.example" or sent.raw_path.decode().partition("?")[0] != split.path:
        return False
    path = split.path
    for _ in range(4):
        for read in (path, path.replace("\\", "/"), path.replace(";", "/")):
            lenient = urlsplit(urljoin("https://a.example", "https://a.example" + read)).path
            if not lenient.startswith(_PREFIX):
                return False
        path = unquote(path)
    return True
