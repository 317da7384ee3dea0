"""Addresses with variables in them: which are one, and what the variables are then."""

import pytest

from covalt_git.templating.uri_templates import BadUriTemplateError, UriTemplate
from tests.tables import tables

TABLES = tables(__file__)


@pytest.mark.parametrize(
    ("template", "address", "values"),
    [*TABLES["values"], ("docs://{a}", "docs://" + "x" * 9000, None)],
)
def test_uri_has_the_values_of_its_variables(
    template: str, address: str, values: dict[str, str] | None
) -> None:
    parsed = UriTemplate.parse(template)

    assert parsed.match(address) == values
    assert values is None or parsed.variables == tuple(values)


@pytest.mark.parametrize(("template", "why"), TABLES["ambiguous"])
def test_ambiguous_template_is_refused(template: str, why: str) -> None:
    with pytest.raises(BadUriTemplateError, match=why):
        UriTemplate.parse(template)
