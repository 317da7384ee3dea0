"""Texts and JSON values with the characters of Unicode that readers and writers treat differently."""

from hypothesis import strategies as st

TRICKY = (
    "\u00ad\u200b\u200d\u202e\u2066\u2069\ufeff\ufffe\uffff\u0085\u2028\u2029\u00a0\u2800\u3164"
    "\x00\x01\x0b\x0c\x1b\x7f\x80\x9f\ud800\udfff\t\n\r \"'\\#:%&*!|>@`-?[]{},~<=\U000e0041\U0010ffff"
)
"""Soft hyphen, bidi controls, byte order mark, line breaks of YAML 1.1, C0 and C1, surrogates, YAML's indicators."""

TEXTS = st.lists(
    st.one_of(
        st.sampled_from(TRICKY),
        st.sampled_from(
            ["a", "true", "null", "1e3", "0x1f", "2020-01-01", "---", "<<<<<<< a", "é", "א", "👩"]
        ),
        st.characters(),
    ),
    min_size=1,
    max_size=6,
).map("".join)
"""Texts of a few characters, most of them special."""

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
"""JSON values with such texts, also as keys."""
