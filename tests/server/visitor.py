"""A visitor without JavaScript: opens pages, reads them, follows links and sends forms."""

import re
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Self

from flask import Flask
from werkzeug.datastructures import Headers
from werkzeug.test import TestResponse

from covalt_server.app import create_app
from tests.api_client import HOME, PORT, TOKEN

_ON_EACH_PAGE = {"footer", "dialog"}
"""Elements with forms that each page has: one signs out, one closes the list of keys."""

_UNSEEN = {"script", "style", "title", "head"}
_EMPTY = {"input", "meta", "link", "img", "br", "hr", "path", "circle", "line", "use"}


@dataclass
class Form:
    """A form of a page: where it goes, what its fields hold, and its buttons' names and values.

    A button outside of it belongs to it by its id.
    """

    method: str
    action: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    buttons: list[tuple[str, str, str]] = field(default_factory=list)
    id: str = ""


@dataclass
class Link:
    """A link and its words."""

    href: str
    text: str = ""


class Page(HTMLParser):
    """What a person sees of a page, and can press."""

    def __init__(self, source: str, address: str = "") -> None:
        super().__init__()
        self.status = 200
        self.headers = Headers()
        self.source = source
        self.address = address
        self.redirects: list[str] = []
        self.title = ""
        self.links: list[Link] = []
        self.forms: list[Form] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._texts: list[str] = []
        self._open: list[str] = []
        self._select = ""
        self._area = ""
        self._outside: Form | None = None
        self.feed(self.source)
        self.close()

    @classmethod
    def of(cls, response: TestResponse) -> Self:
        page = cls(response.get_data(as_text=True), response.request.path)
        page.status, page.headers = response.status_code, response.headers
        page.redirects = [answer.headers["Location"] for answer in response.history]
        return page

    @property
    def text(self) -> str:
        """All the words, one space between them."""
        return re.sub(r"\s+", " ", " ".join(self._texts))

    def link(self, text: str) -> str:
        """Return where the first link goes whose words are these."""
        return next(one.href for one in self.links if one.text.strip() == text)

    def form(self, action: str) -> Form:
        """Return the first form that goes to an address ending so, with or without its anchor and query."""
        return next(
            one
            for one in self.forms
            if one.action.endswith(action)
            or one.action.partition("#")[0].endswith(action)
            or one.action.partition("?")[0].endswith(action)
        )

    def changed_lines(self, kind: str) -> list[str]:
        """Return the lines of differences that are of a kind, ``add`` or ``del``; a style sheet writes their signs."""
        lines = re.findall(rf'<span class="line {kind}">(.*?)\n</span>', self.source, re.DOTALL)
        return [
            unescape(re.sub(r'<span class="number">.*?</span>|<[^>]+>', "", line)) for line in lines
        ]

    def named(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag not in _EMPTY:
            self._open.append(tag)
        if tag == "a" and "href" in given:
            self.links.append(Link(given["href"]))
        elif _ON_EACH_PAGE & {*self._open}:
            return
        elif tag == "form":
            action = given.get("action", self.address)
            self.forms.append(Form(given.get("method", "get"), action, id=given.get("id", "")))
        elif tag == "button" and "form" in given:
            form = next(form for form in self.forms if form.id == given["form"])
            form.buttons.append((given.get("name", ""), given.get("value", ""), ""))
            self._outside = form
        elif self.forms and "form" in self._open:
            self._field(tag, given)

    def _field(self, tag: str, given: dict[str, str]) -> None:
        form, name = self.forms[-1], given.get("name", "")
        if tag == "button":
            form.buttons.append((name, given.get("value", ""), ""))
        elif tag == "select":
            self._select = name
        elif (
            tag == "option"
            and self._select
            and (self._select not in form.fields or "selected" in given)
        ):
            form.fields[self._select] = [given.get("value", "")]
        elif tag == "textarea":
            self._area = name
            form.fields[name] = [""]
        elif tag == "input" and name:
            kind = given.get("type")
            checkable = kind in {"checkbox", "radio"}
            value = given.get("value", "on" if checkable else "")
            if not checkable or "checked" in given:
                # A line of text has no line breaks (HTML 4.10.5.1.2).
                one = value if kind == "hidden" else value.replace("\n", "")
                form.fields.setdefault(name, []).append(one)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass
        if tag == "textarea" and self._area:
            held = self.forms[-1].fields[self._area]
            held[0] = held[0].removeprefix("\n")
            self._area = ""
        elif tag == "button":
            self._outside = None
        elif tag == "select":
            self._select = ""

    def handle_data(self, data: str) -> None:
        if "title" in self._open and "svg" not in self._open:
            self.title += data
        if "textarea" in self._open and self._area:
            self.forms[-1].fields[self._area][0] += data
        if not _UNSEEN & set(self._open):
            self._texts.append(data)
        if "a" in self._open and self.links:
            self.links[-1].text += data
        is_label = {"button", "form"} <= {*self._open} and not _ON_EACH_PAGE & {*self._open}
        form = self._outside or (self.forms[-1] if is_label and self.forms else None)
        if form is not None and form.buttons:
            name, value, words = form.buttons[-1]
            form.buttons[-1] = (name, value, words + data)


@dataclass(frozen=True)
class Visitor:
    """A user with the printed token and a browser without scripts."""

    app: Flask

    @classmethod
    def of(cls, root: Path, role: str | None = None) -> Self:
        return cls(create_app(root, token=TOKEN, port=PORT, role=role))

    def open(self, address: str) -> Page:
        """Open a page."""
        return Page.of(self._client().get(address, base_url=HOME, follow_redirects=True))

    def send(self, form: Form, button: str = "", **typed: Any) -> Page:
        """Type into a form's fields, press a button by its words, and see the page that comes."""
        pressed = [(name, value) for name, value, words in form.buttons if words.strip() == button]
        assert pressed or not button, form.buttons
        by_button = {name: value for name, value in pressed[:1] if name}
        data: dict[str, Any] = {**form.fields, **typed, **by_button}
        client = self._client()
        if form.method == "get":
            return Page.of(client.get(form.action, base_url=HOME, query_string=data))
        return Page.of(client.post(form.action, base_url=HOME, data=data, follow_redirects=True))

    def _client(self) -> Any:
        client = self.app.test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
        return client
