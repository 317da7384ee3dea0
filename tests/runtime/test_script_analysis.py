"""What the text of a script says: the analysis agrees with the interpreters."""

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.runtime.scripts.analysis import MODULES, analyze
from covalt_git.runtime.scripts.process import ScriptProcess
from covalt_git.runtime.scripts.steps import LANGUAGES, ScriptError, ScriptLanguage, ScriptSource
from tests.examples import examples
from tests.tables import tables

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")

UNSUPPORTED: dict[str, Any] = dict(tables(__file__)["unsupported"])
SUPPORTED: list[str] = tables(__file__)["supported"]
CALLS: dict[str, Any] = dict(tables(__file__)["calls"])


def checked(text: str, language: ScriptLanguage = "python") -> ScriptError | None:
    """Return the error of the syntax that the interpreter finds, without running the script."""
    with ScriptProcess(ScriptSource(text, language, {}, 0, 0), checks=True) as script:
        end = script.advance().end
    assert end is not None
    return end.error


@needs_linux
@pytest.mark.parametrize("name", UNSUPPORTED)
def test_python_that_the_interpreter_lacks_has_its_place(name: str) -> None:
    row = UNSUPPORTED[name]

    lacking = analyze(row["text"], "python").unsupported
    refused = checked(row["text"])

    assert [(item.line, item.col) for item in lacking] == [
        (line, col) for line, col, _ in row["found"]
    ]
    for item, (_, _, what) in zip(lacking, row["found"], strict=True):
        assert item.message.startswith(f"scripts in Python cannot use {what}")
    assert refused is not None
    assert (refused.code, refused.line) == ("script_unsupported", lacking[0].line)


@needs_linux
@pytest.mark.parametrize("text", SUPPORTED)
def test_python_that_the_interpreter_has_is_not_reported(text: str) -> None:
    assert analyze(text, "python").unsupported == ()
    assert checked(text) is None


@needs_linux
def test_modules_are_exactly_the_modules_of_the_interpreter() -> None:
    names = sorted(name for name in sys.stdlib_module_names if not name.startswith("_"))
    tries = [
        f"try:\n  import {name}\n  found.append('{name}')\nexcept ImportError: pass"
        for name in names
    ]
    text = "\n".join(["found = []", *tries, "found"])
    with ScriptProcess(ScriptSource(text, "python", {}, 0, 0)) as script:
        end = script.advance().end

    assert end is not None
    assert end.value == sorted(MODULES)


@needs_linux
def test_syntax_error_has_its_place_in_each_language() -> None:
    python, javascript = checked("x = 1\nif x\n  y"), checked("let x;\n  let y = ;", "javascript")

    assert python is not None
    assert javascript is not None
    assert (python.code, python.line, python.col) == ("script_syntax", 2, 5)
    assert (javascript.code, javascript.line, javascript.col) == ("script_syntax", 2, 11)
    assert checked("while True: pass") is None
    assert checked("for (;;) tools.a()", "javascript") is None


@pytest.mark.parametrize("name", CALLS)
def test_calls_whose_path_and_arguments_are_literal(name: str) -> None:
    row = CALLS[name]

    calls = analyze(row["text"], row["language"]).calls

    assert [
        [call.path, call.line, call.col, None if call.arguments is None else [*call.arguments]]
        for call in calls
    ] == row["found"]


PIECES = [
    "tools",
    ".",
    "a",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "'",
    '"',
    "`",
    "/",
    "\n",
    "[",
    "x",
    "*",
    "\\",
    "=",
    "#",
]


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_text_can_be_analyzed(text: str) -> None:
    for language in LANGUAGES:
        for call in analyze(text, language).calls:
            line = text.splitlines()[call.line - 1]
            assert line[call.col - 1 :].startswith("tools")
