"""Signatures in commits: split as git does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.git_store.objects import CommitObject, decode_commit, encode_commit, split_signature

PERSON = "a <a@b>"
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
signatures = st.lists(st.text("AB+/= ", min_size=1), min_size=1).map("\n".join)


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@given(message=texts, signature=signatures)
def test_a_signature_is_split_from_what_it_signs(
    object_format: str, message: str, signature: str
) -> None:
    commit = CommitObject("1" * 40, ("2" * 40,), PERSON, PERSON, 1, message)
    content = encode_commit(commit._replace(signature=signature), object_format)

    assert split_signature(content, object_format) == (encode_commit(commit), signature.encode())
    assert split_signature(encode_commit(commit), object_format) == (encode_commit(commit), b"")
    assert decode_commit(content) == commit


def test_headers_of_several_lines_stay_and_two_signatures_are_none() -> None:
    tag = b"mergetag object 3\n type commit\n"
    head, end = b"tree 1\n", b"committer c\n\nmessage\ngpgsig of the message\n"
    signed = b"gpgsig A\n B\n"
    assert split_signature(head + signed + tag + end, "sha1") == (head + tag + end, b"A\nB")
    for other in (b"gpgsig C\n", b"gpgsig-sha256 C\n"):
        assert split_signature(head + signed + other + end, "sha1") == (head + end, b"")
    assert split_signature(head + b"gpgsig-sha256 C\n" + end, "sha1") == (head + end, b"")
