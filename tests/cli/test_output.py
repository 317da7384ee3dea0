"""What is printed: hidden characters are escaped, columns are aligned, and a closed pipe is no error."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from covalt_git.cli import main
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.parameters import parameters


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b[2Jgone", "\\u{1b}[2Jgone", id="escape-sequence"),
        pytest.param("a\rb", "a\\u{d}b", id="carriage-return"),
        pytest.param("evil\u202etxt.exe", "evil\\u{202e}txt.exe", id="direction"),
        pytest.param("a\U000e0041b", "a\\u{e0041}b", id="tag"),
        pytest.param("tab\there\nand a line", "tab\there\nand a line", id="tab-and-line"),
        pytest.param("naïve ✓ 日本", "naïve ✓ 日本", id="plain-unicode"),
    ],
)
def test_hidden_characters_are_escaped(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.say(text)

    assert capsys.readouterr().out == f"{shown}\n"


@pytest.mark.parametrize("args", [["ch\u200bat"], ["--log-format", "j\u200b", "chat"]])
def test_a_usage_error_escapes_the_arguments(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(args)

    shown = capsys.readouterr().err
    assert "\u200b" not in shown
    assert "u{200b}" in shown or r"\u200b" in shown  # click escapes the values of a choice itself


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([("a", "1"), ("long name", "22")], "NAME       N\na          1\nlong name  22\n"),
        (
            [("a\n\tb\u2028c\r", "")],
            "NAME                        N\na\\u{a}\\u{9}b\\u{2028}c\\u{d}\n",
        ),
    ],
)
def test_a_row_of_a_table_is_one_line(
    rows: list[tuple[str, str]], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.table(rows, titles=("NAME", "N"))

    assert capsys.readouterr().out == shown


def test_a_reader_that_stops_reading_ends_a_command_quietly(sample_project: Path) -> None:
    command = f"{sys.executable} -m covalt_git -C {sample_project} tool list --json | head -c 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("{", "")


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer (1 to 9), optional"),
        (
            {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5, "default": 1},
            "number (more than 0, a multiple of 0.5), optional, default: 1",
        ),
        (
            {"type": "string", "pattern": "^a", "maxLength": 3, "default": "a"},
            'string (at most 3 characters, must match ^a), optional, default: "a"',
        ),
        (
            {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}], "default": None},
            "integer (at least 1) or null, optional",
        ),
        (
            {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Part"}, "default": [1]},
            "array (at least 1 item) of integer (at least 1), optional, default: [1]",
        ),
        ({"type": ["string", "null"], "minLength": 2}, "string (at least 2 characters) or null, optional"),
        ({"type": "string", "pattern": 3, "minLength": "x"}, "string, optional"),
    ],
)  # fmt: skip
def test_a_parameter_is_shown_with_its_limits_and_default(
    schema: dict[str, Any], shown: str
) -> None:
    whole = {
        "properties": {"x": schema},
        "$defs": {"Part": {"type": "integer", "minimum": 1}},
    }
    [line] = parameters(whole)

    assert f"{line.kind}, {line.needed}" == shown
