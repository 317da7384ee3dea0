"""The addresses of workspace files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.gateway import resource_uris
from covalt_git.gateway.resource_uris import Address

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PATHS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(PATHS)
def test_the_address_of_a_file_names_that_file(path: str) -> None:
    assert resource_uris.parse(resource_uris.file("c1", path)) == Address("c1", None, path)
    then = resource_uris.file("c1", path, manifest_id=COMMIT)
    assert resource_uris.parse(then) == Address("c1", COMMIT, path)
    assert then.isascii()


def test_the_address_of_a_manifest_names_that_manifest() -> None:
    assert resource_uris.parse(resource_uris.manifest("c1", COMMIT)) == Address("c1", COMMIT, None)


def test_the_address_of_a_calls_page_names_that_page() -> None:
    uri = resource_uris.artifact("c1", COMMIT)
    assert resource_uris.parse(uri) == Address("c1", COMMIT, None, is_artifact=True)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd",
        "covalt-git://chats/c1",
        "covalt-git://chats/c1/files/",
        "covalt-git://chats/../files/a",
        "covalt-git://chats/c1/manifests/main/files/a",
        "covalt-git://chats/c1/files/%ff",
        "covalt-git://chats/c1/artifact",
        f"covalt-git://chats/c1/manifests/{COMMIT}/artifact/x",
    ],
)
def test_other_addresses_are_none_of_ours(uri: str) -> None:
    assert resource_uris.parse(uri) is None
