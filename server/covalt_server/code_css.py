"""Makes ``static/code.css``, the colours of code: ``python -m covalt_server.code_css``.

They are those of two Pygments styles, by the reader's colour scheme.  Each is moved towards the ink
until it can be read on the paper that ``static/style.css`` gives code, so this runs again when that
paper, the ink or Pygments changes; a test says so.
"""

from __future__ import annotations

import re
from pathlib import Path

from pygments.styles import get_style_by_name
from pygments.token import STANDARD_TYPES, Error, Token, Whitespace

STYLES = {"light": "default", "dark": "github-dark"}
STATIC = Path(__file__).with_name("static")
READABLE = 5.0
"""WCAG's AA asks for 4.5; the rest is for lines that are tinted, like the one that is edited."""

_STEPS = 20
_LINEAR_BELOW = 0.04045

# A lexer's mistake is not the author's; and a space has no colour.
_LEFT_OUT = {Token, Error, Whitespace}

_HEADER = """\
/* Written by `python -m covalt_server.code_css`: the Pygments styles {light} and {dark}. */
"""


def style_sheet() -> str:
    """Return the whole file, from the colours that ``style.css`` has now."""
    blocks = (
        f"\n@media (prefers-color-scheme: {scheme}) {{\n{_rules(style, *_ground(scheme))}}}\n"
        for scheme, style in STYLES.items()
    )
    return _HEADER.format(**STYLES) + "".join(blocks)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, written ``#rrggbb``, as WCAG defines it."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _rules(style: str, paper: str, ink: str) -> str:
    selectors: dict[str, list[str]] = {}
    for token, look in get_style_by_name(style):
        name = STANDARD_TYPES.get(token)
        if not name or token in _LEFT_OUT:
            continue
        body = [f"color: {_readable('#' + look['color'], paper, ink)}"] if look["color"] else []
        body += ["font-weight: bold"] if look["bold"] else []
        body += ["font-style: italic"] if look["italic"] else []
        body += ["text-decoration: underline"] if look["underline"] else []
        if body:
            selectors.setdefault("; ".join(body), []).append(f".{name}")
    return "".join(
        f"  .code :is({', '.join(names)}) {{ {body} }}\n" for body, names in selectors.items()
    )


def _ground(scheme: str) -> tuple[str, str]:
    """Return the paper and the ink of one colour scheme, from the one place that names colours."""
    sheet = (STATIC / "style.css").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)
    named = dict(re.findall(r"(--[a-z-]+): (#[0-9a-f]{6});", dark if scheme == "dark" else light))
    return named["--code-paper"], named["--ink"]


def _readable(colour: str, paper: str, ink: str) -> str:
    mixed = (_mix(colour, ink, step / _STEPS) for step in range(_STEPS + 1))
    return next(one for one in mixed if contrast(one, paper) >= READABLE)


def _mix(one: str, other: str, share: float) -> str:
    pairs = zip(_channels(one), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _luminance(colour: str) -> float:
    red, green, blue = (
        value / 12.92 if value <= _LINEAR_BELOW else ((value + 0.055) / 1.055) ** 2.4
        for value in (channel / 255 for channel in _channels(colour))
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


if __name__ == "__main__":
    (STATIC / "code.css").write_text(style_sheet(), "utf-8")
