"""Edits of a manifest's list keep every other character."""

import pytest

from covalt_git.errors import CovaltError
from covalt_git.manifests.source_entries import with_entry, without_entry

ENTRY = {"id": "pets", "type": "openapi", "spec": "specs/pets.yaml", "include": ["pets.*"]}
ADDED = """\
  - id: pets
    type: openapi
    spec: specs/pets.yaml
    include:
      - pets.*
"""


def added(text: str) -> str:
    return with_entry(text.encode(), "toolset.yaml", "sources", ENTRY).decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("id: a\n", "id: a\n\nsources:\n" + ADDED),
        ("id: a", "id: a\n\nsources:\n" + ADDED),
        (
            "sources:  # those\n  # one\n  - {id: b}  # b\n\n# end\nid: a\n",
            "sources:  # those\n  # one\n  - {id: b}  # b\n" + ADDED + "\n# end\nid: a\n",
        ),
        (
            "sources:\n- id: b\n  # inner\n  type: x\nid: a\n",
            "sources:\n- id: b\n  # inner\n  type: x\n"
            + "".join(line[2:] for line in ADDED.splitlines(keepends=True))
            + "id: a\n",
        ),
        ("\ufeffid: a\n", "\ufeffid: a\n\nsources:\n" + ADDED),
    ],
)
def test_an_entry_is_added_and_removed_again(before: str, after: str) -> None:
    assert added(before).splitlines() == after.splitlines()
    removed = without_entry(after.encode(), "toolset.yaml", "sources", "pets").decode()
    assert removed.split() == before.split()


@pytest.mark.parametrize("text", ["sources: [{id: b}]\n", "sources: []\n", "{id: a}\n"])
def test_a_text_that_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(CovaltError) as error:
        added(text)

    assert error.value.code == "manifest_not_editable"
