"""Results, errors and printed lines of calls at a terminal: the error first, and long texts shortened."""

from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.runtime import sandbox_levels
from tests.operations_client import Operations

Cli = Callable[..., tuple[int, str]]

LOUD = """\
def loud(lines: int, width: int, error: str = "") -> str:
    for number in range(lines):
        print(f"{number} ".ljust(width, "x"))
    if error:
        raise ValueError(error)
    return "r" * width

def other() -> dict:
    return {"body": "cut sho"}
"""


@pytest.fixture
def call(root: Path, cli: Cli) -> Callable[..., list[str]]:
    """Call the tool ``demo:loud``; return the lines that the command prints, of stderr last."""
    folder = root / "toolsets" / "loud" / "tools"
    folder.mkdir(parents=True)
    (folder / "loud.py").write_text(LOUD, encoding="utf-8")
    manifest = (
        "id: loud\nname: Loud\nversion: '1'\ntools:\n- {id: loud, entrypoint: \"tools.loud:loud\"}\n"
        '- {id: other, entrypoint: "tools.loud:other", output_schema: {required: [size]}}\n'
    )
    folder.with_name("toolset.yaml").write_text(manifest, encoding="utf-8")
    cli("chat", "new", "--id", "c1")

    def run(*pairs: str, tool: str = "loud") -> list[str]:
        args = [word for pair in pairs for word in ("--arg", pair)]
        return cli("call", "c1", f"loud:{tool}", *args)[1].splitlines()

    return run


def test_the_error_comes_before_the_first_and_last_lines_that_were_printed(
    call: Callable[..., list[str]],
) -> None:
    shown = call("lines=20000", "width=6", "error=bad")

    begin = shown.index("tool_raised: ValueError: bad")
    printed = shown.index("printed:")
    assert begin < printed < begin + 4
    assert shown[printed + 1] == "  0 xxxx"
    assert shown[printed + 100] == "  99 xxx"
    assert shown[printed + 101].startswith("  ... 19800 lines not shown; 20,000 lines (")
    assert shown[-1] == "  19999 "
    assert len(shown) < 220


@pytest.mark.parametrize("error", ["", "error=bad"])
def test_a_very_long_line_is_shortened_with_the_number_of_its_other_characters(
    call: Callable[..., list[str]], error: str
) -> None:
    shown = call("lines=1", "width=30000", *filter(None, [error]))

    (line,) = (one for one in shown if one.startswith("  0 xxx"))
    assert line == "  0 " + "x" * 998 + " ... 29,000 more characters"
    assert any(
        one.startswith("  ... long lines are shortened: covalt-git chat show") for one in shown
    )
    assert all(len(one) < 1100 for one in shown)


def test_a_very_long_message_of_an_error_is_shortened(call: Callable[..., list[str]]) -> None:
    shown = call("lines=0", "width=1", "error=" + "y" * 5000)

    (line,) = (one for one in shown if one.startswith("tool_raised"))
    assert line.endswith(" more characters")
    assert any("covalt-git chat show" in one for one in shown)


def test_what_a_failed_tool_answered_follows_the_error(
    call: Callable[..., list[str]], cli: Cli
) -> None:
    shown = call(tool="other")
    later = cli("chat", "show", "c1", "HEAD")[1].splitlines()

    for lines in (shown, later):
        at = lines.index("answered:")
        assert "bad_result: $: 'size' is missing" in lines[at - 1]
        assert lines[at + 1] == '  {"body": "cut sho"}'


def test_a_call_without_a_sandbox_says_so_also_in_its_chat(
    call: Callable[..., list[str]], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "  it ran without a sandbox" not in call("lines=1", "width=1")
    assert "it ran without a sandbox" not in cli("chat", "show", "c1")[1]

    monkeypatch.setattr(sandbox_levels, "level", lambda: "process")

    assert "  it ran without a sandbox" in call("lines=1", "width=1")
    assert "it ran without a sandbox" in cli("chat", "show", "c1")[1].splitlines()


def test_a_toolset_shows_what_each_of_its_servers_can_do(root: Path, cli: Cli) -> None:
    folder = root / "toolsets/gear"
    folder.mkdir()
    (folder / "toolset.yaml").write_text(
        "id: gear\nname: Gear\nversion: '1'\nmcp_servers:\n- {id: disk, command: python, args: [s.py]}\n",
        encoding="utf-8",
    )
    (folder / "s.py").touch()
    assert "disk: runs in the sandbox, and reads its own files" in cli("toolset", "show", "gear")[1]

    Operations(root)("add_grant", toolset_id="gear", kind="unsandboxed", name="disk")

    assert "disk: runs without a sandbox, and can do" in cli("toolset", "show", "gear")[1]
