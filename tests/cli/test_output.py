"""What is printed: safe on a terminal, aligned, and never a traceback for a closed pipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from covalt_git.cli import main
from covalt_git.cli.terminal import output
from covalt_git.toolsets.new_project import create_project


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
def test_hidden_characters_are_escaped_not_obeyed(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.say(text)

    assert capsys.readouterr().out == f"{shown}\n"


@pytest.mark.parametrize("args", [["ch\u200bat"], ["--log-format", "j\u200b", "chat"]])
def test_a_usage_error_escapes_what_was_typed(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(args)

    shown = capsys.readouterr().err
    assert "\u200b" not in shown
    assert "u{200b}" in shown or r"\u200b" in shown  # click escapes the values of a choice itself


def test_a_cell_of_a_table_begins_no_other_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.table([("a\n\tb\u2028c\r",)], titles=("NAME",))

    assert capsys.readouterr().out == "NAME\na\\u{a}\\u{9}b\\u{2028}c\\u{d}\n"


def test_a_table_lines_up(capsys: pytest.CaptureFixture[str]) -> None:
    output.table([("a", "1"), ("long name", "22")], titles=("NAME", "N"))

    assert capsys.readouterr().out == "NAME       N\na          1\nlong name  22\n"


@pytest.mark.parametrize(("count", "words"), [(0, "0 tools"), (1, "1 tool"), (2, "2 tools")])
def test_plurals(count: int, words: str) -> None:
    assert output.plural(count, "tool") == words


def test_a_reader_that_has_enough_ends_it_quietly(tmp_path: Path) -> None:
    create_project(tmp_path)
    command = f"{sys.executable} -m covalt_git -C {tmp_path} tool list --json | head -c 1"

    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert done.stdout == "{"
    assert done.stderr == ""


def test_problems_are_named_from_where_the_person_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_project(tmp_path)
    (tmp_path / "toolsets/app-builder/toolset.yaml").write_text("id: [", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "toolsets")

    done = subprocess.run(
        [sys.executable, "-m", "covalt_git", "validate"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stdout.startswith("app-builder/toolset.yaml:")


def test_validate_of_some_paths_reports_only_them(tmp_path: Path) -> None:
    create_project(tmp_path)
    for name in ("app-builder", "data-lab"):
        (tmp_path / f"toolsets/{name}/toolset.yaml").write_text("id: [", encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "covalt_git", "validate", str(tmp_path / "toolsets/data-lab")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "data-lab/toolset.yaml" in done.stdout
    assert "app-builder/toolset.yaml" not in done.stdout
