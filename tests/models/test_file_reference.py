"""A result is a reference to a file only if it is nothing else besides."""

from __future__ import annotations

from typing import Any

import pytest

from covalt_git.models.file_reference import is_reference

FILE = {"file": "a.png", "size": 1, "media_type": "image/png"}
TEXT = {"uri": "note:1", "media_type": "text/plain", "text": "hello"}


@pytest.mark.parametrize("value", [FILE, {**FILE, "uri": "shot:1"}, TEXT])
def test_files_and_embedded_resources_are_references(value: Any) -> None:
    assert is_reference(value)


@pytest.mark.parametrize(
    "value", [None, "a.png", {}, {**FILE, "size": "1"}, {**FILE, "rows": 2}, {"file": "a.png"}]
)
def test_other_values_are_not(value: Any) -> None:
    assert not is_reference(value)
