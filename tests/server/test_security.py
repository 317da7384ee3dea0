"""Who may speak to the server: a table of every route and every way to have no business there."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st

from tests.api_client import BEARER, HOME, PORT, TOKEN, Api, configure, refused

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

OWN_HOST = f"127.0.0.1:{PORT}"
RIGHT = {"Host": OWN_HOST, "Accept": "application/json", **BEARER}
CODES = {"wrong_host", "wrong_origin", "no_token"}


@pytest.fixture(scope="module")
def server(sample_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Api:
    """A server of a project with one chat, in which the routes may do what they like."""
    api = Api.of(Path(shutil.copytree(sample_project, tmp_path_factory.mktemp("guard") / "it")))
    api.post("create_chat", chat_id="c1")
    return api


def routes(app: Flask) -> list[tuple[str, str]]:
    """Return the method and the path of everything that the app answers to."""
    adapter = app.url_map.bind(OWN_HOST)
    return [
        (method, adapter.build(rule.endpoint, dict.fromkeys(rule.arguments, "1"), method=method))
        for rule in app.url_map.iter_rules()
        for method in sorted(rule.methods or ())
    ]


def send(app: Flask, method: str, path: str, headers: dict[str, str]) -> TestResponse:
    """Send a request with these headers and no others."""
    head, _, query = path.partition("?")
    return app.test_client(use_cookies=False).open(
        "/",
        method=method,
        headers={name: value for name, value in headers.items() if name != "Host"},
        environ_overrides={
            "HTTP_HOST": headers.get("Host", ""),
            "PATH_INFO": head,
            "QUERY_STRING": query,
        },
    )


def without_token(**headers: str) -> dict[str, str]:
    return {name: text for name, text in RIGHT.items() if name != "Authorization"} | headers


FOREIGN = [
    pytest.param(RIGHT | {"Host": "evil.example"}, 421, "wrong_host", id="host"),
    pytest.param(RIGHT | {"Host": f"evil.example:{PORT}"}, 421, "wrong_host", id="host-our-port"),
    pytest.param(RIGHT | {"Host": "127.0.0.1:9999"}, 421, "wrong_host", id="port-of-another"),
    pytest.param(RIGHT | {"Host": "127.0.0.1"}, 421, "wrong_host", id="no-port"),
    pytest.param(RIGHT | {"Host": ""}, 421, "wrong_host", id="no-host"),
    pytest.param(RIGHT | {"Host": f"localhost.evil:{PORT}"}, 421, "wrong_host", id="host-begins"),
    pytest.param(RIGHT | {"Host": f"x.localhost:{PORT}"}, 421, "wrong_host", id="host-ends"),
    pytest.param(RIGHT | {"Host": f"0.0.0.0:{PORT}"}, 421, "wrong_host", id="any-address"),
    pytest.param(RIGHT | {"Origin": "https://evil.example"}, 403, "wrong_origin", id="origin"),
    pytest.param(RIGHT | {"Origin": "null"}, 403, "wrong_origin", id="origin-null"),
    pytest.param(RIGHT | {"Origin": ""}, 403, "wrong_origin", id="origin-empty"),
    pytest.param(
        RIGHT | {"Origin": "http://127.0.0.1:9999"}, 403, "wrong_origin", id="origin-other-port"
    ),
    pytest.param(
        RIGHT | {"Origin": f"{HOME}.evil.example"}, 403, "wrong_origin", id="origin-begins"
    ),
    pytest.param(
        RIGHT | {"Sec-Fetch-Site": "cross-site"}, 403, "wrong_origin", id="fetched-cross-site"
    ),
    pytest.param(
        RIGHT | {"Sec-Fetch-Site": "same-site"}, 403, "wrong_origin", id="fetched-same-site"
    ),
    pytest.param(RIGHT | {"Sec-Fetch-Site": "x"}, 403, "wrong_origin", id="fetched-from-nowhere"),
    pytest.param(without_token(), 401, "no_token", id="no-token"),
    pytest.param(without_token(Authorization="Bearer "), 401, "no_token", id="empty-token"),
    pytest.param(
        without_token(Authorization=f"Bearer {TOKEN[:-1]}"), 401, "no_token", id="token-begun"
    ),
    pytest.param(
        without_token(Authorization=f"Bearer {TOKEN}x"), 401, "no_token", id="token-and-more"
    ),
    pytest.param(without_token(Authorization=f"Basic {TOKEN}"), 401, "no_token", id="basic"),
    pytest.param(without_token(Cookie=f"covalt_git_{PORT}=x"), 401, "no_token", id="wrong-cookie"),
    pytest.param(
        without_token(Cookie=f"covalt_git_9999={TOKEN}"), 401, "no_token", id="cookie-of-another"
    ),
]


@pytest.mark.parametrize(("headers", "status", "code"), FOREIGN)
def test_every_route_refuses(server: Api, headers: dict[str, str], status: int, code: str) -> None:
    for method, path in routes(server.app):
        answer = send(server.app, method, path, headers)

        assert answer.status_code == status, (method, path)
        assert "Set-Cookie" not in answer.headers, (method, path)
        if method != "HEAD":
            refused(answer, status, code)


GOOD = [
    pytest.param(RIGHT, id="bearer"),
    pytest.param(without_token(Cookie=f"covalt_git_{PORT}={TOKEN}"), id="cookie"),
    pytest.param(RIGHT | {"Host": f"localhost:{PORT}"}, id="localhost"),
    pytest.param(RIGHT | {"Host": f"LOCALHOST:{PORT}"}, id="capitals"),
    pytest.param(RIGHT | {"Host": f"[::1]:{PORT}"}, id="ipv6"),
    pytest.param(RIGHT | {"Origin": HOME, "Sec-Fetch-Site": "same-origin"}, id="our-page"),
    pytest.param(RIGHT | {"Sec-Fetch-Site": "none"}, id="typed"),
]


@pytest.mark.parametrize("headers", GOOD)
def test_every_route_lets_the_right_request_in(server: Api, headers: dict[str, str]) -> None:
    for method, path in routes(server.app):
        answer = send(server.app, method, path, headers)

        assert answer.status_code not in {401, 421}, (method, path)
        if answer.mimetype == "application/json" and answer.get_data():
            told = json.loads(answer.get_data())
            assert not isinstance(told, dict) or told.get("error") not in CODES, (method, path)


def test_a_route_that_is_none_is_not_told_to_strangers(server: Api) -> None:
    for headers, status in ((without_token(), 401), (RIGHT | {"Host": "evil"}, 421)):
        assert send(server.app, "GET", "/no/such/page", headers).status_code == status
        assert send(server.app, "GET", "/api/no_such_operation", headers).status_code == status


def test_a_host_that_the_project_names_is_answered_to(root: Path) -> None:
    configure(root, "server: {allowed_hosts: [tools.example]}")
    app = Api.of(root).app

    for host in ("tools.example", f"tools.example:{PORT}"):
        headers = RIGHT | {"Host": host, "Origin": f"https://{host}"}
        assert send(app, "GET", "/api/list_chats", headers).status_code == 200
    assert send(app, "GET", "/", RIGHT | {"Host": "tools.example:1"}).status_code == 421


# The address that is printed


def test_the_printed_address_becomes_a_cookie_and_leaves_the_bar(server: Api) -> None:
    answer = send(server.app, "GET", f"/?token={TOKEN}", without_token())

    assert answer.status_code == 303
    assert answer.headers["Location"] == "/"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Set-Cookie"] == (
        f"covalt_git_{PORT}={TOKEN}; HttpOnly; Path=/; SameSite=Strict"
    )
    client = server.client()
    client.get("/", base_url=HOME, query_string={"token": TOKEN})
    assert client.get("/api/list_chats", base_url=HOME).status_code == 200
    assert client.post("/api/create_chat", base_url=HOME, json={}).status_code == 200


def test_a_wrong_token_in_the_address_is_none(server: Api) -> None:
    answer = send(server.app, "GET", "/?token=guess", without_token())

    refused(answer, 401, "no_token")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="covalt-git"'
    assert "Set-Cookie" not in answer.headers


def test_the_address_is_for_following_links_only(server: Api) -> None:
    refused(
        send(server.app, "POST", f"/api/create_chat?token={TOKEN}", without_token()),
        401,
        "no_token",
    )


def test_a_foreign_page_cannot_sign_anybody_in(server: Api) -> None:
    path = f"/?token={TOKEN}"
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        refused(send(server.app, "GET", path, without_token(**headers)), 403, "wrong_origin")


@pytest.mark.parametrize(
    ("path", "location"),
    [
        pytest.param(f"/tools?q=a%26b&token={TOKEN}&page=2", "/tools?q=a%26b&page=2", id="query"),
        pytest.param(f"/chats/c1?token={TOKEN}", "/chats/c1", id="path"),
        pytest.param(f"/a?x=1&x=2&token={TOKEN}", "/a?x=1&x=2", id="twice"),
        pytest.param(
            f"/a?next=//evil.example&token={TOKEN}", "/a?next=%2F%2Fevil.example", id="next"
        ),
        pytest.param(f"//evil.example/x?token={TOKEN}", "/evil.example/x", id="two-slashes"),
        pytest.param(f"///evil.example?token={TOKEN}", "/evil.example", id="three-slashes"),
        pytest.param(f"/\\evil.example?token={TOKEN}", "/evil.example", id="backslash"),
        pytest.param(f"/\\/\\evil.example?token={TOKEN}", "/evil.example", id="mixed"),
        pytest.param(
            f"/a\r\nSet-Cookie: x=y?token={TOKEN}", "/a%0D%0ASet-Cookie:%20x%3Dy", id="lines"
        ),
        pytest.param(f"/a b?token={TOKEN}", "/a%20b", id="space"),
    ],
)
def test_the_rest_of_the_address_is_kept_and_stays_here(
    server: Api, path: str, location: str
) -> None:
    answer = send(server.app, "GET", path, without_token())

    assert answer.status_code == 303
    assert answer.headers["Location"] == location


@given(path=st.text(alphabet="/\\:.@?#%aevil \t\n\r;ü", max_size=12))
def test_no_address_leads_to_another_host(server: Api, path: str) -> None:
    answer = server.client().open(
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


def test_every_answer_is_sealed(server: Api) -> None:
    asked = [*routes(server.app), ("GET", "/no/such/page"), ("GET", "/api/no_such_operation")]
    for method, path in asked:
        for headers in (RIGHT, without_token(), RIGHT | {"Accept": "text/html"}):
            answer = send(server.app, method, path, headers)

            assert answer.headers["X-Content-Type-Options"] == "nosniff", (method, path)
            assert answer.headers["Referrer-Policy"] == "same-origin", (method, path)
            assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin", (method, path)
            assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin", (method, path)
            assert answer.headers["Content-Security-Policy"], (method, path)
            assert "Cache-Control" in answer.headers or method == "OPTIONS", (method, path)
            assert "Access-Control-Allow-Origin" not in answer.headers, (method, path)


def test_a_page_allows_nothing_from_elsewhere(server: Api) -> None:
    policies = [
        send(server.app, "GET", "/no/such/page", RIGHT).headers["Content-Security-Policy"]
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


def test_whoever_came_for_a_page_is_refused_with_a_page(server: Api) -> None:
    for headers, status in ((without_token(), 401), (RIGHT | {"Host": "evil"}, 421)):
        answer = send(server.app, "GET", "/", headers | {"Accept": "text/html"})

        assert answer.status_code == status
        assert answer.mimetype == "text/html"
        assert TOKEN not in answer.get_data(as_text=True)


def test_an_operation_that_is_none_meets_the_nearest(server: Api) -> None:
    told = refused(send(server.app, "GET", "/api/list_chat", RIGHT), 404, "unknown_operation")
    wrong = send(server.app, "POST", "/api/list_chats", RIGHT)

    assert told["hint"].startswith("did you mean 'list_chats'?")
    refused(wrong, 405, "method_not_allowed")
    assert set(wrong.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}
