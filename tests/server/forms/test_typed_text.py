"""Line breaks of a text that comes back from a browser, which sends all of them as CR LF."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from covalt_server.forms.parsing import with_breaks_of

TEXTS = st.lists(st.sampled_from(["a", "b", "", "\n", "\r\n", "\r", "\u2028"])).map("".join)
BREAKS = re.compile(r"\r\n|\r|\n")


def sent(text: str) -> str:
    """Return what a browser sends of an untouched textarea (HTML 4.10.11)."""
    return BREAKS.sub("\r\n", text)


@given(TEXTS, TEXTS)
@example("\naa\r", "aa\n\n")
@example("\na\n\r\r", "\n\n\n")
def test_untouched_texts_are_unchanged_and_typed_lines_are_kept(before: str, typed: str) -> None:
    assert with_breaks_of(before, sent(before)) == before
    assert BREAKS.split(with_breaks_of(before, sent(typed))) == BREAKS.split(typed)
