"""Form data that a browser sends with an unchanged form, by a subset of the HTML standard.

``test_form_page.py`` holds these rules against a real browser.
"""

from html.parser import HTMLParser
from typing import Any

from flask import Flask, render_template_string
from werkzeug.datastructures import MultiDict

from covalt_server.forms.form import Submitted
from covalt_server.pages import layout

PAGE = """{% from "_form.html" import inputs %}<!doctype html>
<html lang="en"><title>a form</title><form id="call" class="form" method="post">
{{ inputs(form) }}
<button>Run</button></form></html>"""

app = Flask("covalt_server")
app.jinja_env.trim_blocks = True
app.jinja_env.lstrip_blocks = True
layout.escape_hidden(app)


def html(form: Submitted) -> str:
    """Return a page with the form."""
    with app.app_context():
        return render_template_string(PAGE, form=form)


def sent(page: str) -> MultiDict[str, str]:
    """Return what the page's form sends."""
    # The input stream has no CR and no NUL, whatever was written (13.2.3.5 and 13.2.5).
    reader = _Controls()
    reader.feed(page.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd"))
    reader.close()
    return MultiDict((name, value.replace("\n", "\r\n")) for name, value in reader.pairs)


def attributes(page: str, name: str) -> list[str]:
    """Return the values of one attribute, in the order of the page."""
    reader = _Controls()
    reader.feed(page)
    return [one[name] for one in reader.tags if name in one]


class _Controls(HTMLParser):
    """Collects the controls that send something."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[str, str]] = []
        self.tags: list[dict[str, str]] = []
        self._area: str | None = None
        self._text = ""
        self._select = ""
        self._options: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has: dict[str, str] = {key: value or "" for key, value in attrs}
        self.tags.append(has)
        name: Any = has.get("name")
        if tag == "input" and name and (has.get("type") != "checkbox" or "checked" in has):
            # Value sanitization of a line of text (4.10.5.1.2).
            value = has.get("value", "")
            is_hidden = has.get("type") == "hidden"
            self.pairs.append((name, value if is_hidden else value.replace("\n", "")))
        elif tag == "textarea":
            self._area, self._text = name, ""
        elif tag == "select":
            self._select, self._options = name, []
        elif tag == "option" and self._select:
            self._options.append((has["value"], "selected" in has))

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area:
            self.pairs.append((self._area, self._text.removeprefix("\n")))
            self._area = None
        elif tag == "select" and self._select:
            chosen = [value for value, is_chosen in self._options if is_chosen]
            first = [value for value, _ in self._options]
            self.pairs.append((self._select, (chosen[-1:] or first[:1])[0]))
            self._select = ""
