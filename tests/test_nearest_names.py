"""The names that errors propose are similar after the namespace, however a user separates it."""

import pytest

from covalt_git.errors import nearest_name


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("text-kit:nope", None),
        ("text-kit.nope", None),
        ("text-kit.previw", "text-kit:preview"),
        ("text-kt.preview", "text-kit:preview"),
    ],
)
def test_a_proposed_name_is_similar_after_its_namespace(name: str, nearest: str | None) -> None:
    assert nearest_name(name, ["text-kit:preview"]) == nearest
