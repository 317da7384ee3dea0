"""Form data that a browser sends with an unchanged form, by a subset of the HTML standard.

``test_form_page.py`` holds these rules against a real browser.
"""

from flask import Flask, render_template_string
from werkzeug.datastructures import MultiDict

from covalt_server.forms.form import Submitted
from covalt_server.pages import layout
from tests.server.visitor import Page

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
    text = page.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    (form,) = Page(text).forms
    sent = {
        name: [one.replace("\n", "\r\n") for one in values] for name, values in form.fields.items()
    }
    return MultiDict(sent)
