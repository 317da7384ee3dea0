"""The requirements are complete: each line of the documents has one, and each that holds has a test."""

import hashlib

import pytest

from tests.specification.marks import SEEDS, marked, read
from tests.specification.page import COLUMNS, PAGE, page

CONTENT = read("requirements.yaml")
REQUIREMENTS = CONTENT["requirements"]
LINES = read("lines.yaml")


def test_every_requirement_has_a_status_with_its_facts() -> None:
    for name, entry in REQUIREMENTS.items():
        assert set(entry) == {"status", *COLUMNS.get(entry.get("status"), ())}, name
        assert name.partition("-")[0] in CONTENT["documents"], name
        assert entry.get("capability", "formats") in CONTENT["capabilities"], name


def test_every_requirement_that_holds_has_a_test() -> None:
    tests = marked()

    assert [one for one in tests if one not in REQUIREMENTS] == []
    held = [name for name, entry in REQUIREMENTS.items() if entry["status"] == "holds"]
    assert [one for one in held if one not in tests] == []
    planned = [name for name, entry in REQUIREMENTS.items() if entry["status"] == "planned"]
    assert [one for one in planned if one in tests] == []


def test_every_requirement_has_a_line() -> None:
    mapped = {
        name
        for document in LINES.values()
        for target in document["lines"].values()
        if isinstance(target, list)
        for name in target
    }

    assert mapped == set(REQUIREMENTS)


@pytest.mark.skipif(not SEEDS.exists(), reason="the documents are not next to this checkout")
@pytest.mark.parametrize("file", [one["file"] for one in CONTENT["documents"].values()])
def test_every_line_of_a_document_is_mapped(file: str) -> None:
    content = (SEEDS / file).read_bytes()
    mapped: list[int] = []
    for span, target in LINES[file]["lines"].items():
        first, _, last = span.partition("-")
        mapped += range(int(first), int(last or first) + 1)
        kinds = [{"none": one} for one in ("heading", "example", "marketing")]
        assert isinstance(target, list) or target in kinds, span

    assert hashlib.sha256(content).hexdigest() == LINES[file]["sha256"]
    assert mapped == sorted(set(mapped))
    lines = content.decode().splitlines()
    assert max(mapped) <= len(lines)
    unmapped = [at for at, line in enumerate(lines, 1) if line.strip() and at not in mapped]
    assert unmapped == []


def test_the_page_is_up_to_date() -> None:
    """``python -m tests.specification`` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()
