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
def test_uri_has_the_values_of_its_variables(
    template: str, address: str, values: dict[str, str] | None
) -> None:
    parsed = UriTemplate.parse(template)

    assert parsed.match(address) == values
    assert values is None or parsed.variables == tuple(values)


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
def test_ambiguous_template_is_refused(template: str, why: str) -> None:
    with pytest.raises(BadUriTemplateError, match=why):
        UriTemplate.parse(template)
