"""The code of a JavaScript text, without what only looks like code: comments, strings, patterns."""

from __future__ import annotations

import re

_STOP = re.compile(
    r"""
    (?P<blank> //[^\n]*+ | /\*.*?(?:\*/|\Z) )
  | (?P<string> "(?:[^"\\\n]|\\.)*+"? | '(?:[^'\\\n]|\\.)*+'? )
  | (?P<other> [`{}/] )
    """,
    re.VERBOSE | re.DOTALL,
)
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*+(?P<end>`|\$\{|\Z)", re.DOTALL)
_PATTERN = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*+\])++/\w*")
_BEFORE_PATTERN = re.compile(
    r"(?:^|[(,=:\[!&|?{};+\-*%~^<>]|\b(?:return|typeof|case|in|of|delete|void|throw|new|do|else))\s*$"
)
_MAX_BEFORE = 64
_MAX_PATTERN = 200


def code_only(script: str) -> str:
    """Return a script with blanks for the text of its comments, strings, templates and patterns.

    Every character keeps its place, and quotes stay.  Whether a slash divides or begins a pattern
    is told by what stands before it, which is right for scripts as people write them.
    """
    code: list[str] = []
    position = 0
    depths: list[int] = []  # of the braces within each template's ${...}
    while stop := _STOP.search(script, position):
        code.append(script[position : stop.start()])
        position = stop.end()
        if stop["blank"]:
            code.append(_blank(stop[0]))
        elif stop["string"]:
            code.append(_quoted(stop[0]))
        elif stop[0] == "/":
            before = script[max(0, stop.start() - _MAX_BEFORE) : stop.start()]
            pattern = _PATTERN.match(script, stop.start(), stop.start() + _MAX_PATTERN)
            if pattern and _BEFORE_PATTERN.search(before):
                position = pattern.end()
            code.append(_blank(script[stop.start() : position]))
        elif stop[0] == "`" or (stop[0] == "}" and depths and depths[-1] == 0):
            if stop[0] == "}":
                depths.pop()
            template = _TEMPLATE.match(script, position)
            assert template is not None  # it matches the empty text too
            code.append(f"`{_blank(template[0][: -len(template['end']) or None])}")
            code.append("`" * len(template["end"]))
            if template["end"] == "${":
                depths.append(0)
            position = template.end()
        else:
            if depths:
                depths[-1] += 1 if stop[0] == "{" else -1
            code.append(stop[0])
    code.append(script[position:])
    return "".join(code)


def _quoted(text: str) -> str:
    """Return a string's quotes with nothing between them."""
    return text[0] + _blank(text[1:-1]) + text[-1] if len(text) > 1 else text


def _blank(text: str) -> str:
    return " " * len(text)
