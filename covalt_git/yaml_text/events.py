"""The parser, one event at a time: the only module that imports ``yaml``.

Events and not nodes, because the composer of libyaml calls itself at every level: 30,000 opening
brackets end the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import yaml
from yaml import events as kinds
from yaml.error import MarkedYAMLError
from yaml.scanner import ScannerError

from covalt_git.yaml_text.characters import SURROGATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaml.error import Mark

__all__ = ["Event", "MarkedYAMLError", "kinds", "open_events", "open_pure_python_events"]


class Event(Protocol):
    """What we read of the parsers' events; each kind has only some of it."""

    start_mark: Mark
    end_mark: Mark
    anchor: str | None
    tag: str | None
    value: str
    style: str | None


def open_events(text: str) -> Callable[[], Event | None]:
    """Return what gives the next event of ``text``, by libyaml where PyYAML has it.

    It raises ``MarkedYAMLError`` where the text is not YAML, and ``UnicodeDecodeError`` where the
    %-escapes of a tag are not UTF-8, which libyaml does not check.
    """
    if not yaml.__with_libyaml__:
        return open_pure_python_events(text)
    parser: Any = yaml.CBaseLoader(text)
    next_event: Callable[[], Event | None] = parser.get_event
    return next_event


def open_pure_python_events(text: str) -> Callable[[], Event | None]:
    """Return what gives the next event by PyYAML's own parser, as strict on escapes as libyaml."""
    parser: Any = yaml.BaseLoader(text)

    def refuse_escape() -> NoReturn:
        raise ScannerError(None, None, "found invalid Unicode character escape", parser.get_mark())

    def next_event() -> Event | None:
        try:
            event: Event | None = parser.get_event()
        except (ValueError, OverflowError):  # chr() of an escape beyond Unicode
            refuse_escape()
        if isinstance(event, kinds.ScalarEvent) and SURROGATE.search(event.value):
            refuse_escape()
        return event

    return next_event
