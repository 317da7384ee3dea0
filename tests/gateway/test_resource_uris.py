"""URIs of workspace files, commits and pages."""

from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.gateway.resources import resource_uris
from covalt_git.gateway.resources.resource_uris import ResourceUri
from tests.examples import examples

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PATHS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)


@settings(max_examples=examples(50))
@given(PATHS)
def test_the_uri_of_a_file_is_parsed_to_that_file(path: str) -> None:
    assert resource_uris.parse(resource_uris.file("c1", path)) == ResourceUri("c1", None, path)
    uri = resource_uris.file("c1", path, manifest_id=COMMIT)
    assert resource_uris.parse(uri) == ResourceUri("c1", COMMIT, path)
    assert uri.isascii()


def test_other_uris_are_not_parsed() -> None:
    others = ("", "/files/", "/files/%ff", "/artifact", "/manifests/main/files/a")
    for end in (*others, f"/manifests/{COMMIT}/artifact/x"):
        assert resource_uris.parse(f"covalt-git://chats/c1{end}") is None
