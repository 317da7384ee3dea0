"""A page with a tool's form, and what a browser sends with it that no user touched."""

from __future__ import annotations

from flask import Flask, render_template_string
from werkzeug.datastructures import MultiDict

from covalt_server.forms.form import Submitted
from covalt_server.pages import layout
from tests.server.fragments import Fragment
from tests.server.html_forms import read_forms

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
    read = page.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    (form,) = read_forms(read)
    return MultiDict(
        (name, value.replace("\n", "\r\n")) for name in form.fields for value in form.fields[name]
    )


def attributes(page: str, name: str) -> list[str]:
    """Return the values of one attribute, in the order of the page."""
    return [found[name] or "" for _, found in Fragment(page).elements if name in found]
