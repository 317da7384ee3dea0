"""Which request a manifest and arguments make: every placement, stated and by default."""

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.http_client import ClientRequest, FormPart
from covalt_git.http_tools.request import BadRequestError, RequestBuilder
from covalt_git.models.tool_properties import HttpRequest
from covalt_git.templating.references import Reference
from tests.tables import tables

URL = "https://a.example/x"
FILES = {"reports/a.csv": b"1,2", "b.png": b"PNG", "odd \u2028name": b"?"}
SECRETS = {"KEY": "s3cr&t", "USER": "me"}
TABLES = tables(__file__)
REQUESTS: dict[str, dict[str, Any]] = dict(TABLES["requests"])


def lookup(reference: Reference) -> str | None:
    return SECRETS.get(reference.name, reference.default or None)


def built(http: dict[str, Any], args: dict[str, Any]) -> ClientRequest:
    """Return the request of the http part of a tool, below https://a.example."""
    model = HttpRequest.model_validate({"url": URL, **http})
    return RequestBuilder(model, args, lookup, lookup, FILES.__getitem__).build()


@pytest.mark.requirement("cognipeer-flow.request")
@pytest.mark.parametrize("name", REQUESTS)
def test_request_of_a_manifest_and_arguments(name: str) -> None:
    row = REQUESTS[name]
    request = built(row["http"], row.get("args", {}))
    parts = tuple(FormPart(part[0], part[1].encode(), *part[2:]) for part in row.get("parts", []))

    assert request.method == row["http"].get("method", "GET")
    assert request.url == row.get("url", URL)
    assert dict(request.headers) == row.get("headers", {})
    assert request.parts == parts
    if "json" in row:
        assert json.loads(request.content) == row["json"]
    else:
        assert request.content.decode() == row.get("content", "")
    assert request.within == "https://a.example/"


@pytest.mark.parametrize(("value", "query"), TABLES["values"])
def test_a_value_of_the_query_is_encoded(value: object, query: str) -> None:
    assert urlsplit(built({}, {"v": value}).url).query == query


@pytest.mark.parametrize(("style", "value", "query"), TABLES["styles"])
def test_a_style_says_how_lists_and_objects_are_written(
    style: str, value: object, query: str
) -> None:
    http = {"parameters": {"v": {"in": "query", "style": style}}}

    assert urlsplit(built(http, {"v": value}).url).query == query


@pytest.mark.parametrize(("http", "args", "place"), TABLES["refused"])
def test_an_argument_without_a_place_is_refused_by_name(
    http: dict[str, Any], args: dict[str, Any], place: str
) -> None:
    with pytest.raises(BadRequestError) as caught:
        built(http, args)

    assert caught.value.place == place


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0", "ü", "a\x7f", "\u2028"])
@pytest.mark.parametrize(
    "http",
    [
        {"parameters": {"v": {"in": "header"}}},
        {"headers": {"X-V": "x $args.v"}},
        {"headers": {"X-V": "$args.v"}},
    ],
)
def test_a_header_holds_no_second_line_and_no_letter_it_cannot(
    http: dict[str, Any], value: str
) -> None:
    with pytest.raises(BadRequestError):
        built(http, {"v": value})


def test_names_that_no_host_takes_for_each_other_are_sent() -> None:
    """Arguments of dotted names have no place of their own, and are no parts of each other."""
    args = {"user.name": "a", "user.email": "b", "user_id": 1, "users": 2}

    assert dict(parse_qsl(urlsplit(built({}, args).url).query)) == {
        "user.name": "a",
        "user.email": "b",
        "user_id": "1",
        "users": "2",
    }


@pytest.mark.parametrize("value", [" prod", "prod ", "\tprod"])
def test_a_header_with_blanks_around_its_value_is_not_sent_without_them(value: str) -> None:
    """HTTP removes the blanks: a rule about ``prod`` has compared another value than the one that arrives."""
    with pytest.raises(BadRequestError):
        built({"parameters": {"v": {"in": "header"}}}, {"v": value})
    with pytest.raises(BadRequestError):
        built({"headers": {"X-V": "$args.v"}}, {"v": value})


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.text(), max_size=4))
def test_values_of_query_and_cookies_arrive_unchanged(args: dict[str, str]) -> None:
    request = built({"headers": {"X": "y"}}, args)
    cookies = built({"parameters": {name: {"in": "cookie"} for name in args}}, args)

    split = urlsplit(request.url)
    assert dict(parse_qsl(split.query, keep_blank_values=True)) == args
    assert (split.netloc, split.path, split.fragment) == ("a.example", "/x", "")
    line = dict(cookies.headers).get("Cookie", "")
    assert line.isascii()
    assert line.isprintable()
    assert line.count(";") == max(0, len(args) - 1)
