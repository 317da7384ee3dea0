"""What is YAML for us, what is refused and where, and that written files read back the same."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git import yaml_text
from covalt_git.json_values.canonical_json import NotJsonError
from covalt_git.problems import codes
from covalt_git.yaml_text import Document, YamlProblems, dump, load, load_file
from covalt_git.yaml_text.characters import escaped
from covalt_git.yaml_text.events import open_pure_python_events

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "yaml"
NASTY = SHARED / "nasty-handwritten"
SUITE = SHARED / "yaml-test-suite.jsonl"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared test data is not here")


def problems_of(text: bytes | str, **limits: int) -> list[str]:
    """Return ``line:col: code message | hint`` of everything wrong with ``text``."""
    with pytest.raises(YamlProblems) as caught:
        load(text, "x.yaml", **limits)
    return [
        f"{p.line}:{p.col}: {p.code} {p.message}{f' | {p.hint}' if p.hint else ''}"
        for p in caught.value.problems
    ]


# What plain texts mean: the core schema of YAML 1.2.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, None) for text in ("", "~", "null", "Null", "NULL")),
        *((text, True) for text in ("true", "True", "TRUE")),
        *((text, False) for text in ("false", "False", "FALSE")),
        *((text, text) for text in ("no", "on", "off", "yes", "y", "N", "tRUE", "nULL", "None")),
        ("0", 0),
        ("-0", 0),
        ("+12", 12),
        ("012", 12),
        ("0o17", 15),
        ("0x1F", 31),
        *(
            (text, text)
            for text in ("-0x1F", "0b1", "0o8", "1_000", "1:30", "12:30:45", "2026-01-01")
        ),
        ("1.10", 1.1),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.5e-1", -0.05),
        ("1e-999", 0.0),
        *((text, text) for text in (".", "+", "-a", "1.2.3", "1e", "=", "nan", ".infinity", "٣")),
        ("'1'", "1"),
        ('"true"', "true"),
        ("'~'", "~"),
    ],
)
def test_plain_text_means_what_yaml_1_2_says(text: str, value: Any) -> None:
    data = load(f"a: {text}\n", "x.yaml").data

    assert data == {"a": value}
    assert type(data["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        pytest.param("", None, id="empty"),
        pytest.param("# nothing\n", None, id="comment"),
        pytest.param("---\n", None, id="null-document"),
        pytest.param("\ufeffa: 1\n", {"a": 1}, id="byte-order-mark"),
        pytest.param("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}, id="crlf"),
        pytest.param("a: |\n  x", {"a": "x\n"}, id="no-last-line-end"),
        pytest.param("a: 1\n...\n", {"a": 1}, id="document-end"),
        pytest.param("%YAML 1.2  # core\n---\na: 50%\n", {"a": "50%"}, id="yaml-directive"),
        pytest.param("1: a\ntrue: b\n0x1: c\n", {"1": "a", "true": "b", "0x1": "c"}, id="keys"),
        pytest.param('"": a\n"~": b\n"<<": c\n', {"": "a", "~": "b", "<<": "c"}, id="quoted-keys"),
        pytest.param("? a\n: 1\n? b\n", {"a": 1, "b": None}, id="explicit-keys"),
        pytest.param("[a: 1, b]\n", [{"a": 1}, "b"], id="single-pair"),
        pytest.param("a: &x [1]\nb: *x\nc: [*x]\n", {"a": [1], "b": [1], "c": [[1]]}, id="alias"),
        pytest.param("&k 1: a\nb: *k\n", {"1": "a", "b": 1}, id="anchor-on-key"),
        pytest.param("[&x 1, &x 2, *x]\n", [1, 2, 2], id="anchor-again"),
        pytest.param("a: &x [&x 1, *x]\nb: *x\n", {"a": [1, 1], "b": 1}, id="anchor-again-inside"),
        pytest.param(r'"\0\x01\u0085\N\U0001F600"', "\0\x01\x85\x85\U0001f600", id="escapes"),
        pytest.param("a: <<\nb: <<<<<<<\n", {"a": "<<", "b": "<<<<<<<"}, id="arrows-as-values"),
    ],
)
def test_text_is_read_as(text: str, data: Any) -> None:
    assert load(text, "x.yaml").data == data
    assert load(text.encode(), "x.yaml").data == data


# What is refused, where, and what to do.


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param(
            "a: 1\nb: 2\na: 3\n'a': 4\n",
            [
                "3:1: CG103 duplicate key 'a' | keep this one or the one in line 1",
                "4:1: CG103 duplicate key 'a' | keep this one or the one in line 1",
            ],
            id="duplicate-key",
        ),
        pytest.param(
            '- {1: a, "1": b}',
            ["1:10: CG103 duplicate key '1' | keep this one or the one in line 1"],
            id="duplicate-key-of-another-type",
        ),
        pytest.param(
            "a: !!python/tuple [1]\n",
            ["1:4: CG104 the tag '!!python/tuple' | remove `!!python/tuple`"],
            id="tag",
        ),
        pytest.param("a: ! b\n", ["1:4: CG104 the tag '!' | remove `!`"], id="tag-alone"),
        pytest.param(
            "!!str a: b\n", ["1:1: CG104 the tag '!!str' | remove `!!str`"], id="tag-on-key"
        ),
        pytest.param(
            "[!<tag:x,1> a, !b {c: !d e}]\n",
            [
                "1:2: CG104 the tag '!<tag:x,1>' | remove `!<tag:x,1>`",
                "1:16: CG104 the tag '!b' | remove `!b`",
                "1:23: CG104 the tag '!d' | remove `!d`",
            ],
            id="tags-in-brackets",
        ),
        pytest.param(
            "a: &x # !no\n  !yes b\n",
            ["2:3: CG104 the tag '!yes' | remove `!yes`"],
            id="tag-behind-anchor-and-comment",
        ),
        pytest.param("a: !x!y b\n", ["1:4: CG104 a tag | remove it"], id="tag-unknown-handle"),
        pytest.param(
            "a: !b c\nd: !x%ed%a0%80 e\n",
            [
                "1:4: CG104 the tag '!b' | remove `!b`",
                "2:4: CG104 a tag that is not UTF-8 | remove the tag",
            ],
            id="tag-not-utf-8",
        ),
        pytest.param(
            "a: &x {b: 1}\nc:\n  <<: *x\n",
            [
                (
                    "3:3: CG105 the merge key '<<' | "
                    'write out the keys that it merges, or quote it: `"<<"`'
                )
            ],
            id="merge-key",
        ),
        pytest.param(
            "a: *b\n",
            [
                (
                    "1:4: CG106 no anchor 'b' above this alias | "
                    'quote a text that starts with a star: `"*b"`'
                )
            ],
            id="unknown-alias",
        ),
        pytest.param(
            "a: &b\n  c: [*b]\n",
            ["2:7: CG106 the alias 'b' stands inside what it repeats | write the value out"],
            id="recursive-alias",
        ),
        pytest.param(
            "&a a: 1\n*a : 2\n",
            ["2:1: CG109 a key that is an alias | write the key itself"],
            id="alias-as-key",
        ),
        pytest.param(
            "? [a, b]\n: 1\n? {c: d}\n: 2\n",
            [
                "1:3: CG109 a key that is a mapping or a list | write the key as one plain text",
                "3:3: CG109 a key that is a mapping or a list | write the key as one plain text",
            ],
            id="complex-key",
        ),
        pytest.param(
            "{~: 1, null: 2}",
            [
                "1:2: CG109 the key '~' means nothing, not a text | quote it: `\"~\"`",
                "1:8: CG109 the key 'null' means nothing, not a text | quote it: `\"null\"`",
            ],
            id="null-key",
        ),
        pytest.param(
            "?\n: 1\n",
            ['1:2: CG109 a value without a key | write an empty key as `""`'],
            id="empty-key",
        ),
        pytest.param(
            "{ ?a: 1 }",
            [
                "1:3: CG109 a '?' glued to the key 'a' | write a space behind the '?', or quote the key"
            ],
            id="question-mark-glued-to-key",
        ),
        pytest.param(
            "[.inf, -.Inf, .NaN]",
            [
                "1:2: CG108 '.inf' is no JSON number | quote it: `\".inf\"`",
                "1:8: CG108 '-.Inf' is no JSON number | quote it: `\"-.Inf\"`",
                "1:15: CG108 '.NaN' is no JSON number | quote it: `\".NaN\"`",
            ],
            id="not-finite",
        ),
        pytest.param(
            "a: -1e400\n",
            ["1:4: CG108 '-1e400' is beyond what JSON numbers hold | quote it"],
            id="float-overflow",
        ),
        pytest.param(
            f"a: {'9' * 5000}\n",
            [f"1:4: CG108 '{'9' * 79}…' is beyond what JSON numbers hold | quote it"],
            id="integer-overflow",
        ),
        pytest.param(
            f"a: 0x{'f' * 5000}\n",
            [f"1:4: CG108 '0x{'f' * 77}…' is beyond what JSON numbers hold | quote it"],
            id="hexadecimal-overflow",
        ),
        pytest.param(
            "a: 1\n---\nb: 2\n",
            ["2:1: CG102 a second document starts here | keep one document, or remove the `---`"],
            id="two-documents",
        ),
        pytest.param(
            "# x\n%TAG ! y\n---\n",
            ["2:1: CG102 the directive '%TAG ! y' | remove the line"],
            id="tag-directive",
        ),
        pytest.param(
            "%YAML 1.2\n\n%FOO\n---\n",
            ["3:1: CG102 the directive '%FOO' | remove the line"],
            id="unknown-directive",
        ),
        pytest.param(
            "%YAML 2.0\n---\n",
            ["1:1: CG102 the directive '%YAML 2.0' | remove the line"],
            id="yaml-2",
        ),
        pytest.param(
            "a: 'é'\nb: \"c\0\"",
            [
                (
                    "2:6: CG102 the character U+0000 cannot stand in YAML | "
                    r"remove it, or write `\x00` between double quotes"
                )
            ],
            id="nul",
        ),
        pytest.param(
            "a: b\u2028",
            [
                (
                    "1:5: CG102 the character U+2028 cannot stand in YAML | "
                    r"remove it, or write `\u2028` between double quotes"
                )
            ],
            id="line-separator",
        ),
        pytest.param(
            "\ufeffa: \ufeffb",
            [
                (
                    "1:4: CG102 the character U+FEFF cannot stand in YAML | "
                    r"remove it, or write `\ufeff` between double quotes"
                )
            ],
            id="byte-order-mark-inside",
        ),
        pytest.param(
            r'a: "\ud83d\ude00"',
            ["1:7: CG102 an escape that is no character | write the character itself"],
            id="surrogate-escape",
        ),
    ],
)
def test_refused_text_names_each_place(text: str, problems: list[str]) -> None:
    assert problems_of(text) == problems


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "tools:\n\t- id: a\n",
            "2:1: CG102 a tab where only spaces can stand | indent with spaces",
            id="tab",
        ),
        pytest.param(
            "a: |\n \tx\n",
            "2:2: CG102 a tab where only spaces can stand | indent with spaces",
            id="tab-in-block",
        ),
        pytest.param(
            "a: `b`\n", "1:4: CG102 a text that starts with '`' | quote the text", id="backtick"
        ),
        pytest.param(
            "a: %b\n", "1:4: CG102 a text that starts with '%' | quote the text", id="percent"
        ),
        pytest.param(
            "a: b: c\n",
            "1:5: CG102 a ':' where no key can start | "
            "line the key up with those above, quote a text that holds ': ', or close a quote above",
            id="colon",
        ),
        pytest.param(
            "a: 1\nbcd\ne: 2\n",
            "2:1: CG102 a line without 'key:' | "
            "write `key: value`, or indent what continues the text above",
            id="no-colon",
        ),
        pytest.param(
            "a:\n  - b\n c: 1\n",
            "3:2: CG102 this belongs to nothing above it | "
            "line it up with the keys or items that it belongs to",
            id="indentation",
        ),
        pytest.param(
            "a: [1,\n  2\n",
            "1:4: CG102 this bracket is never closed | close it with `]` or `}`",
            id="open-bracket",
        ),
        pytest.param(
            "a: [1,\n",
            "2:1: CG102 the text ends inside brackets | close them with `]` or `}`",
            id="open-bracket-behind-comma",
        ),
        pytest.param(
            "a: {b: ${c}}\n",
            "1:9: CG102 no ',' or '}' after a value | "
            "write `{a: 1, b: 2}`, or quote a text that holds brackets",
            id="braces",
        ),
        pytest.param(
            "a: [b c] d]\n",
            "1:10: CG102 this belongs to nothing above it | "
            "line it up with the keys or items that it belongs to",
            id="text-behind-bracket",
        ),
        pytest.param(
            "a: ['b' c]\n",
            "1:9: CG102 no ',' or ']' after an item | "
            "write `[a, b]`, or quote a text that holds brackets",
            id="no-comma",
        ),
        pytest.param(
            "a: [b,, c]\n",
            "1:7: CG102 no value before ',' | add it, or quote a text that holds ','",
            id="two-commas",
        ),
        pytest.param(
            "a: - b\n",
            "1:4: CG102 a list cannot start here | "
            "start it on a line of its own, or quote a text that starts with '- '",
            id="list-behind-key",
        ),
        pytest.param(
            "a: 1\nb: 'c\n",
            "2:4: CG102 this quoted text never ends | close it with the quote that it starts with",
            id="open-quote",
        ),
        pytest.param(
            'a: "b\n---\n"\n',
            "2:1: CG102 a line of '---' or '...' in a quoted text | indent the line",
            id="document-marker-in-quotes",
        ),
        pytest.param(
            'a: "C:\\dir"\n',
            "1:7: CG102 an escape that YAML does not have | "
            "write a backslash as `\\\\`, or use single quotes",
            id="escape",
        ),
        pytest.param(
            "a: *.py\n",
            "1:5: CG102 no name after '&' or '*' | quote a text that starts so",
            id="star",
        ),
        pytest.param(
            "[a]\nb\n",
            "2:1: CG102 more text after the end | remove it, or indent it",
            id="text-behind-document",
        ),
        pytest.param(
            "<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> other\n",
            "1:1: CG102 a merge conflict marker | resolve the merge conflict",
            id="conflict",
        ),
        pytest.param(
            "a: [\n<<<<<<< HEAD\n  b,\n=======\n  c,\n>>>>>>> other\n]\n",
            "2:1: CG102 a merge conflict marker | resolve the merge conflict",
            id="conflict-in-brackets",
        ),
        pytest.param(
            "a: 1\r\n=======\r\na: 2\r\n",
            "2:1: CG102 a merge conflict marker | resolve the merge conflict",
            id="conflict-half-resolved",
        ),
        pytest.param(
            "a: 1\n>>>>>>> other\n",
            "2:1: CG102 a merge conflict marker | resolve the merge conflict",
            id="conflict-end-left",
        ),
    ],
)
def test_syntax_error_is_told_in_plain_words(text: str, problem: str) -> None:
    assert problems_of(text) == [problem]


def test_reading_goes_on_after_all_but_syntax_errors() -> None:
    text = "a: !x 1\na: .inf\n<<: *b\nc: [\n"

    assert [problem.split()[:2] for problem in problems_of(text)] == [
        ["1:4:", codes.TAG],
        ["2:1:", codes.DUPLICATE_KEY],
        ["2:4:", codes.NOT_JSON],
        ["3:1:", codes.MERGE_KEY],
        ["3:5:", codes.ALIAS],
        ["5:1:", codes.SYNTAX],
    ]


def test_problems_are_counted_and_named_by_path() -> None:
    with pytest.raises(YamlProblems) as caught:
        load("~: .inf", "x.yaml")

    assert caught.value.code == "invalid_yaml"
    assert str(caught.value) == (
        "x.yaml:1:1: CG109 the key '~' means nothing, not a text\n"
        '  hint: quote it: `"~"`\n'
        "x.yaml:1:4: CG108 '.inf' is no JSON number\n"
        '  hint: quote it: `".inf"`\n'
        "2 problems in 'x.yaml'"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(b"a: 1\nb: \xc3\xa9\xff", "2:5: CG101 the byte 0xff is not UTF-8", id="byte"),
        pytest.param(b"\xef\xbb\xbfa\xc3", "1:2: CG101 the byte 0xc3 is not UTF-8", id="cut-off"),
        pytest.param("a: 1".encode("utf-16"), "1:1: CG101 the byte 0xff is not UTF-8", id="utf-16"),
        pytest.param("a: \ud800", "1:4: CG101 the byte 0xed is not UTF-8", id="lone-surrogate"),
    ],
)
def test_first_byte_that_is_not_utf_8_is_named(text: bytes | str, problem: str) -> None:
    assert problems_of(text) == [f"{problem} | save the file with the encoding UTF-8"]


# Limits.


def test_text_larger_than_the_limit_is_refused() -> None:
    assert load("a: é\n", "x.yaml", max_bytes=6).data == {"a": "é"}
    assert problems_of("a: é\n", max_bytes=5) == ["0:0: CG107 larger than 5 bytes"]


def test_values_are_counted_without_keys() -> None:
    assert load("a: 1\nb: [2]\n", "x.yaml", max_nodes=4).data == {"a": 1, "b": [2]}
    assert problems_of("a: 1\nb: [2]\n", max_nodes=3) == ["2:5: CG107 more than 3 values"]
    assert problems_of("a: 1\nb: []\n", max_nodes=2) == ["2:4: CG107 more than 2 values"]


def test_values_that_aliases_repeat_are_counted_each_time() -> None:
    text = "- &a [1, 2]\n- *a\n- *a\n"

    assert load(text, "x.yaml", max_nodes=10).data == [[1, 2]] * 3
    assert problems_of(text, max_nodes=9) == [
        "3:3: CG107 more than 9 values | repeat less through aliases"
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("[[[[]]]]", "1:4", id="brackets"),
        pytest.param("{a: {b: {c: {d: 1}}}}", "1:13", id="braces"),
        pytest.param("- - - - a", "1:7", id="list"),
        pytest.param("a:\n b:\n  - c: 1\n", "3:5", id="block"),
    ],
)
def test_depth_is_bounded(text: str, place: str) -> None:
    load(text, "x.yaml", max_depth=4)

    assert problems_of(text, max_depth=3) == [
        f"{place}: CG107 more than 3 mappings and lists inside each other"
    ]


def test_depth_counts_what_aliases_repeat() -> None:
    text = "- &a [[1]]\n- [*a]\n"

    assert load(text, "x.yaml", max_depth=4).data == [[[1]], [[[1]]]]
    assert problems_of(text, max_depth=3) == [
        "2:4: CG107 more than 3 mappings and lists inside each other"
    ]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "[{"])
def test_depth_that_would_crash_libyaml_is_refused(opening: str) -> None:
    assert any(codes.TOO_LARGE in problem for problem in problems_of(opening * 100_000))


@pytest.mark.parametrize("limit", ["max_nodes", "max_depth", "max_bytes"])
def test_file_has_the_same_limits(tmp_path: Path, limit: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("[[[1, 2, 3]]]")

    with pytest.raises(YamlProblems) as caught:
        load_file(file, "x.yaml", **{limit: 2})

    assert caught.value.problems[0].code == codes.TOO_LARGE


def test_tag_directives_are_refused_before_libyaml_compares_them() -> None:
    text = "".join(f"%TAG !{number}! x\n" for number in range(50_000))

    assert problems_of(text)[0].startswith("1:1: CG102 the directive")


# Places.

PLACES = """\
# a comment
id: x
tools:
  - id: a
    'ö': {type: code, file: "b"}
  - [1, [2, 3]]
copy: *t
"""
PLACES_WITH_ANCHOR = PLACES.replace("tools:", "tools: &t")


@pytest.mark.parametrize(
    ("loc", "value", "key"),
    [
        pytest.param((), (2, 1), (2, 1), id="root"),
        pytest.param(("id",), (2, 5), (2, 1), id="value"),
        pytest.param(("tools",), (3, 8), (3, 1), id="list"),
        pytest.param(("tools", 0), (4, 5), (4, 5), id="item"),
        pytest.param(("tools", 0, "id"), (4, 9), (4, 5), id="value-in-item"),
        pytest.param(("tools", 0, "ö", "file"), (5, 29), (5, 23), id="value-in-braces"),
        pytest.param(("tools", 1, 1, 0), (6, 10), (6, 10), id="item-of-item"),
        pytest.param(("tools", 0, "missing"), (4, 5), (4, 5), id="missing-key"),
        pytest.param(("tools", 9, "id"), (3, 8), (3, 1), id="missing-item"),
        pytest.param(("tools", -1), (3, 8), (3, 1), id="item-from-the-end"),
        pytest.param(("tools", 0, "code", "ö", "code", "type"), (5, 17), (5, 11), id="union-names"),
        pytest.param((0, "id", "x", 3), (2, 5), (2, 1), id="below-a-scalar"),
        pytest.param(("copy",), (7, 7), (7, 1), id="alias"),
        pytest.param(("copy", 0, "id"), (4, 9), (4, 5), id="value-through-alias"),
    ],
)
def test_place_of_value_and_key(
    loc: tuple[str | int, ...], value: tuple[int, int], key: tuple[int, int]
) -> None:
    document = load(PLACES_WITH_ANCHOR, "x.yaml")

    assert document.locate(loc) == value
    assert document.locate(loc, key=True) == key


@pytest.mark.parametrize("text", ["", "# nothing\n", "\n\n"])
def test_empty_document_is_at_its_start(text: str) -> None:
    assert load(text, "x.yaml").locate(("a", 0)) == (1, 1)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_in_an_editor(end: str) -> None:
    document = load(end.join(["a: \U0001f600", "b: [x,", "  y]"]), "x.yaml")

    assert document.locate(("b", 1)) == (3, 3)


@pytest.mark.parametrize("text", ["- a", "\ufeff- a"])
def test_byte_order_mark_has_no_column(text: str) -> None:
    assert load(text, "x.yaml").locate((0,)) == (1, 3)


# Files.


def test_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a: [1]\n")

    document = load_file(file, "shown.yaml")

    assert (document.path, document.data) == ("shown.yaml", {"a": [1]})


def refusal_of(file: Path) -> str:
    with pytest.raises(YamlProblems) as caught:
        load_file(file, "x.yaml", max_bytes=100)
    return str(caught.value.problems[0])


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "large").write_bytes(b"#" * 101)
    os.mkfifo(tmp_path / "pipe")

    assert refusal_of(tmp_path / "no") == "x.yaml: CG101 cannot be read: no such file or directory"
    assert refusal_of(tmp_path) == "x.yaml: CG101 cannot be read: is a directory"
    assert refusal_of(tmp_path / "pipe") == "x.yaml: CG101 not a regular file"
    assert refusal_of(Path("/dev/zero")) == "x.yaml: CG101 not a regular file"
    assert refusal_of(tmp_path / "large") == "x.yaml: CG107 larger than 100 bytes"
    assert refusal_of(tmp_path / "a\0b") == "x.yaml: CG101 not a path that a file can have"
    assert refusal_of(tmp_path / "loop").startswith("x.yaml: CG101 cannot be read: too many levels")


# The collected inputs.

NASTY_DATA: dict[str, Any] = {
    "bom": {"id": "x", "name": "bom"},
    "bool-key": {"on": "push", "true": "x"},
    "cr-only": {"id": "x", "name": "y"},
    "empty": None,
    "folded-keep": {"a": "x\n\n\n", "b": "y", "c": "  z\n"},
    "id-int": {"manifest_version": "1", "id": 123, "name": 456, "version": "2026-11-20"},
    "list-doc": ["a", "b"],
    "null-doc": None,
    "proto": {"__proto__": {"polluted": True}, "constructor": "x", "hasOwnProperty": 1},
    "tab-in-value": {"id": "x", "name": "a\tb"},
}
NASTY_PROBLEMS = {
    "alias-as-key": ["2:1: CG109"],
    "backtick-plain": ["1:4: CG102"],
    "billion-laughs": ["5:11: CG107"],
    "colon-in-plain": ["1:8: CG102"],
    "complex-key": ["1:3: CG109", "3:3: CG109"],
    "deep-block": ["65:65: CG107"],
    "directive-9": ["1:1: CG102"],
    "dup-key-int-str": ["2:1: CG103"],
    "dup-key-nested": ["5:5: CG103"],
    "env-ref": ["1:37: CG102"],
    "huge-float": ["1:4: CG108", "2:4: CG108"],
    "invalid-utf8": ["2:7: CG101"],
    "lone-surrogate-escape": ["1:8: CG102"],
    "many-keys": ["20000:9: CG107"],
    "merge-bomb": [*(f"{line}:3: CG105" for line in range(3, 16, 3)), "15:8: CG107"],
    "multi-doc": ["2:1: CG102"],
    "norway": ["11:6: CG108", "12:6: CG108"],
    "nul": ["1:7: CG102"],
    "percent-plain": ["1:4: CG102"],
    "python-object": ["1:1: CG104"],
    "python-tuple": ["1:4: CG104"],
    "recursive-map": ["2:9: CG106"],
    "tab-indent": ["3:1: CG102"],
    "undefined-alias": ["1:4: CG106"],
}


@needs_shared
def test_each_nasty_file_has_its_outcome() -> None:
    names = {file.stem for file in NASTY.iterdir()}

    assert names == NASTY_DATA.keys() | NASTY_PROBLEMS.keys()


@needs_shared
@pytest.mark.parametrize("name", NASTY_DATA)
def test_nasty_file_is_read(name: str) -> None:
    assert load_file(NASTY / f"{name}.yaml", name).data == NASTY_DATA[name]


@needs_shared
@pytest.mark.parametrize("name", NASTY_PROBLEMS)
def test_nasty_file_is_refused(name: str) -> None:
    with pytest.raises(YamlProblems) as caught:
        load_file(NASTY / f"{name}.yaml", name)

    places = [f"{problem.line}:{problem.col}: {problem.code}" for problem in caught.value.problems]
    assert places == NASTY_PROBLEMS[name]


def suite_cases() -> list[Any]:
    if not SUITE.is_file():
        return []
    cases = [json.loads(line) for line in SUITE.read_text(encoding="utf-8").splitlines()]
    return [pytest.param(case, id=case["id"]) for case in cases]


TOO_LENIENT = {
    "QB6E": "libyaml does not ask that the lines of a quoted text are indented",
    "Y79Y/003": "libyaml takes a tab between brackets for a space",
}
REFUSED = {
    **dict.fromkeys(("35KP", "57H4", "6CK3", "9WXW", "EHF6", "LE5A", "UKK6/02"), "a tag"),
    **dict.fromkeys(("4FJ6", "9MMW", "SBG9"), "a key that is a mapping or a list"),
    **dict.fromkeys(("PUW8", "U9NS"), "two documents"),
    "E76Z": "a key that is an alias",
    "652Z": "a '?' glued to a key: libyaml reads another key",
    "5T43": "libyaml: a ':' glued to a value in brackets",
    "A2M4": "libyaml: a tab that indents",
    "Y79Y/001": "libyaml: a tab that indents",
    "Y79Y/010": "libyaml: a tab behind a dash",
    "BEC7": "libyaml: %YAML 1.3",
    "MUS6/05": "a directive that YAML does not have",
    "MUS6/06": "a directive that YAML does not have",
    "QT73": "libyaml: the end of a document that never started",
    "UKK6/00": "libyaml: an item that is a ':'",
}


@pytest.mark.parametrize("case", suite_cases())
def test_yaml_test_suite_is_read_alike_or_refused(case: dict[str, Any]) -> None:
    try:
        data = load(case["in_yaml"], case["id"]).data
    except YamlProblems:
        assert case["error"] or case["id"] in REFUSED
        return
    if case["error"]:
        assert case["id"] in TOO_LENIENT
        return
    assert case["id"] not in REFUSED
    expected = json.loads(case["in_json"]) if case["in_json"].strip() else None
    assert json.dumps(data, sort_keys=True) == json.dumps(expected, sort_keys=True)


# Without libyaml.

WITHOUT_LIBYAML = """
import json, sys
sys.modules["yaml._yaml"] = None
import yaml
from covalt_git.yaml_text import Document, YamlProblems, load
assert not yaml.__with_libyaml__
for text in json.load(sys.stdin):
    try:
        document = load(text, "x.yaml")
        print(json.dumps([document.data, document.locate(("a", 1))]))
    except YamlProblems as error:
        print(json.dumps([f"{p.line}:{p.col} {p.code} {p.message}" for p in error.problems]))
"""
SAME_WITHOUT_LIBYAML = [
    PLACES_WITH_ANCHOR,
    "a: [1, 2.5, ~, yes, '3', \"\\u00e9\"]",
    "a: |\n  x\n  y",
    "",
    "a: 1\na: !x .inf\n<<: *b\n~: {[c]: d}\n",
    "a: 1\n---\nb: 2\n",
    "%FOO\n---\na: 1\n",
    "a:\n\tb: 1\n",
    "a: `b`\n",
    "a: b: c\n",
    "a: 1\nbcd\ne: 2\n",
    "a:\n  - b\n c: 1\n",
    "a: [1,\n  2\n",
    "a: {b: ${c}}\n",
    "a: [b,, c]\n",
    "a: - b\n",
    "a: 'b\n",
    'a: "b\n---\n"\n',
    "a: *.py\n",
    "[a]\nb\n",
    "a: !x!y b\n",
    "{ ?a: 1 }",
    "[" * 1000,
    "a: b\u2028",
]


def test_pure_python_parser_reads_and_refuses_alike() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBYAML],
        input=json.dumps(SAME_WITHOUT_LIBYAML),
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(yaml_text.__file__).parents[3],
    )

    expected: list[Any] = []
    for text in SAME_WITHOUT_LIBYAML:
        try:
            document = load(text, "x.yaml")
            expected.append([document.data, list(document.locate(("a", 1)))])
        except YamlProblems as error:
            expected.append([f"{p.line}:{p.col} {p.code} {p.message}" for p in error.problems])
    assert [json.loads(line) for line in run.stdout.splitlines()] == expected


@pytest.mark.parametrize("escape", [r"\ud800", r"\U00110000", r"\Uffffffff"])
def test_pure_python_parser_refuses_escapes_that_are_no_character(escape: str) -> None:
    next_event = open_pure_python_events(f'a: "{escape}"')

    with pytest.raises(yaml.YAMLError, match="invalid Unicode character escape"):
        list(iter(next_event, None))


# Laws.

no_deadline = settings(deadline=None)  # a busy machine proves nothing

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


def load_or_none(text: str | bytes) -> Document | None:
    try:
        return load(text, "x.yaml", max_nodes=50, max_depth=5)
    except YamlProblems:
        return None


@no_deadline
@given(st.one_of(st.text(), st.text(st.characters()), YAML_LIKE, st.binary()))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    document = load_or_none(text)

    if document:
        json.dumps(document.data, allow_nan=False).encode()
        document.locate(("a", 0, "b"))


@no_deadline
@given(JSON)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    text = dump(value, header="machine-written\n\nby covalt-git \x07")

    data = load(text, "x.yaml").data
    assert data == value
    assert json.dumps(data, sort_keys=True) == json.dumps(value, sort_keys=True)
    assert yaml.safe_load(text) == value


@no_deadline
@given(JSON)
def test_json_is_yaml(value: Any) -> None:
    text = escaped(json.dumps(value, ensure_ascii=False, indent=1))

    assert load(text, "x.yaml").data == value


@no_deadline
@given(SAFE, st.booleans())
def test_plain_documents_are_read_as_by_pyyaml(value: Any, flow: bool) -> None:  # noqa: FBT001 - drawn
    text = yaml.dump(value, default_flow_style=flow, sort_keys=False)

    assert load(text, "x.yaml").data == yaml.safe_load(text) == value


@no_deadline
@given(SAFE, st.booleans())
def test_each_value_is_where_it_says(value: Any, flow: bool) -> None:  # noqa: FBT001 - drawn
    text = yaml.dump(value, default_flow_style=flow, width=math.inf)
    document = load(text, "x.yaml")
    lines = text.splitlines()

    def check(part: Any, loc: tuple[str | int, ...]) -> None:
        line, col = document.locate(loc)
        if isinstance(part, str | int):
            assert lines[line - 1][col - 1 :].startswith(str(part))
        for key, item in part.items() if isinstance(part, dict) else ():
            key_line, key_col = document.locate((*loc, key), key=True)
            assert lines[key_line - 1][key_col - 1 :].startswith(key)
            check(item, (*loc, key))
        for position, item in enumerate(part) if isinstance(part, list) else ():
            check(item, (*loc, position))

    check(value, ())


# Writing.


def test_written_text_has_one_fact_a_line() -> None:
    data = {
        "version": "1.0",
        "name": "App Builder",
        "enabled": True,
        "empty": {"list": [], "mapping": {}, "text": "", "nothing": None},
        "grants": ["files.*", "no", {"b": 1e16, "a": [[1, 2.5], ["ü", "c: d"]]}],
    }

    assert dump(data, header="Written by covalt-git.\n\nDo not edit.") == (
        "# Written by covalt-git.\n"
        "#\n"
        "# Do not edit.\n"
        "empty:\n"
        "  list: []\n"
        "  mapping: {}\n"
        "  nothing: null\n"
        '  text: ""\n'
        "enabled: true\n"
        "grants:\n"
        "  - files.*\n"
        '  - "no"\n'
        "  - a:\n"
        "      - - 1\n"
        "        - 2.5\n"
        "      - - ü\n"
        '        - "c: d"\n'
        "    b: 1.0e+16\n"
        "name: App Builder\n"
        'version: "1.0"\n'
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "null"),
        ("Größe", "Größe"),
        ("sha256:ab12", "sha256:ab12"),
        ("https://a.b/c?d=e", "https://a.b/c?d=e"),
        ("tools.files:write_file", "tools.files:write_file"),
        ("Yes", '"Yes"'),
        ("NULL", '"NULL"'),
        ("1e3", '"1e3"'),
        ("2026-11-20", '"2026-11-20"'),
        ("a #b", '"a #b"'),
        ('a\nb\t"c" \\ \x85\ufeff', r'"a\nb\t\"c\" \\ \u0085\ufeff"'),
        ("日本 \U0001f600", '"日本 \U0001f600"'),
        (-0.0, "-0.0"),
        (1e-7, "1.0e-07"),
        (1.5e300, "1.5e+300"),
    ],
)
def test_value_is_written_as(value: Any, written: str) -> None:
    assert dump(value) == f"{written}\n"


def test_long_key_is_written_as_explicit_key() -> None:
    key = "k" * 2000

    assert dump({key: {"a": 1}, "b": {key: "c"}}) == (f"b:\n  ? {key}\n  : c\n? {key}\n:\n  a: 1\n")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"a": [math.nan]}, r"\$\.a\[0\]: a float is not a JSON value", id="nan"),
        pytest.param([-math.inf], r"\$\[0\]: a float is not a JSON value", id="infinity"),
        pytest.param({"a": b"b"}, r"\$\.a: a bytes is not a JSON value", id="bytes"),
        pytest.param({"a": ("b",)}, r"\$\.a: a tuple is not a JSON value", id="tuple"),
        pytest.param({"a": {1: 2}}, r"\$\.a: the key 1 is not a string", id="key"),
        pytest.param(["\ud800"], r"\$\[0\]: half of a surrogate pair is not text", id="surrogate"),
        pytest.param({"a": 10**5000}, r"\$\.a: an integer beyond what JSON", id="integer"),
        pytest.param(json.loads("[" * 65 + "1" + "]" * 65), "nested too deeply", id="depth"),
    ],
)
def test_value_that_json_cannot_hold_is_not_written(value: Any, message: str) -> None:
    with pytest.raises(NotJsonError, match=message):
        dump(value)


def test_deepest_value_that_is_written_can_be_read() -> None:
    value = json.loads('[{"a": ' * 32 + "1" + "}]" * 32)

    assert load(dump(value), "x.yaml").data == value
