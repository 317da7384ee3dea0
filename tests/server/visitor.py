"""A visitor without JavaScript: opens pages, reads them, follows links and sends forms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from covalt_server.app import create_app
from tests.api_client import HOME, PORT, TOKEN
from tests.server.html_forms import Form, read_forms

_UNSEEN = {"script", "style", "title", "head"}
_EMPTY = {"input", "meta", "link", "img", "br", "hr", "path", "circle", "line", "use"}


@dataclass
class Link:
    """A link and its words."""

    href: str
    text: str = ""


class Page(HTMLParser):
    """What a person sees of a page, and can press."""

    def __init__(self, response: TestResponse) -> None:
        super().__init__()
        self.status = response.status_code
        self.headers = response.headers
        self.source = response.get_data(as_text=True)
        self.address = response.request.path
        self.title = ""
        self.links: list[Link] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._texts: list[str] = []
        self._open: list[str] = []
        self.feed(self.source)
        self.forms = read_forms(self.source, self.address)

    @property
    def text(self) -> str:
        """All the words, one space between them."""
        return re.sub(r"\s+", " ", " ".join(self._texts))

    def link(self, text: str) -> str:
        """Return where the first link goes whose words are these."""
        return next(one.href for one in self.links if one.text.strip() == text)

    def form(self, action: str) -> Form:
        """Return the first form that goes to an address ending so."""
        return next(one for one in self.forms if one.action.endswith(action))

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

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "title" in self._open and "svg" not in self._open:
            self.title += data
        if not _UNSEEN & set(self._open):
            self._texts.append(data)
        if "a" in self._open and self.links:
            self.links[-1].text += data


@dataclass(frozen=True)
class Visitor:
    """Somebody with the printed token and a browser that runs no script."""

    app: Flask

    @classmethod
    def of(cls, root: Path, role: str | None = None) -> Visitor:
        return cls(create_app(root, token=TOKEN, port=PORT, role=role))

    def open(self, address: str) -> Page:
        """Open a page."""
        return Page(self._client().get(address, base_url=HOME, follow_redirects=True))

    def send(self, form: Form, button: str = "", **typed: Any) -> Page:
        """Type into a form's fields, press a button by its words, and see the page that comes."""
        pressed = [(name, value) for name, value, words in form.buttons if words.strip() == button]
        assert pressed or not button, form.buttons
        by_button = {name: value for name, value in pressed[:1] if name}
        data: dict[str, Any] = {**form.fields, **typed, **by_button}
        client = self._client()
        if form.method == "get":
            return Page(client.get(form.action, base_url=HOME, query_string=data))
        return Page(client.post(form.action, base_url=HOME, data=data, follow_redirects=True))

    def _client(self) -> Any:
        client = self.app.test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
        return client
