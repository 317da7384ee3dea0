"""A result is a reference to a file only if it is nothing else besides."""

from typing import Any

import pytest

from covalt_git.models.file_reference import is_reference

FILE = {"file": "a.png", "size": 1, "media_type": "image/png"}
TEXT = {"uri": "note:1", "media_type": "text/plain", "text": "hello"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, True) for value in (FILE, {**FILE, "uri": "shot:1"}, TEXT)),
        *((value, False) for value in (None, "a.png", {}, {"file": "a.png"})),
        *((value, False) for value in ({**FILE, "size": "1"}, {**FILE, "rows": 2})),
    ],
)
def test_only_files_and_embedded_resources_are_references(value: Any, *, expected: bool) -> None:
    assert is_reference(value) is expected
