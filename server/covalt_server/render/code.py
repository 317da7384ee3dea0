"""HTML listings of code, with highlighting and line numbers.

The HTML has classes only: :func:`style_sheet` has the colors of tokens, ``static/text.css`` the layout.  A
text is shown without highlighting if it is too long, or if Pygments takes too long: some of its lexers are
quadratic, and texts come from tools.
"""

from __future__ import annotations

import io
import json
import re
import time
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from markupsafe import Markup, escape
from pygments import lexers
from pygments.formatters.html import HtmlFormatter
from pygments.util import ClassNotFound

from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pygments.lexer import Lexer
    from pygments.token import _TokenType


MOST_COLOURED = 512 << 10
MOST_COLOURED_LINES = 10_000
LONGEST_COLOURED_LINE = 2_000
"""Limits of highlighting in characters, lines and characters of a line."""

MOST_SHOWN = 2 << 20
MOST_SHOWN_LINES = 20_000
"""Limits of a listing in characters and lines; a notice shows that the rest is omitted."""

MOST_LETTERS = 20_000
"""Limit of the beginning of a text, in characters, if there is a page with all of it."""

PATIENCE_S = 1.0
"""Time limit of Pygments for one text, in seconds."""

STYLES = {"light": "xcode", "dark": "github-dark"}
"""Pygments styles by color scheme, with a contrast of WCAG level AA on our background."""

_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)
# `tabindex` makes a block that scrolls sideways reachable by keyboard.
_BLOCK = Markup('<pre class="{}" tabindex="0"><code>{}</code></pre>')
_HINT = Markup('<p class="hint">{}</p>')
_FOLDED = Markup('<details class="rest"><summary>{:,} more lines</summary>{}</details>')
_MORE_LINES = Markup('<p class="hint"><a href="{}">{}</a></p>')

# Languages whose lexers yield often, so that they can be stopped (measured with 64 KiB of texts that are
# slow to lex).  Other lexers run for minutes before they yield the first token.
_COLOURED = {
    *("apacheconf", "awk", "bash", "batch", "c", "clojure", "cmake", "console", "cpp", "csharp"),
    *("css", "dart", "desktop", "diff", "docker", "elixir", "emacs-lisp", "erlang", "fish"),
    *("fsharp", "gherkin", "go", "graphql", "groovy", "haskell", "html", "http", "ini", "java"),
    *("javascript", "json", "json5", "jsonnet", "jsx", "julia", "kotlin", "less", "lua", "make"),
    *("markdown", "meson", "nasm", "nginx", "nixos", "objective-c", "ocaml", "perl", "php"),
    *("powershell", "properties", "protobuf", "pycon", "python", "restructuredtext", "ruby"),
    *("rust", "scala", "scheme", "scss", "solidity", "splus", "sql", "swift", "systemd"),
    *("terraform", "tex", "text", "toml", "tsx", "typescript", "vim", "xml", "yaml", "zig"),
}
_INTERPRETERS = {"node": "javascript", "deno": "typescript", "bun": "typescript"}
_SHEBANG = re.compile(r"#!\s*(?:\S*/env(?:\s+-\S+)*\s+)?(?:\S*/)?([A-Za-z]+)")
_HTML_PARTS = re.compile(r"<[^>]*>|&[^;]*;|.", re.DOTALL)
"""A tag, or the HTML of one character."""

_WORD = re.compile(r"[\w-]+")
_WHITESPACE = '<span class="w">'
_MARKS = {
    "<!doctype html": "html",
    "<html": "html",
    "<?xml": "xml",
    "diff --git ": "diff",
    "---\n": "yaml",
}


def highlighted(
    text: str,
    *,
    language: str = "auto",
    path: str | None = None,
    numbered: bool = True,
    until: float | None = None,
    exact: bool = False,
    most: int | None = None,
    rest: str = "",
    notes: Mapping[int, Markup] | None = None,
    columns: Iterable[tuple[int, int]] = (),
) -> Markup:
    """Return ``text`` as a listing.

    Args:
        text: the text.
        language: its language; ``auto`` detects it from ``path`` and the text.
        path: the path of its file.
        numbered: whether lines have numbers, and ids such as ``L12``.
        until: time limit of highlighting, on the monotonic clock.
        exact: for texts that the user decides about: all invisible characters are escaped, long runs
            of spaces are counted, and nothing is left out; otherwise as in prose.
        most: the number of lines after which the rest is folded, or left out if there is a ``rest``.
        rest: the URL of a page with all lines; then also at most ``MOST_LETTERS`` characters are shown.
        notes: what is shown below numbered lines, which are marked.
        columns: lines and columns, from 1, whose words are marked.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    excerpt = text if exact else _beginning(text)  # the user decides about all of it
    named = language_of(excerpt, language=language, path=path)
    if most is not None and rest:
        excerpt = _beginning(text, letters=MOST_LETTERS, lines=most)
    lines = _colored(
        excerpt,
        named,
        until=time.monotonic() + PATIENCE_S if until is None else until,
    )
    if lines is None:
        lines = str(escape(excerpt)).split("\n")
    if len(lines) > 1 and not lines[-1]:
        del lines[-1]
    for number, column in sorted(
        {*columns}, reverse=True
    ):  # from the end: a mark moves what follows
        if 0 < number <= len(lines) and column > 0:
            lines[number - 1] = _with_mark(lines[number - 1], column)
    listed: Iterable[str] = (_with_visible_characters(line, exact=exact) + "\n" for line in lines)
    if numbered:
        listed = _numbered(listed, notes or {}, width=len(str(len(lines))))
    ready = list(listed)
    if rest:
        return _block(ready) + _more(text, excerpt, rest)
    listing = _notice(text, excerpt) + _block(ready[:most])
    if most is not None and (others := ready[most:]):
        listing += _FOLDED.format(len(others), _block(others))
    return listing


def exact_text(text: str) -> Markup:
    """Return a text that the user decides about, as it is: escaped as an ``exact`` listing, also at the start of lines."""
    lines = text.removesuffix("\n").split("\n")
    shown = (display.count_spaces(str(escape(line)), _counted) for line in lines)
    return _block([display.in_lines(line, _marked) + "\n" for line in shown])


def _block(lines: list[str]) -> Markup:
    """Return lines of HTML, escaped by Pygments or escape(), as a block."""
    return _BLOCK.format("code", Markup("".join(lines)))  # noqa: S704 - see above


def escaped(text: str) -> Markup:
    """Return a text as HTML, its hidden characters escaped."""
    return Markup(_with_visible_characters(str(escape(text))))  # noqa: S704 - escaped right here


def language_of(text: str, *, language: str = "auto", path: str | None = None) -> str:
    """Return Pygments' name for the language of a text; ``text`` if it is unknown.

    The named language has precedence, then the name of the file, then an explicit mark in the text.
    """
    name = _named(language) or (_of_file(path) if path else None) or _of_content(text)
    return name or "text"


@lru_cache(maxsize=1)
def style_sheet() -> str:
    """Return the CSS with the colors of tokens, for both color schemes."""
    sheets = []
    for scheme, style in STYLES.items():
        formatter = HtmlFormatter(style=style, nobackground=True)
        rules = formatter.get_style_defs(".code")  # type: ignore[no-untyped-call]
        sheets.append(f"@media (prefers-color-scheme: {scheme}) {{\n{rules}\n}}\n")
    return "".join(sheets)


def _named(language: str) -> str | None:
    name = language.strip()
    return _find_language(lexers.get_lexer_by_name, name) or _of_file(f"file.{name}")


def _of_file(path: str) -> str | None:
    # Several languages can have the same suffix, and Pygments may select an unsupported one.
    file = PurePosixPath(path)
    language = _find_language(lexers.get_lexer_for_filename, file.name)
    return language or _find_language(lexers.get_lexer_by_name, file.suffix[1:])


@lru_cache(maxsize=512)
def _find_language(find: Callable[[str], Lexer], name: str) -> str | None:
    """Return the language that Pygments finds for a name, if it is a supported one."""
    try:
        language: str = find(name).aliases[0]
    except ClassNotFound:
        return None
    return language if language in _COLOURED else None


def _of_content(text: str) -> str | None:
    """Return the language that the first lines of a text declare; JSON if the whole text is JSON."""
    if shebang := _SHEBANG.match(text):
        return _named(_INTERPRETERS.get(shebang[1], shebang[1]))
    start = text[:256].lstrip().lower()
    if start.startswith(("{", "[")) and _is_json(text):
        return "json"
    return next((language for mark, language in _MARKS.items() if start.startswith(mark)), None)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _colored(text: str, language: str, *, until: float) -> list[str] | None:
    """Return the highlighted HTML of each line, or None if the text exceeds a limit."""
    if language == "text":
        return None
    if len(text) > MOST_COLOURED or text.count("\n") > MOST_COLOURED_LINES:
        return None
    if max(map(len, text.split("\n"))) > LONGEST_COLOURED_LINE:
        return None
    # By default Pygments removes empty lines at the start, so all lines would have wrong numbers.
    lexer = lexers.get_lexer_by_name(language, stripnl=False, ensurenl=False)
    written = io.StringIO()
    try:
        # A lexer has no time limit, but it is a generator, so it can be stopped between two tokens.
        _FORMATTER.format(_in_time(lexer.get_tokens(text), until), written)
    except TimeoutError:
        return None
    return written.getvalue().split("\n")


def _in_time(
    tokens: Iterable[tuple[_TokenType, str]], until: float
) -> Iterator[tuple[_TokenType, str]]:
    for token in tokens:
        if time.monotonic() > until:
            raise TimeoutError
        yield token


def _numbered(lines: Iterable[str], notes: Mapping[int, Markup], *, width: int) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        # Not reachable by the Tab key, because there may be thousands.
        link = f'<a class="number" href="#L{number}" tabindex="-1">{number:>{width}}</a>'
        marked = " marked" if number in notes else ""
        yield f'<span class="line{marked}" id="L{number}">{link}{line}</span>{notes.get(number, "")}'


def _with_mark(line: str, column: int) -> str:
    """Return a line of HTML with its word at a column marked, or its end if it has no such column."""
    place = 1
    for part in _HTML_PARTS.finditer(line):
        if part[0].startswith("<"):
            continue
        if place == column:
            word = _WORD.match(line, part.start()) or part
            return f"{line[: word.start()]}<mark>{word[0]}</mark>{line[word.end() :]}"
        place += 1
    return f"{line}<mark> </mark>"


def _with_visible_characters(line: str, *, exact: bool = False) -> str:
    if not exact:
        return display.running(line, _marked)
    text = line.removeprefix(_WHITESPACE).lstrip(" ")  # JSON indents nested values by many spaces
    indentation = line[: len(line) - len(text)]
    return indentation + display.in_lines(display.count_spaces(text, _counted), _marked)


def _counted(run: str) -> str:
    return f'<span class="unseen-character">{display.run_of_spaces(run)}</span>'


def _marked(character: str) -> str:
    return f'<span class="unseen-character">{display.escape(character)}</span>'


def _beginning(text: str, letters: int = MOST_SHOWN, lines: int = MOST_SHOWN_LINES) -> str:
    """Return the part of a text that a page shows, up to the end of a line if it has several."""
    if len(text) > letters:
        cut = text[:letters]
        text = cut[: cut.rfind("\n") + 1] or cut
    parts = text.split("\n", lines)
    return "\n".join([*parts[:lines], ""]) if len(parts) > lines else text


def _more(text: str, excerpt: str, rest: str) -> Markup:
    """Return a link to the page ``rest`` with all of a text; empty if all of it is shown."""
    left = text[len(excerpt) :]
    if not left:
        return Markup()
    lines = left.count("\n") + (not left.endswith("\n"))
    if excerpt.endswith("\n"):
        return _MORE_LINES.format(rest, f"{lines:,} more {'line' if lines == 1 else 'lines'}")
    return _MORE_LINES.format(rest, f"{len(left):,} more characters")


def _notice(text: str, excerpt: str) -> Markup:
    """Return a notice with the part of a text that is shown; empty if it is complete."""
    if len(excerpt) == len(text):
        return Markup()
    lines = text.count("\n") + (not text.endswith("\n"))
    if lines > 1:
        return _HINT.format(f"The first {excerpt.count(chr(10)):,} of {lines:,} lines.")
    return _HINT.format(f"The first {len(excerpt):,} of {len(text):,} characters.")
