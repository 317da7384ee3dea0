"""Which characters hide something, and which belong to what people write."""

from __future__ import annotations

from pathlib import Path

import pytest

from covalt_git.checks.hidden_characters import hidden_characters
from covalt_git.problems import codes
from covalt_git.toolsets.project_files import read_project
from tests.toolsets.projects import MANIFEST, put_hello


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("user\u202e", "U+202E (RIGHT-TO-LEFT OVERRIDE)", id="override"),
        pytest.param("a\u2066b", "U+2066 (LEFT-TO-RIGHT ISOLATE)", id="isolate"),
        pytest.param("a\u200bb", "U+200B (ZERO WIDTH SPACE)", id="zero-width-space"),
        pytest.param("a\u200db", "U+200D (ZERO WIDTH JOINER)", id="joiner-in-latin"),
        pytest.param("a\u200eb", "U+200E (LEFT-TO-RIGHT MARK)", id="mark-in-latin"),
        pytest.param("a\U000e0041b", "U+E0041 (TAG LATIN CAPITAL LETTER A)", id="tag"),
        pytest.param("a\U000e0101", "U+E0101 (VARIATION SELECTOR-18)", id="smuggled-byte"),
        pytest.param("\u2764\ufe0f\ufe0e", "U+FE0E (VARIATION SELECTOR-15)", id="two-selectors"),
        pytest.param("a\ufe0f", "U+FE0F (VARIATION SELECTOR-16)", id="selector-of-a-letter"),
        pytest.param("a\u3164", "U+3164 (HANGUL FILLER)", id="filler"),
    ],
)
def test_what_hides_is_found(text: str, found: str) -> None:
    (hidden,) = hidden_characters(text)

    assert hidden.message.startswith(f"the character {found} ")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("plain", id="ascii"),
        pytest.param("grüße, 你好, привет", id="other-scripts"),
        pytest.param("\U0001f469\u200d\U0001f4bb", id="joined-emoji"),
        pytest.param("\u2764\ufe0f 1\ufe0f\u20e3", id="emoji-and-keycap"),
        pytest.param(
            "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", id="flag"
        ),
        pytest.param("\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", id="persian"),
        pytest.param("\u05e9\u05dc\u05d5\u05dd\u200e (abc)", id="mark-beside-hebrew"),
    ],
)
def test_what_people_write_is_not(text: str) -> None:
    assert list(hidden_characters(text)) == []


def test_a_docstring_that_agents_read_hides_nothing_either(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    text = 'def greet(name: str) -> str:\n    """Say\\u200b hello."""\n    return name\n'
    (toolset / "tools" / "hello.py").write_text(text)

    (problem,) = read_project(tmp_path).problems

    assert problem.code == codes.HIDDEN_CHARACTER
    assert problem.path == "toolsets/hello/toolset.yaml"
    assert problem.message.startswith(
        "tools[greet].entrypoint: in its description the character U+200B"
    )


def test_an_escape_in_an_example_is_there_to_be_seen(tmp_path: Path) -> None:
    put_hello(tmp_path, MANIFEST + '    examples: [{args: {name: "a\\u200bb"}}]\n')

    assert read_project(tmp_path).problems == ()


@pytest.mark.parametrize("escape", ["\\u202e", "\\u202E", "\\U0000202E", "\\xAD"])
def test_a_description_hides_nothing_in_any_spelling_of_an_escape(
    tmp_path: Path, escape: str
) -> None:
    put_hello(tmp_path, MANIFEST + f'    description: "Say {escape} hello"\n')

    (problem,) = read_project(tmp_path).problems

    assert (problem.code, problem.line) == (codes.HIDDEN_CHARACTER, 11)
