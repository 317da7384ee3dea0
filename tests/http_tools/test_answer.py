"""Whatever an answer holds, it is a result, an error of the call, or nothing worse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.http_client import Response
from covalt_git.http_tools.answer import BadResultError, error_of, result_of
from covalt_git.json_values import canonical_json
from covalt_git.paths import check_path

text = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=60)
media_types = text | st.sampled_from(
    ["application/json", "text/html; charset=idna", "text/plain; charset*=x'y'z", "a/b", ""]
)
contents = (
    st.binary(max_size=200)
    | st.text(max_size=80).map(str.encode)
    | st.from_regex(rb"[\[{\"]{0,9}<[a-z<>/ ]{0,30}", fullmatch=True)
)


@given(contents, media_types, text, st.integers(200, 599))
def test_every_answer_means_something(
    content: bytes, media_type: str, disposition: str, status: int
) -> None:
    headers = {"content-type": media_type, "content-disposition": disposition}
    answer = Response("https://a.example/x/y?z", status, "A\x1bB", headers, content)
    saved: list[str] = []

    def save(name: str, _: bytes) -> str:
        saved.append(name)
        return name

    error = error_of(answer, "a.example")
    try:
        result = result_of(answer, save)
    except BadResultError as bad:
        assert str(bad).isprintable()  # noqa: PT017 - either way is right
    else:
        canonical_json.dumps(result)

    assert (error is None) == (status < 300)
    assert error is None or (error.message.isprintable() and len(error.message) < 500)
    assert all(check_path(name).kind == "good" and "/" not in name for name in saved)


@pytest.mark.parametrize(
    ("content", "value", "note"),
    [
        (b'{"id": 9007199254740993}', {"id": "9007199254740993"}, "2^53"),
        (b'{"a": "\\ud83d"}', {"a": "\ufffd"}, "half of a surrogate pair"),
        (b'{"a": 1, "a": 2}', {"a": 2}, "a key twice"),
        (b'{"a": NaN}', {"a": "nan"}, "nan is not a JSON number"),
        (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}, ""),
    ],
)
def test_a_json_value_that_is_stored_in_another_form_has_a_note(
    content: bytes, value: object, note: str
) -> None:
    headers = {"content-type": "application/json"}
    notes: list[str] = []

    result = result_of(
        Response("https://a.example/", 200, "OK", headers, content),
        lambda name, _: name,
        notes.append,
    )

    assert result == value
    assert len(notes) == bool(note)
    assert note in "".join(notes)
