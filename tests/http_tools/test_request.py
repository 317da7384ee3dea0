"""Which request a manifest and arguments make: every placement, stated and by default."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.http_client import Part, Request
from covalt_git.http_tools.request import BadRequestError, RequestBuilder
from covalt_git.models.toolset_manifest import HttpRequest

if TYPE_CHECKING:
    from covalt_git.templating.references import Reference

FILES = {"reports/a.csv": b"1,2", "b.png": b"\x89PNG", "odd \u2028name": b"?"}
SECRETS = {"KEY": "s3cr&t", "USER": "me"}


def look_up(reference: Reference) -> str | None:
    return SECRETS.get(reference.name, reference.default or None)


def built(text: str, /, **args: Any) -> Request:
    """Return the request of ``http: {...}`` written as YAML, below https://a.example."""
    written = {"url": "https://a.example/x", **(yaml.safe_load(text) or {})}
    http = HttpRequest.model_validate(written)
    return RequestBuilder(http, args, look_up, look_up, FILES.__getitem__).build()


def query(request: Request) -> str:
    return request.url.partition("?")[2]


def headers(request: Request) -> dict[str, str]:
    return dict(request.headers)


# --- by default -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
def test_arguments_that_stand_nowhere_go_to_the_query(method: str) -> None:
    request = built(
        f"{{method: {method}, url: 'https://a.example/{{id}}'}}", id=7, q="a b&c", n=None
    )

    assert request.url == "https://a.example/7?q=a%20b%26c"
    assert (request.content, request.headers) == (b"", ())


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_arguments_that_stand_nowhere_go_into_a_json_body(method: str) -> None:
    request = built(f"{{method: {method}, url: 'https://a.example/{{id}}'}}", id=7, q="ü", n=None)

    assert request.url == "https://a.example/7"
    assert request.content == '{"q":"ü","n":null}'.encode()
    assert request.headers == (("Content-Type", "application/json"),)


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a/b?c=d&e#f+g", "v=a%2Fb%3Fc%3Dd%26e%23f%2Bg"),
        (True, "v=true"),
        (1.0, "v=1"),
        (1.5, "v=1.5"),
        (["a", "b c", None], "v=a&v=b%20c"),
        ([], ""),
        ({"a": [1]}, "v=%7B%22a%22%3A%5B1%5D%7D"),
        ("", "v="),
        ("ü\n", "v=%C3%BC%0A"),
    ],
)
def test_a_value_of_the_query_is_encoded(value: object, written: str) -> None:
    assert query(built("", v=value)) == written


@pytest.mark.parametrize(
    ("style", "value", "written"),
    [
        ("repeat", [1, 2], "v=1&v=2"),
        ("comma", [1, "b,c", "d e&f"], "v=1,b%2Cc,d%20e%26f"),
        ("comma", ["a,b"], "v=a%2Cb"),
        ("comma", [], "v="),
        ("comma", "a,b", "v=a%2Cb"),
        ("json", [1, "b"], "v=%5B1%2C%22b%22%5D"),
        ("deep", {"a": {"b": 1}, "c": [2, 3]}, "v%5Ba%5D%5Bb%5D=1&v%5Bc%5D=2&v%5Bc%5D=3"),
        ("json", {"a": 1}, "v=%7B%22a%22%3A1%7D"),
    ],
)
def test_a_style_says_how_lists_and_objects_are_written(
    style: str, value: object, written: str
) -> None:
    assert query(built(f"parameters: {{v: {{in: query, style: {style}}}}}", v=value)) == written


def test_commas_stand_between_the_items_of_forms_addresses_and_headers_too() -> None:
    form = built(
        "{method: POST, body: form, parameters: {v: {in: body, style: comma}}}", v=["a,b", 1]
    )
    path = built("url: 'https://a.example/{v}/x?v={v}&w=1'", v=["a,b", "c/d"])
    header = built("parameters: {v: {in: header}}", v=["a", "b"])

    assert form.content == b"v=a%2Cb,1"
    assert path.url == "https://a.example/a%2Cb,c%2Fd/x?v=a%2Cb,c%2Fd&w=1"
    assert headers(header) == {"v": "a,b"}


# --- as the manifest says -------------------------------------------------------------------------


def test_parameters_say_where_arguments_go_and_what_they_are_called_there() -> None:
    request = built(
        """
        method: POST
        url: https://a.example/{town}
        parameters:
          city: {in: path, name: town}
          page: {in: query, name: p}
          trace: {in: header, name: X-Trace}
          session: {in: cookie}
          text: {in: body, name: content}
        """,
        city="Kiel",
        page=2,
        trace=["a", "b"],
        session="a;b c",
        text="hi",
        rest=True,
    )

    assert request.url == "https://a.example/Kiel?p=2"
    assert headers(request) == {
        "Content-Type": "application/json",
        "X-Trace": "a,b",
        "Cookie": "session=a%3Bb%20c",
    }
    assert json.loads(request.content) == {"content": "hi", "rest": True}


def test_written_parts_hold_arguments_and_what_lives_outside() -> None:
    request = built(
        """
        query: {units: metric, days: $args.days, many: $args.many, key: "${KEY}", limit: 5, all: true}
        headers: {Authorization: "Bearer ${KEY}", X-Of: "${USER}/${args.days}", X-Not: "${NOTHING:-}"}
        cookies: {seen: "$args.days", not: $args.none}
        """,
        days=3,
        many=["a", "b"],
        other="x",
    )

    assert query(request) == (
        "units=metric&days=3&many=a&many=b&key=s3cr%26t&limit=5&all=true&other=x"
    )
    assert headers(request) == {
        "Authorization": "Bearer s3cr&t",
        "X-Of": "me/3",
        "Cookie": "seen=3",
    }


def test_an_entry_that_names_an_argument_which_was_not_given_is_left_out() -> None:
    text = """
    method: POST
    url: https://a.example/x?of={of}
    query: {a: $args.a, b: "from $args.b to $args.a"}
    headers: {X-A: $args.a}
    body: {json: {a: $args.a, list: [$args.a, 1], inner: {a: $args.a.b}}}
    """

    assert built(text) == Request(
        "POST",
        "https://a.example/x",
        (("Content-Type", "application/json"),),
        b'{"list":[1],"inner":{}}',
        within="https://a.example/",
    )


def test_a_written_json_body_keeps_the_types_of_arguments() -> None:
    text = """
    method: POST
    body:
      json:
        query: "query { city(name: $$name) }"
        variables: {name: $args.city, near: $args.near, key: "${KEY}"}
        note: "${args.city}: $args.near"
        fixed: [1, true, null]
    """
    request = built(text, city='Ki"el', near={"km": 5}, page=2)

    assert json.loads(request.content) == {
        "query": "query { city(name: $name) }",
        "variables": {"name": 'Ki"el', "near": {"km": 5}, "key": "s3cr&t"},
        "note": 'Ki"el: {"km":5}',
        "fixed": [1, True, None],
    }
    assert query(request) == "page=2"


def test_an_argument_never_asks_for_a_secret_or_another_argument() -> None:
    request = built(
        '{url: "https://a.example/{p}", headers: {X-A: "$args.a", X-B: "is ${args.a}"}}',
        a="${KEY} $args.b $$",
        b="hidden",
        p="${KEY}",
    )

    assert headers(request) == {"X-A": "${KEY} $args.b $$", "X-B": "is ${KEY} $args.b $$"}
    assert request.url == "https://a.example/%24%7BKEY%7D?b=hidden"


# --- bodies ---------------------------------------------------------------------------------------


def test_a_form_is_encoded() -> None:
    request = built("{method: POST, body: form}", a="x y&z", b=[1, 2], c={"d": 1})

    assert parse_qsl(request.content.decode()) == [
        *(("a", "x y&z"), ("b", "1"), ("b", "2"), ("c", '{"d":1}')),
    ]
    assert request.headers == (("Content-Type", "application/x-www-form-urlencoded"),)


def test_a_multipart_body_has_fields_and_files_of_the_workspace() -> None:
    text = """
    method: POST
    body: multipart
    headers: {Content-Type: text/plain}
    parameters: {report: {in: body, name: upload, file: true}}
    """
    request = built(text, report=["reports/a.csv", "workspace:b.png"], note="hi", n=2)

    assert request.parts == (
        Part("upload", b"1,2", "a.csv", "text/csv"),
        Part("upload", b"\x89PNG", "b.png", "image/png"),
        Part("note", b"hi"),
        Part("n", b"2"),
    )
    assert request.headers == ()


def test_a_written_multipart_body_names_files_by_the_template_and_never_by_data() -> None:
    text = """
    method: POST
    body: {multipart: {file: $workspace/$args.path, note: $args.note, not: $workspace/$args.none}}
    """
    request = built(text, path="reports/a.csv", note="$workspace/b.png")

    assert request.parts == (
        Part("file", b"1,2", "a.csv", "text/csv"),
        Part("note", b"$workspace/b.png"),
    )


def test_a_text_is_a_body_of_its_own() -> None:
    request = built("{method: POST, body: text}", text="ü")
    written = built(
        '{method: POST, body: {text: "<a>$args.t</a>"}, headers: {content-type: a/b}}', t=1
    )

    assert request.content == "ü".encode()
    assert headers(request) == {"Content-Type": "text/plain; charset=utf-8"}
    assert (written.content, written.headers) == (b"<a>1</a>", (("content-type", "a/b"),))


# --- what no request can carry --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "args", "place"),
    [
        ("url: 'https://a.example/{p}'", {}, "$.p"),
        ("url: 'https://a.example/v1/{p}/x'", {"p": ".."}, "$.p"),
        (
            "{url: 'https://a.example/{p}', parameters: {city: {in: path, name: p}}}",
            {"city": ""},
            "$.city",
        ),
        ("url: 'https://a.example/{p}'", {"p": {}}, "$.p"),
        ("{method: POST, body: text}", {"a": 1, "b": 2}, "$.b"),
        (
            "{method: POST, body: multipart, parameters: {f: {in: body, file: true}}}",
            {"f": 1},
            "$.f",
        ),
    ],
)
def test_an_argument_without_a_place_is_refused_by_name(
    text: str, args: dict[str, Any], place: str
) -> None:
    with pytest.raises(BadRequestError) as caught:
        built(text, **args)

    assert caught.value.place == place


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0", "ü", "a\x7f", "\u2028"])
@pytest.mark.parametrize(
    "text",
    ["parameters: {v: {in: header}}", 'headers: {X-V: "x $args.v"}', "headers: {X-V: $args.v}"],
)
def test_a_header_holds_no_second_line_and_no_letter_it_cannot(text: str, value: str) -> None:
    with pytest.raises(BadRequestError, match="line break or a letter"):
        built(text, v=value)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.text(), max_size=4))
def test_what_goes_into_query_and_cookies_comes_out_as_it_was(args: dict[str, str]) -> None:
    request = built("headers: {X: y}", **args)
    cookies = built(json.dumps({"parameters": {name: {"in": "cookie"} for name in args}}), **args)

    split = urlsplit(request.url)
    assert dict(parse_qsl(split.query, keep_blank_values=True)) == args
    assert (split.netloc, split.path, split.fragment) == ("a.example", "/x", "")
    line = headers(cookies).get("Cookie", "")
    assert line.isascii()
    assert line.isprintable()
    assert line.count(";") == max(0, len(args) - 1)
