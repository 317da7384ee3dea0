"""Addresses with arguments: what they become, what is refused, and that no value leaves the prefix."""

from urllib.parse import unquote, urljoin, urlsplit

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covalt_git.templating.references import Reference
from covalt_git.templating.url_templates import BadTemplateError, BadValueError, UrlTemplate
from tests.tables import tables

TABLES = tables(__file__)

OUTSIDE = {
    "BASE": "https://b.example.com:8443/api/",
    "KEY": "s&=/ü",
    "UP": "https://b.example.com/..",
}


def outside(reference: Reference) -> str | None:
    return OUTSIDE.get(reference.name)


def expand(template: str, **values: object) -> str:
    return UrlTemplate.parse(template).expand(values, outside)


@pytest.mark.parametrize(
    ("template", "values", "url"), TABLES["values_are_encoded_at_their_places"]
)
def test_values_are_encoded_at_their_places(
    template: str, values: dict[str, object], url: str
) -> None:
    assert expand(template, **values) == url


@pytest.mark.parametrize(
    ("template", "said"), TABLES["template_whose_host_or_path_is_open_is_refused"]
)
def test_template_whose_host_or_path_is_open_is_refused(template: str, said: str) -> None:
    with pytest.raises(BadTemplateError, match=said):
        UrlTemplate.parse(template)


@pytest.mark.parametrize("name", ["UP", "KEY", "NO"])
def test_base_url_from_outside_is_a_host_and_a_path(name: str) -> None:
    with pytest.raises(BadTemplateError, match="the value of"):
        expand(f"${{{name}}}/x")


UP = [
    *(".", "..", "%2e", "%2E%2e", "%252e%252e", "..;x=1", "a/../b", "a\\..\\b", "..%2fx"),
    *("%2e%2e%5cx", " ..", ".. ", "a/%2e%2e%3bx/b", "/..", "../"),
    # Characters that some servers replace by a dot, two dots, a slash and a backslash.
    *(
        "\u2024.",
        "a/\u2025/b",
        "\uff0e\uff0e",
        "a\uff0f..\uff0fb",
        "a\uff3c..",
        "%E2%80%A5",
        "%25E2%2580%25A5",
    ),
]


@pytest.mark.parametrize("value", UP)
@pytest.mark.parametrize("template", ["https://a.example/v1/{x}/z", "https://a.example/v1/{+x}"])
def test_value_that_a_server_may_read_as_a_way_up_is_refused(template: str, value: str) -> None:
    with pytest.raises(BadValueError):
        expand(template, x=value)


NOT_SEGMENTS: list[object] = ["", None, {"a": 1}, "a\nb", "a\0b", []]


@pytest.mark.parametrize(
    ("template", "values"),
    [
        *[("https://a.example/v1/{x}", value) for value in NOT_SEGMENTS],
        *[("https://a.example/{+x}", value) for value in ("a//b", "/a", "a/")],
    ],
)
def test_value_that_is_not_a_segment_is_refused(template: str, values: object) -> None:
    with pytest.raises(BadValueError):
        expand(template, x=values)


def test_arguments_together_do_not_make_a_way_up() -> None:
    with pytest.raises(BadValueError):
        expand("https://a.example/v1/{x}{y}/z", x=".", y=".")
    with pytest.raises(BadValueError):
        expand("https://a.example/v1/.{x}", x=".")


def as_servers_read(path: str) -> set[str]:
    """Return where a path leads when it is decoded up to three times, slashes of all kinds."""
    found = set()
    for _ in range(4):
        for read in (path, path.replace("\\", "/"), path.replace(";", "/")):
            found.add(urlsplit(urljoin("https://a.example", f"https://a.example{read}")).path)
        path = unquote(path)
    return found


pieces = st.sampled_from(
    [
        *(".", "..", "/", "\\", "%", "%2e", "%2F", "%5c", "%25", "%252e", "%00", ";", "?", "#"),
        *("@", ":", "//", "&", " ", "\t", "\r\n", "\0", "a", "é", "[", "{", "+", "~", "xn--"),
        "http://",
        *("\u3002", "\uff0e", "\uff0f", "\u2215", "\u202e", "${KEY}", "$args.x", "evil.example"),
    ]
)
values = st.text() | st.lists(pieces, max_size=8).map("".join)
TEMPLATES = (
    "https://a.example/v1/in/{x}/{y}/end",
    "https://a.example/v1/in/x{x}{y}.json?q={y}",
    "https://a.example/v1/in/{+x}/{y}?a=1&q={x}",
)


@given(values, values)
@example("..", "x")
@example("..%2f..%2f", "%2e%2e;/")
def test_no_value_leaves_the_origin_and_the_prefix(one: str, two: str) -> None:
    for template in TEMPLATES:
        try:
            url = expand(template, x=one, y=two)
        except BadValueError:
            continue
        split = urlsplit(url)

        assert (split.scheme, split.netloc, split.fragment) == ("https", "a.example", "")
        assert url.isascii()
        assert httpx2.URL(url).raw_path.decode().partition("?")[0] == split.path
        assert all(path.startswith("/v1/in/") for path in as_servers_read(split.path))


@given(st.text("aé~+ ", min_size=1))
def test_a_harmless_value_is_in_the_url_unchanged(value: str) -> None:
    assert unquote(expand("https://a.example/v1/in/{x}", x=value)).endswith(f"/in/{value}")
