"""Pages as they are sent: compressed, and once while they are unchanged."""

import gzip

from werkzeug.test import TestResponse

from tests.api_client import BEARER, HOME, Api


def page(api: Api, path: str, **headers: str) -> TestResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.client().get(path, base_url=HOME, headers=BEARER | named)


def test_a_page_is_compressed_for_clients_that_accept_it(api: Api) -> None:
    plain = page(api, "/chats/c1", Accept_Encoding="identity")
    packed = page(api, "/chats/c1", Accept_Encoding="br, gzip")

    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert int(packed.headers["Content-Length"]) == len(packed.data) < len(plain.data) / 2
    assert gzip.decompress(packed.data).decode().count("A chat") == plain.text.count("A chat") > 0


def test_an_unchanged_page_is_not_sent_again(api: Api) -> None:
    first = page(api, "/chats/c1")
    again = page(api, "/chats/c1", If_None_Match=first.headers["ETag"], Accept_Encoding="gzip")

    assert (again.status_code, again.data) == (304, b"")
    # The stored page has the nonce of its own policy.
    assert "Content-Security-Policy" in first.headers
    assert "Content-Security-Policy" not in again.headers

    api.write("a.txt", "a")
    assert page(api, "/chats/c1", If_None_Match=first.headers["ETag"]).status_code == 200


def test_event_streams_and_errors_are_sent_as_they_are(api: Api) -> None:
    stream = page(api, "/api/events", Accept_Encoding="gzip")
    missing = page(api, "/chats/nowhere", Accept_Encoding="gzip")

    assert "Content-Encoding" not in stream.headers
    assert b"retry: " in bytes(next(stream.iter_encoded()))
    stream.close()
    assert missing.status_code == 404
    assert "ETag" not in missing.headers
