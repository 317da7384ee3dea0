"""Addresses with arguments: what they become, what is refused, and that no value leaves the prefix."""

from __future__ import annotations

from urllib.parse import unquote, urljoin, urlsplit

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
    *(
        ".",
        "..",
        "%2e",
        "%2E%2e",
        "%252e%252e",
        "..;x=1",
        "a/../b",
        "a\\..\\b",
        "..%2fx",
        "%2e%2e%5cx",
    ),
    *(" ..", ".. ", "a/%2e%2e%3bx/b", "/..", "../"),
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
    """Return where a path leads when it is decoded never, once or twice, slashes of all kinds."""
    found = set()
    for _ in range(3):
        for read in (path, path.replace("\\", "/"), path.replace(";", "/")):
            found.add(urlsplit(urljoin("https://a.example", f"https://a.example{read}")).path)
        path = unquote(path)
    return found


values = st.text() | st.from_regex(r"[./\\%25eE2fF;?#@: ]{0,12}", fullmatch=True)


@given(values, values)
@example("..", "x")
@example("..%2f..%2f", "%2e%2e;/")
def test_no_value_leaves_the_origin_and_the_prefix(one: str, two: str) -> None:
    for template in ("https://a.example/v1/in/{x}/{y}?q={y}", "https://a.example/v1/in/{+x}?q={y}"):
        try:
            url = expand(template, x=one, y=two)
        except BadValueError:
            continue
        split = urlsplit(url)

        assert (split.scheme, split.netloc, split.fragment) == ("https", "a.example", "")
        assert url.isascii()
        assert all(path.startswith("/v1/in/") for path in as_servers_read(split.path))
