"""Errors of forms: the keyboard goes on at the message, not at the start of the page."""

from typing import Any

import pytest

from tests.api_client import form_file
from tests.server.visitor import Visitor


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(
    ("address", "action", "typed"),
    [
        ("/new-toolset", "/new-toolset", {"id": "Not an id"}),
        ("/imports", "/imports", {"file": form_file("a.json", b"no JSON")}),
        ("/chats/c1/new-file", "/new-file", {"path": "../a.txt", "content": "a"}),
        ("/registry", "/registry", {"entry": "no JSON"}),
    ],
)
def test_the_message_about_a_refused_form_has_the_focus(
    visitor: Visitor, address: str, action: str, typed: dict[str, Any]
) -> None:
    page = visitor.send(visitor.open(address).form(action), **typed)
    assert page.status >= 400
    (message,) = [one for tag in ("section", "p") for one in page.named(tag) if "autofocus" in one]
    assert message["tabindex"] == "-1"
