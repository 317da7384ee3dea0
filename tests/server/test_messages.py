"""Messages after a form: shown once, in a signed cookie that scripts and other sites do not get."""

from typing import Any

import pytest
from flask import Flask

from tests.api_client import BEARER, HOME, PORT

SENT = {"base_url": HOME, "headers": BEARER}


@pytest.fixture
def client(app: Flask) -> Any:
    client = app.test_client()
    answer = client.post("/chats", **SENT)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/chats/c1#end")
    return client


def test_a_message_is_shown_once_by_the_next_page(client: Any) -> None:
    htmx = client.get("/tools", base_url=HOME, headers={**BEARER, "HX-Request": "true"})
    pages = [client.get("/chats/c1", **SENT).text for _ in range(2)]

    assert ["Created." in text for text in (htmx.text, *pages)] == [False, True, False]


def test_its_cookie_is_httponly_strict_and_of_this_port(client: Any) -> None:
    cookie = client.post("/chats", **SENT).headers["Set-Cookie"]

    assert cookie.startswith(f"covalt_git_{PORT}_messages=")
    assert cookie.endswith("; HttpOnly; Path=/; SameSite=Strict")


def test_a_message_without_our_signature_is_not_shown(client: Any) -> None:
    name = f"covalt_git_{PORT}_messages"
    value = client.get_cookie(name, "127.0.0.1").value
    body, _, signed = value.partition(".")
    client.set_cookie(name, f"{body[:-1]}A.{signed}", domain="127.0.0.1")

    assert "Created." not in client.get("/chats/c1", **SENT).text


def test_its_cookie_is_not_a_credential(client: Any) -> None:
    assert client.get("/chats/c1", base_url=HOME).status_code == 401


def test_the_ids_in_sentences_are_short_and_digests_complete(app: Flask) -> None:
    sentence = app.jinja_env.filters["sentence"]
    oid, digest = "710b691396489cc0719e906ea560844ec6c9af50", f"sha256:{'a1' * 32}"

    assert sentence(f"you edited {oid}, now it is {oid}.") == (
        "You edited 710b69139648, now it is 710b69139648."
    )
    assert sentence(f"{digest} is not files/{oid}/a.txt") == f"{digest} is not files/{oid}/a.txt"
