"""The pages of the HTTP API: what the OpenAPI document has, as a user reads it."""

from pathlib import Path

import pytest

from covalt_server.api import reference
from covalt_server.api.every_operation import OPERATIONS, api_document
from tests.server.visitor import Visitor


@pytest.fixture
def visitor(root: Path) -> Visitor:
    return Visitor.of(root)


def test_the_footer_leads_to_a_list_of_all_operations(visitor: Visitor) -> None:
    page = visitor.open(visitor.open("/").link("API"))

    names = {one.name for one in OPERATIONS}
    assert names <= {one.text for one in page.links}
    assert "/api/openapi.json" in [one.href for one in page.links]


def test_an_operation_has_its_request_its_result_and_the_objects_of_its_fields(
    visitor: Visitor,
) -> None:
    page = visitor.open("/reference/merge_branch")

    assert "POST /api/merge_branch" in page.text
    for field in ("fast_forward", "resolutions", "taken_back_by"):
        assert f"<code>{field}</code>" in page.source
    assert 'href="#Conflict"' in page.source
    assert '<h2 id="Conflict">' in page.source
    assert "the <code>status</code> is <code>conflicts</code>" in page.source


def test_each_reference_to_an_object_is_on_the_page_of_its_operation() -> None:
    document = api_document("")
    for operation in reference.operations(document):
        parts = reference.parts_of(operation)
        objects = reference.objects(document, parts)
        parts += [part for one in objects for part in reference.parts_of(one)]

        assert {part.schema for part in parts} - {""} == {one.name for one in objects}


def test_an_unknown_operation_is_an_error_that_names_the_nearest(visitor: Visitor) -> None:
    page = visitor.open("/reference/merge_brunch")

    assert page.status == 404
    assert "Did you mean 'merge_branch'?" in page.text
