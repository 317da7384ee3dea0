"""Requests that the server refuses, on every route: other hosts, other origins, no token."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple, Self
from unittest.mock import ANY
from urllib.parse import urljoin, urlsplit

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st
from werkzeug.datastructures import Headers
from werkzeug.test import TestResponse

from tests.api_client import BEARER, HOME, PORT, TOKEN, Api, configure, refused
from tests.examples import examples
from tests.server.visitor import Page
from tests.tables import tables

OWN_HOST = f"127.0.0.1:{PORT}"
RIGHT = {"Host": OWN_HOST, "Accept": "application/json", **BEARER}
TABLES = tables(__file__)
CODES = {"wrong_host", "wrong_origin", "no_token"}


def headers(changes: dict[str, str | None]) -> dict[str, str]:
    """Return the headers of a right request with some changes."""
    facts = {"token": TOKEN, "begin": TOKEN[:-1], "port": PORT}
    changed = {name: text and text.format(**facts) for name, text in changes.items()}
    return {name: text for name, text in (RIGHT | changed).items() if text is not None}


def without_token(**changes: str) -> dict[str, str]:
    return headers({"Authorization": None, **changes})


def routes(app: Flask) -> list[tuple[str, str]]:
    """Return the method and the path of everything that the app answers to."""
    adapter = app.url_map.bind(OWN_HOST)
    return [
        (method, adapter.build(rule.endpoint, dict.fromkeys(rule.arguments, "1"), method=method))
        for rule in app.url_map.iter_rules()
        for method in sorted(rule.methods or ())
    ]


def send(app: Flask, method: str, path: str, sent: dict[str, str]) -> TestResponse:
    """Send a request with these headers and no others."""
    head, _, query = path.partition("?")
    return app.test_client(use_cookies=False).open(
        "/",
        method=method,
        headers={name: value for name, value in sent.items() if name != "Host"},
        environ_overrides={
            "HTTP_HOST": sent.get("Host", ""),
            "PATH_INFO": head,
            "QUERY_STRING": query,
        },
    )


class Answer(NamedTuple):
    """What the server answered to a request; ``content`` is None if it is no JSON."""

    method: str
    path: str
    status: int
    headers: Headers
    content: Any

    @classmethod
    def of(cls, app: Flask, method: str, path: str, sent: dict[str, str]) -> Self:
        answer = send(app, method, path, sent)
        is_json = answer.mimetype == "application/json"
        content = json.loads(answer.get_data() or "null") if is_json else None
        answer.close()
        return cls(method, path, answer.status_code, answer.headers, content)


@pytest.fixture(scope="module")
def right(shared: Api) -> list[Answer]:
    """The answer of every route to a right request; to ask them all takes two seconds."""
    return [Answer.of(shared.app, *route, RIGHT) for route in routes(shared.app)]


ONE_OF_EACH = [
    *(
        ("GET", "/"),
        ("GET", "/api/list_tools"),
        ("POST", "/api/call_tool"),
        ("POST", "/approvals/1"),
    ),
    *(("GET", "/no/such/page"), ("GET", "/api/nothing")),
]
"""A request of each kind.  Every route is tried with one row a check: no route has checks of its own."""


@pytest.mark.parametrize(("changes", "status", "code"), TABLES["refused"], ids=str)
def test_every_route_refuses(
    shared: Api, changes: dict[str, str | None], status: int, code: str
) -> None:
    first_of_its_code = next(row for row in TABLES["refused"] if row[2] == code)[0] == changes
    asked = [*ONE_OF_EACH, *(routes(shared.app) if first_of_its_code else ())]
    for method, path in asked:
        answer = send(shared.app, method, path, headers(changes))

        assert answer.status_code == status, (method, path)
        assert "Set-Cookie" not in answer.headers, (method, path)
        if path.startswith("/v1/") and method != "HEAD":  # errors there have two fields
            assert answer.get_json() == {"error": code, "error_description": ANY}
        elif method != "HEAD":
            refused(answer, status, code)


@pytest.mark.parametrize("changes", [row[0] for row in TABLES["answered"]], ids=str)
def test_every_route_answers_a_right_request(
    shared: Api, request: pytest.FixtureRequest, changes: dict[str, str | None]
) -> None:
    asked = [Answer.of(shared.app, *one, headers(changes)) for one in ONE_OF_EACH]
    every: list[Answer] = [] if changes else request.getfixturevalue("right")
    for method, path, status, _, content in (*asked, *every):
        assert status not in {401, 421}, (method, path)
        if isinstance(content, dict):
            assert content.get("error") not in CODES, (method, path)


@pytest.mark.parametrize("changes", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}])
def test_the_page_of_a_refused_request_does_not_show_the_project(
    shared: Api, changes: dict[str, str | None]
) -> None:
    shown = send(shared.app, "GET", "/chats", headers(changes) | {"Accept": "text/html"})

    assert shown.mimetype == "text/html"
    assert "<nav" not in shown.text
    assert "href" not in shown.text


def test_a_host_that_the_project_allows_is_answered(root: Path) -> None:
    configure(root, "server: {allowed_hosts: [tools.example]}")
    app = Api.of(root).app

    for host in ("tools.example", f"tools.example:{PORT}"):
        sent = RIGHT | {"Host": host, "Origin": f"https://{host}"}
        assert send(app, "GET", "/api/list_chats", sent).status_code == 200
    assert send(app, "GET", "/", RIGHT | {"Host": "tools.example:1"}).status_code == 421


# The address that is printed


def test_the_printed_url_sets_a_cookie(shared: Api) -> None:
    answer = send(shared.app, "GET", f"/?token={TOKEN}", without_token())

    assert answer.status_code == 303
    assert answer.headers["Location"] == "/"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Set-Cookie"] == (
        f"covalt_git_{PORT}={TOKEN}; HttpOnly; Path=/; SameSite=Strict"
    )
    client = shared.client()
    client.get("/", base_url=HOME, query_string={"token": TOKEN})
    assert client.get("/api/list_chats", base_url=HOME).status_code == 200
    assert client.post("/api/create_chat", base_url=HOME, json={}).status_code == 200


def test_a_page_without_the_token_is_a_form_for_it(shared: Api) -> None:
    html = without_token() | {"Accept": "text/html"}
    page = Page.of(send(shared.app, "GET", "/chats", html))
    (form,), (field,) = page.forms, page.named("input")
    assert (page.status, form.method, form.action) == (401, "get", "/chats")
    assert (field["name"], field["type"]) == ("token", "password")

    answer = send(shared.app, "GET", f"{form.action}?token={TOKEN}", html)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/chats")
    assert "Set-Cookie" in answer.headers


def test_a_token_in_a_url_is_only_for_links_of_our_own(shared: Api) -> None:
    path = f"/?token={TOKEN}"
    wrong = send(shared.app, "GET", "/?token=guess", without_token())
    refused(wrong, 401, "no_token")
    assert wrong.headers["WWW-Authenticate"] == 'Bearer realm="covalt-git"'
    assert "Set-Cookie" not in wrong.headers
    posted = send(shared.app, "POST", f"/api/create_chat?token={TOKEN}", without_token())
    refused(posted, 401, "no_token")
    for changes in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        refused(send(shared.app, "GET", path, without_token(**changes)), 403, "wrong_origin")


@pytest.mark.parametrize(("path", "location"), TABLES["redirects"])
def test_the_token_leaves_the_url_and_the_rest_stays(shared: Api, path: str, location: str) -> None:
    answer = send(shared.app, "GET", path.replace("{token}", TOKEN), without_token())

    assert (answer.status_code, answer.headers["Location"]) == (303, location)


@settings(max_examples=examples(100))
@given(path=st.text(alphabet="/\\:.@?#%aevil \t\n\r;ü", max_size=12))
def test_no_redirect_leads_to_another_host(shared: Api, path: str) -> None:
    answer = shared.client().open(
        "/",
        environ_overrides={
            "HTTP_HOST": OWN_HOST,
            "PATH_INFO": ("/" + path).encode().decode("latin-1"),
            "QUERY_STRING": f"token={TOKEN}",
        },
    )
    location = answer.headers["Location"]

    assert answer.status_code == 303
    assert re.match(r"/(?![/\\])", location)
    assert urlsplit(urljoin(f"{HOME}/x/y", location)).netloc == OWN_HOST


# Headers


def test_every_answer_has_the_security_headers(shared: Api, right: list[Answer]) -> None:
    others = (without_token(), RIGHT | {"Accept": "text/html"})
    asked = [Answer.of(shared.app, *one, sent) for sent in others for one in ONE_OF_EACH]
    for answer in (*right, *asked):
        method, path = answer.method, answer.path
        assert answer.headers["X-Content-Type-Options"] == "nosniff", (method, path)
        assert answer.headers["Referrer-Policy"] == "same-origin", (method, path)
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin", (method, path)
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin", (method, path)
        assert answer.headers["Content-Security-Policy"], (method, path)
        assert "Cache-Control" in answer.headers or method == "OPTIONS", (method, path)
        assert "Access-Control-Allow-Origin" not in answer.headers, (method, path)


def test_the_policy_of_a_page_allows_nothing_from_elsewhere(shared: Api) -> None:
    policies = [
        send(shared.app, "GET", "/no/such/page", RIGHT).headers["Content-Security-Policy"]
        for _ in range(2)
    ]
    nonces = {re.search(r"'nonce-([^']+)'", policy)[1] for policy in policies}  # type: ignore[index]

    assert len(nonces) == 2
    assert re.sub(r"nonce-[^']+", "nonce", policies[0]).split("; ") == [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'nonce'",
        "img-src 'self' data:",
        "media-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "frame-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "object-src 'none'",
        "frame-ancestors 'none'",
    ]
