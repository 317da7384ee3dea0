"""Addresses with variables in them: which are one, and what the variables are then."""

from __future__ import annotations

import pytest

from covalt_git.templating.uri_templates import BadUriTemplateError, UriTemplate


@pytest.mark.parametrize(
    ("template", "address", "values"),
    [
        ("docs://{chapter}", "docs://intro", {"chapter": "intro"}),
        ("docs://{chapter}", "docs://a/b", None),
        ("docs://{chapter}", "docs://", None),
        ("docs://{chapter}", "other://intro", None),
        ("docs://{a}/{+rest}", "docs://x/y/z.md", {"a": "x", "rest": "y/z.md"}),
        ("docs://{a}.md", "docs://x.y.md", {"a": "x.y"}),
        ("docs://{a}.md", "docs://xymd", None),
        ("docs://{a}", "docs://50%25%20of", {"a": "50% of"}),
        ("docs://{a}", "docs://..%2F..%2Fsecret", {"a": "../../secret"}),
        ("docs://{a}", "docs://%ff", None),
        ("docs://{a}", "docs://" + "x" * 9000, None),
        ("docs://all", "docs://all", {}),
    ],
)
def test_an_address_has_values(template: str, address: str, values: dict[str, str] | None) -> None:
    assert UriTemplate.parse(template).match(address) == values


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("a:{b}{c}", "nothing stands between 'b' and 'c'"),
        ("a:{b}/{b}", "'b' stands in it twice"),
        ("a:{+b}/{+c}", "more than one variable"),
        ("a:{b*}", "a brace that belongs to no variable"),
        ("a:{b", "a brace that belongs to no variable"),
        ("a:{?q}", "a brace that belongs to no variable"),
    ],
)
def test_a_template_without_one_meaning_is_refused(template: str, why: str) -> None:
    with pytest.raises(BadUriTemplateError, match=why):
        UriTemplate.parse(template)


def test_names_are_in_their_order() -> None:
    assert UriTemplate.parse("a:{b}/{+c}").variables == ("b", "c")
