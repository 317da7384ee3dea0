"""Characters that hide text are reported; characters that languages and emoji need are not."""

from pathlib import Path

import pytest

from covalt_git.checks.hidden_characters import hidden_characters
from covalt_git.problems import codes
from covalt_git.toolsets.project_files import read_project
from tests.toolsets.projects import MANIFEST, put_hello


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("user\u202e", "U+202E (RIGHT-TO-LEFT OVERRIDE)"),
        ("a\u2066b", "U+2066 (LEFT-TO-RIGHT ISOLATE)"),
        ("a\u200bb", "U+200B (ZERO WIDTH SPACE)"),
        ("a\u200db", "U+200D (ZERO WIDTH JOINER)"),
        ("a\u200eb", "U+200E (LEFT-TO-RIGHT MARK)"),
        ("a\U000e0041b", "U+E0041 (TAG LATIN CAPITAL LETTER A)"),
        ("a\U000e0101", "U+E0101 (VARIATION SELECTOR-18)"),
        ("\u2764\ufe0f\ufe0e", "U+FE0E (VARIATION SELECTOR-15)"),
        ("a\ufe0f", "U+FE0F (VARIATION SELECTOR-16)"),
        ("a\u3164", "U+3164 (HANGUL FILLER)"),
    ],
)
def test_a_character_that_hides_text_is_reported(text: str, found: str) -> None:
    (hidden,) = hidden_characters(text)

    assert hidden.message.startswith(f"the character {found} ")


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "grüße, 你好, привет",
        "\U0001f469\u200d\U0001f4bb",
        "\u2764\ufe0f 1\ufe0f\u20e3",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u05e9\u05dc\u05d5\u05dd\u200e (abc)",
    ],
)
def test_characters_of_languages_and_emoji_are_allowed(text: str) -> None:
    assert list(hidden_characters(text)) == []


def test_a_hidden_character_in_a_docstring_is_reported(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    text = 'def greet(name: str) -> str:\n    """Say\\u200b hello."""\n    return name\n'
    (toolset / "tools" / "hello.py").write_text(text)

    (problem,) = read_project(tmp_path).problems

    assert problem.code == codes.HIDDEN_CHARACTER
    assert problem.path == "toolsets/hello/toolset.yaml"
    assert problem.message.startswith(
        "tools[greet].entrypoint: in its description the character U+200B"
    )


@pytest.mark.parametrize("escape", ["\\u202e", "\\u202E", "\\U0000202E", "\\xAD"])
def test_an_escape_in_a_description_is_reported_in_any_spelling(
    tmp_path: Path, escape: str
) -> None:
    put_hello(tmp_path, MANIFEST + f'    description: "Say {escape} hello"\n')

    (problem,) = read_project(tmp_path).problems

    assert (problem.code, problem.line) == (codes.HIDDEN_CHARACTER, 11)
