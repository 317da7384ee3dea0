"""Canonical JSON: equal values have equal bytes, and reading is strict."""

import base64
import json
import math
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.json_values.canonical_json import (
    MAX_EXACT_INTEGER,
    NotJsonError,
    digest,
    dumps,
    loads,
)
from tests.examples import examples
from tests.tables import tables

TABLES = tables(__file__)

SAMPLE = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "json"
SAMPLE /= "JSONTestSuite-sample.jsonl"
SUITE = [json.loads(line) for line in SAMPLE.read_text().splitlines()] if SAMPLE.exists() else []

INVALID = [
    pytest.param("1" + "0" * 350, "1" + "0" * 39, id="beyond-doubles"),
    pytest.param("9" * 10_000, "9" * 40, id="very-long"),
    pytest.param(b'"\xff"', "the text is not UTF-8", id="not-utf-8"),
    pytest.param(b"\xef\xbb\xbf1", "1:1: ", id="byte-order-mark"),
    pytest.param("[" * 100_000, "the value is nested too deeply", id="deep"),
]

TEXT = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_EXACT_INTEGER, MAX_EXACT_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)


@given(value=JSON)
def test_value_is_written_as_rfc_8785_says_and_reads_back(value: Any) -> None:
    text = dumps(value)

    assert text == rfc8785.dumps(value)
    assert loads(text) == value
    assert dumps(loads(text)) == text
    assert json.loads(text, parse_int=float) == value
    if isinstance(value, dict):
        assert digest(dict(reversed(value.items()))) == digest(value)


@pytest.mark.parametrize(("value", "text"), TABLES["value_has_one_form"])
def test_value_has_one_form(value: object, text: str) -> None:
    assert dumps(value) == text.encode()


def test_digest_names_its_hash() -> None:
    assert digest({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        pytest.param({"rows": [{}, {"total": 2**53}]}, "$.rows[1].total", id="integer"),
        pytest.param(10**5000, "$", id="integer-too-long-to-print"),
        pytest.param([math.nan], "$[0]", id="nan"),
        pytest.param({"a": -math.inf}, "$.a", id="infinity"),
        pytest.param({"a": {1: 2}}, "$.a", id="key"),
        pytest.param({"a": "\ud800"}, "$.a", id="surrogate"),
        pytest.param({"\udfff": 1}, "$.<key>", id="surrogate-in-a-key"),
        pytest.param({"a": b"x"}, "$.a", id="bytes"),
        pytest.param([{1, 2}], "$[0]", id="set"),
    ],
)
def test_value_that_json_cannot_hold_is_refused_with_its_place(value: object, place: str) -> None:
    with pytest.raises(NotJsonError) as caught:
        dumps(value)

    assert str(caught.value).partition(": ")[0] == place


def test_cycle_is_refused() -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(NotJsonError, match="nested too deeply"):
        dumps(value)


@pytest.mark.parametrize(("text", "message"), [*TABLES["invalid_json"], *INVALID])
def test_invalid_json_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(NotJsonError) as caught:
        loads(text)

    assert caught.value.message.startswith(message)


def test_duplicate_among_many_keys_is_found_in_linear_time() -> None:
    keys = [f'"{number}":1' for number in range(200_000)]

    with pytest.raises(NotJsonError, match="duplicate key '199999'"):
        loads("{" + ",".join([*keys, keys[-1]]) + "}")


def test_json_test_suite_is_read_or_refused_as_it_says() -> None:
    for case in SUITE:
        try:
            loads(base64.b64decode(case["b64"]))
            read = True
        except NotJsonError:
            read = False

        assert case["verdict"] == "i" or read == (case["verdict"] == "y"), case["name"]


@given(text=st.text() | st.binary() | st.text('[]{}":,0123456789.eE+-tru nl\\'))
@settings(max_examples=examples(150))
def test_any_text_is_read_as_json_reads_it_or_refused(text: str | bytes) -> None:
    try:
        value = loads(text)
    except NotJsonError:
        return

    assert json.loads(text, parse_int=float) == value
