"""YAML text: which values it means, which text is refused and where, and that written text reads back."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.json_values.canonical_json import NotJsonError
from covalt_git.problems import codes
from covalt_git.yaml_text import MAX_BYTES, YamlDocument, YamlProblems, dump, load, load_file
from covalt_git.yaml_text.characters import escaped
from covalt_git.yaml_text.events import open_pure_python_events
from tests.examples import examples
from tests.tables import tables

TABLES = tables(__file__)
SHARED = Path(__file__).resolve().parents[3] / "shared/data/yaml"
SUITE = SHARED / "yaml-test-suite.jsonl"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared test data is not here")


def problems_of(text: bytes | str, **limits: int) -> list[str]:
    """Return ``line:col: code message | hint`` for each problem in ``text``."""
    with pytest.raises(YamlProblems) as caught:
        load(text, "x.yaml", **limits)
    return [
        f"{p.line}:{p.col}: {p.code} {p.message}{f' | {p.hint}' if p.hint else ''}"
        for p in caught.value.problems
    ]


# Values


@pytest.mark.parametrize(("value", "texts"), TABLES["plain_texts"])
def test_plain_text_means_what_yaml_1_2_says(value: Any, texts: list[str]) -> None:
    found = [load(f"a: {text}\n", "x.yaml").data["a"] for text in texts]

    assert found == [value] * len(texts)
    assert {type(one) for one in found} == {type(value)}


def test_other_plain_texts_mean_themselves() -> None:
    for text in [text for row in TABLES["texts"] for text in row]:
        assert load(f"a: {text}\n", "x.yaml").data == {"a": text}


@pytest.mark.parametrize(("text", "data"), TABLES["documents"])
def test_text_and_its_bytes_are_read_as(text: str, data: Any) -> None:
    assert load(text, "x.yaml").data == data
    assert load(text.encode(), "x.yaml").data == data


# Problems


@pytest.mark.parametrize(("text", "problems"), TABLES["refused"] + TABLES["unclosed"])
def test_refused_text_names_the_place_of_each_problem(text: str, problems: list[str]) -> None:
    assert problems_of(text) == problems


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.sampled_from(["{k: [v, w]}", "[v, {k: v}]", "[{k: v}, '}', w]"]), min_size=1),
    st.data(),
)
def test_a_bracket_without_its_end_is_reported_where_it_was_opened(
    values: list[str], data: st.DataObject
) -> None:
    text = "".join(f"- {value}\n" for value in values)
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for place, character in enumerate(text):
        if character in "[{":
            opened.append(place)
        elif character in "]}" and text[place - 1] != "'":
            pairs[place] = opened.pop()
    missing = data.draw(st.sampled_from(sorted(pairs)))

    with pytest.raises(YamlProblems) as caught:
        load(text[:missing] + text[missing + 1 :], "f")

    (problem,) = caught.value.problems
    line = text.count("\n", 0, pairs[missing]) + 1
    col = pairs[missing] - text.rfind("\n", 0, pairs[missing])
    assert (problem.line, problem.col, problem.code) == (line, col, codes.SYNTAX)


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000])
def test_integer_beyond_json_is_refused_and_shortened(number: str) -> None:
    (problem,) = problems_of(f"a: {number}\n")

    assert problem.startswith(f"1:4: {codes.NOT_JSON} '{number[:79]}…'")


def test_problems_have_a_code_and_name_the_path() -> None:
    with pytest.raises(YamlProblems) as caught:
        load("~: .inf", "x.yaml")

    assert caught.value.code == "invalid_yaml"
    first, *lines = str(caught.value).splitlines()
    assert first == "2 problems in 'x.yaml'"
    assert [line.split(" ")[:2] for line in lines if "hint:" not in line] == [
        ["x.yaml:1:1:", codes.BAD_KEY],
        ["x.yaml:1:4:", codes.NOT_JSON],
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(b"a: 1\nb: \xc3\xa9\xff", "2:5: CG101 the byte 0xff", id="byte"),
        pytest.param(b"\xef\xbb\xbfa\xc3", "1:2: CG101 the byte 0xc3", id="cut-off"),
        pytest.param("a: 1".encode("utf-16"), "1:1: CG101 the byte 0xff", id="utf-16"),
        pytest.param("a: \ud800", "1:4: CG101 the byte 0xed", id="lone-surrogate"),
    ],
)
def test_first_byte_that_is_not_utf_8_is_named(text: bytes | str, problem: str) -> None:
    (found,) = problems_of(text)

    assert found.startswith(problem)


# Limits


@pytest.mark.parametrize(("text", "limit", "enough", "place"), TABLES["limits"])
def test_limits_are_the_largest_values(text: str, limit: str, enough: int, place: str) -> None:
    load(text, "x.yaml", **{limit: enough})
    (problem,) = problems_of(text, **{limit: enough - 1})

    assert problem.startswith(f"{place}: {codes.TOO_LARGE} ")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "[{"])
def test_depth_that_would_crash_libyaml_is_refused(opening: str) -> None:
    assert any(codes.TOO_LARGE in problem for problem in problems_of(opening * 100_000))


def test_tag_directives_are_refused_before_libyaml_compares_them() -> None:
    text = "".join(f"%TAG !{number}! x\n" for number in range(50_000))

    assert problems_of(text)[0].startswith("1:1: CG102 ")


# Places

PLACES = """\
# a comment
id: x
tools: &t
  - id: a
    'ö': {type: code, file: "b"}
  - [1, [2, 3]]
copy: *t
"""


@pytest.mark.parametrize(("loc", "value", "key"), TABLES["places"])
def test_place_of_value_and_key(loc: list[str | int], value: list[int], key: list[int]) -> None:
    document = load(PLACES, "x.yaml")

    assert document.locate(loc) == tuple(value)
    assert document.locate(loc, key=True) == tuple(key)


@pytest.mark.parametrize(
    ("text", "loc", "place"),
    [
        pytest.param("", ("a", 0), (1, 1), id="empty"),
        pytest.param("# nothing\n\n", ("a", 0), (1, 1), id="comment"),
        pytest.param("a: \U0001f600\nb: [x,\n  y]", ("b", 1), (3, 3), id="lf"),
        pytest.param("a: \U0001f600\r\nb: [x,\r\n  y]", ("b", 1), (3, 3), id="crlf"),
        pytest.param("a: \U0001f600\rb: [x,\r  y]", ("b", 1), (3, 3), id="cr"),
        pytest.param("\ufeff- a", (0,), (1, 3), id="byte-order-mark-has-no-column"),
    ],
)
def test_lines_and_columns_are_those_of_an_editor(
    text: str, loc: tuple[str | int, ...], place: tuple[int, int]
) -> None:
    assert load(text, "x.yaml").locate(loc) == place


# Files


@pytest.mark.parametrize(
    ("name", "code"),
    [
        *[(name, codes.UNREADABLE) for name in ("no", ".", "pipe", "/dev/zero", "a\0b", "loop")],
        ("large", codes.TOO_LARGE),
    ],
)
def test_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(YamlProblems) as caught:
        load_file(tmp_path / name, "x.yaml")

    (problem,) = caught.value.problems
    assert (problem.path, problem.line, problem.code) == ("x.yaml", 0, code)


def bomb(levels: int, width: int) -> str:
    """Return lists of aliases to the list before: ``width`` to the power of ``levels`` values."""
    lines = ["- &a0 [x]"]
    lines += [f"- &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels + 1)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("- 1\n" * 300_000, 300_000, id="one-value-too-many"),
        pytest.param(
            "x: [" + "1," * 300_000 + "]\n", 1, id="one-long-list", marks=pytest.mark.rest
        ),
        pytest.param(bomb(9, 9), 7, id="billion-laughs"),
        pytest.param(f"- &a [{'x, ' * 999}x]\n" + "- *a\n" * 1000, 300, id="quadratic"),
        pytest.param("#" * ((16 << 20) + 1), 0, id="too-many-bytes"),
    ],
)
def test_bombs_are_refused_at_the_default_limits(text: str, line: int) -> None:
    with pytest.raises(YamlProblems) as caught:
        load(text, "x.yaml")

    (problem,) = caught.value.problems
    assert (problem.line, problem.code) == (line, codes.TOO_LARGE)


def test_values_and_bytes_up_to_the_default_limits_are_read() -> None:
    assert len(load("- 1\n" * 299_999, "x.yaml").data) == 299_999
    assert load("a: 1\n#".ljust(16 << 20, "#"), "x.yaml").data == {"a": 1}


# The YAML test suite


@needs_shared
def test_yaml_test_suite_is_read_alike_or_refused() -> None:
    accepted, refused = dict(TABLES["suite_accepted"]), dict(TABLES["suite_refused"])
    for line in SUITE.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        try:
            data = load(case["in_yaml"], case["id"]).data
        except YamlProblems:
            assert case["error"] or case["id"] in refused, case["id"]
            continue
        if case["error"]:
            assert case["id"] in accepted
            continue
        expected = json.loads(case["in_json"]) if case["in_json"].strip() else None
        assert case["id"] not in refused
        assert json.dumps(data, sort_keys=True) == json.dumps(expected, sort_keys=True), case["id"]


# Without libyaml


def outcome(text: str) -> list[Any]:
    """Return the value of a text and a place in it, or its problems."""
    try:
        document = load(text, "x.yaml")
    except YamlProblems as error:
        return [f"{p.line}:{p.col} {p.code} {p.message}" for p in error.problems]
    return [document.data, list(document.locate(("a", 1)))]


DIFFERENT = ("%ed%a0%80", r"\ud83d", r"C:\dir", " \tx")
"""Parts of texts that the pure Python parser refuses at another place, or accepts."""


def test_pure_python_parser_reads_and_refuses_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    assert yaml.__with_libyaml__
    rows = TABLES["documents"] + TABLES["refused"] + TABLES["unclosed"]
    texts = [PLACES, "[" * 1000, *(row[0] for row in rows)]
    texts = [text for text in texts if not any(bad in text for bad in DIFFERENT)]
    expected = [outcome(text) for text in texts]

    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    monkeypatch.delattr(yaml, "CBaseLoader")

    for text, same in zip(texts, expected, strict=True):
        assert outcome(text) == same, text


@pytest.mark.parametrize("escape", [r"\ud800", r"\U00110000", r"\Uffffffff"])
def test_pure_python_parser_refuses_escapes_that_are_not_characters(escape: str) -> None:
    next_event = open_pure_python_events(f'a: "{escape}"')

    with pytest.raises(yaml.YAMLError):
        list(iter(next_event, None))


# Laws

# fmt: off
YAML_PARTS = (
    "a", "b", "n", "0", "1", ".", "é", "\U0001f600", "~", "null", ".inf", "1e999", "'", '"', "\\",
    "\\u", "%", "@", "`", "#", " #", "<", "=", ">", "*", "&", "!", "?", ":", "-", ",", "[", "]", "{",
    "}", "|", "\t", "\r", "\0", "\ud800", "- ", ": ", "? ", "&a ", "*a", "!!str ", "!x", "<<: ",
    "---", "...", "%TAG ", "%ed%a0%80", "<<<<<<<", "\u2028", "\ufeff", "|\n ", ">\n ", "\n", "\n  ",
)
NASTY_TEXTS = (
    "y", "NO", "on", "null", "~", "=", "<<", "1e3", "0o17", "0x1F", "1_000", "1:30", ".5", "-", "|",
    "2026-01-01", "- a", "a: b", "a #b", " a", "a ", "a\n", "\tx", "[a", "*a", "&a", "!a", "%a", "@a",
    "`a", "?", ":", "a:", "---", "...", "# a", "'", '"', "\\", "\x85", "\u2028", "\ufeff", "\x7f",
    "\uffff", "\0", "https://a/b?c=d", "sha256:ab", "Ünï cödé", "²", "a\u0301",
)
# fmt: on
YAML_LIKE = st.lists(st.sampled_from(YAML_PARTS), max_size=30).map("".join)
NASTY_TEXT = st.text(max_size=100) | st.sampled_from(NASTY_TEXTS)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | NASTY_TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NASTY_TEXT, inner, max_size=5),
    max_leaves=20,
)
SAFE_TEXT = st.from_regex(r"[a-m]{2,8}( [a-m]{1,8}){0,3}", fullmatch=True)
SAFE = st.recursive(
    SAFE_TEXT | st.integers(0, 7),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SAFE_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(st.text(st.characters(), max_size=60) | YAML_LIKE | st.binary(max_size=60))
def test_any_text_is_read_as_json_or_refused(text: str | bytes) -> None:
    try:
        document = load(text, "x.yaml", max_nodes=50, max_depth=5)
    except YamlProblems:
        return

    assert json.dumps(document.data, allow_nan=False).encode()
    assert document.locate(("a", 0, "b")) >= (1, 1)


@given(JSON)
def test_written_yaml_and_json_read_back_the_same(value: Any) -> None:
    text = dump(value, header="machine-written\n\nby covalt-git \x07")

    data = load(text, "x.yaml").data
    assert json.dumps(data, sort_keys=True) == json.dumps(value, sort_keys=True)
    assert yaml.load(text, yaml.CSafeLoader) == value
    as_json = escaped(json.dumps(value, ensure_ascii=False, indent=1))
    assert load(as_json, "x.yaml").data == value


@given(SAFE, st.booleans())
def test_pyyaml_reads_the_same_and_each_value_is_at_its_place(value: Any, flow: bool) -> None:  # noqa: FBT001 - drawn
    text = yaml.dump(value, default_flow_style=flow, width=math.inf, sort_keys=False)
    document = load(text, "x.yaml")
    lines = text.splitlines()

    assert document.data == yaml.load(text, yaml.CSafeLoader) == value
    check_places(document, lines, value, ())


def check_places(
    document: YamlDocument, lines: list[str], part: Any, loc: tuple[str | int, ...]
) -> None:
    line, col = document.locate(loc)
    if isinstance(part, str | int):
        assert lines[line - 1][col - 1 :].startswith(str(part))
    for key, item in part.items() if isinstance(part, dict) else ():
        key_line, key_col = document.locate((*loc, key), key=True)
        assert lines[key_line - 1][key_col - 1 :].startswith(key)
        check_places(document, lines, item, (*loc, key))
    for position, item in enumerate(part) if isinstance(part, list) else ():
        check_places(document, lines, item, (*loc, position))


# Writing

WRITTEN = """\
# Written by covalt-git.
#
# Do not edit.
empty:
  list: []
  mapping: {}
  nothing: null
  text: ""
enabled: true
grants:
  - files.*
  - "no"
  - a:
      - - 1
        - 2.5
      - - ü
        - "c: d"
    b: 1.0e+16
name: App Builder
version: "1.0"
"""


def test_written_text_has_one_fact_a_line() -> None:
    data = load(WRITTEN, "x.yaml").data

    shuffled = dict(reversed(data.items()))
    assert dump(shuffled, header="Written by covalt-git.\n\nDo not edit.") == WRITTEN


@pytest.mark.parametrize(("value", "written"), TABLES["written"])
def test_value_is_written_as(value: Any, written: str) -> None:
    assert dump(value) == f"{written}\n"


def test_long_key_is_written_as_explicit_key() -> None:
    key = "k" * 2000

    assert dump({key: {"a": 1}}) == f"? {key}\n:\n  a: 1\n"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        pytest.param({"a": [math.nan]}, "$.a[0]", id="no-json"),
        pytest.param({"a": ("b",)}, "$.a", id="tuple"),
        pytest.param(json.loads("[" * 65 + "1" + "]" * 65), "$" + "[0]" * 64, id="depth"),
    ],
)
def test_value_that_json_cannot_hold_is_not_written(value: Any, place: str) -> None:
    with pytest.raises(NotJsonError) as caught:
        dump(value)

    assert caught.value.message.partition(": ")[0] == place
