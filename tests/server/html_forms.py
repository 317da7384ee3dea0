"""Forms of a page as a browser without scripts reads them: the HTML standard's rules, in short.

``test_form_page.py`` checks these rules against a real browser.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

CHECKABLE = {"checkbox", "radio"}


@dataclass
class Form:
    """A form: its method and URL, the values that it sends, and its buttons: name, value, words."""

    method: str
    action: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    buttons: list[tuple[str, str, str]] = field(default_factory=list)


def read_forms(html: str, url: str = "") -> list[Form]:
    """Return the forms of a page at a URL."""
    reader = _Reader(url)
    reader.feed(html)
    reader.close()
    return reader.forms


class _Reader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._url = url
        self._is_inside = False
        self._text = ""
        self._name = ""
        self._options: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(has.get("method", "get"), has.get("action", self._url)))
            self._is_inside = True
        elif not self._is_inside:
            return
        elif tag == "input" and has.get("name"):
            kind = has.get("type", "text")
            # Value sanitization of a line of text (4.10.5.1.2).
            value = has.get("value", "on" if kind in CHECKABLE else "")
            if kind not in CHECKABLE or "checked" in has:
                self._add(has["name"], value if kind == "hidden" else value.replace("\n", ""))
        elif tag in {"textarea", "select", "button"}:
            self._name, self._text, self._options = has.get("name", ""), "", []
            if tag == "button":
                self.forms[-1].buttons.append((self._name, has.get("value", ""), ""))
        elif tag == "option":
            self._options.append((has.get("value", ""), "selected" in has))

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False
        elif not self._is_inside:
            return
        elif tag == "textarea" and self._name:
            self._add(self._name, self._text.removeprefix("\n"))
        elif tag == "select" and self._options:
            chosen = [value for value, is_chosen in self._options if is_chosen]
            self._add(self._name, chosen[-1] if chosen else self._options[0][0])
        elif tag == "button":
            name, value, _ = self.forms[-1].buttons[-1]
            self.forms[-1].buttons[-1] = (name, value, self._text)

    def _add(self, name: str, value: str) -> None:
        self.forms[-1].fields.setdefault(name, []).append(value)
