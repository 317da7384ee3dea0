"""Many calls in a file: all checked before any runs, made in order, and gone on with after a stop."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.calls.batch import _columns
from covalt_git.names import new_id

if TYPE_CHECKING:
    from tests.calls.conftest import World

TELLS_MANIFEST = """\
id: demo
name: Demo
version: "1"
tools: [{id: tell, entrypoint: "tools.tells:tell"}]
"""
TELLS = """\
from covalt_toolset import get_context


def tell() -> None:
    get_context().progress(1, 2)
    get_context().log("slow", "warning")
"""


def add(text: str, **more: Any) -> dict[str, Any]:
    return {"tool": "demo:add", "args": {"text": text}, **more}


def batch(world: World, *lines: dict[str, Any] | str) -> str:
    file = world.root / "calls.jsonl"
    written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    return str(file)


def run(
    world: World, *lines: dict[str, Any] | str, options: tuple[str, ...] = ()
) -> tuple[int, list[dict[str, Any]], dict[str, int]]:
    """Return the exit code, a row for each call that was made, and the summary."""
    done = world.cli("call", "c1", "--batch", batch(world, *lines), "--json", *options)
    *rows, last = map(json.loads, done.stdout.splitlines())
    return done.returncode, rows, {name: n for name, n in last["summary"].items() if n}


def test_calls_are_made_in_order(world: World) -> None:
    world.project().chats.new("c2")
    code, rows, summary = run(world, add("a"), "", add("b", chat="c2"), add("c"))

    assert code == 0
    assert [(row["line"], row["chat_id"], row["became"]) for row in rows] == [
        (1, "c1", "ran"),
        (3, "c2", "ran"),
        (4, "c1", "ran"),
    ]
    assert [row["result"] for row in rows] == [{"text": "a"}, {"text": "b"}, {"text": "c"}]
    assert summary == {"ran": 3}
    assert world.files() == {"runs.txt": "a\nc\n"}


def test_everything_that_is_wrong_is_told_at_once_and_nothing_runs(world: World) -> None:
    taken, twice = new_id(), new_id()
    world.cli("call", "c1", "demo:add", "--id", taken)
    file = batch(
        world,
        add("good"),
        '{"tool": "demo:add",}',
        "[]",
        '{"tool": "demo:add", "agrs": {}}',
        '{"tool": 7}',
        "{}",
        '{"tool": "demo:ad"}',
        '{"args": {"tool": 1, "text": 1, "more": 2}, "tool": "demo:add"}',
        add("x", chat="c9"),
        add("x", id="x"),
        add("x", id=taken),
        add("x", id=twice),
        add("x", id=twice),
        '{"tool": "demo:add", "tool": "demo:add"}',
        '{"tool": "demo:add", "args": {"n": 9007199254740993}}',
    )
    done = world.cli("call", "c1", "--batch", file)
    told = [line for line in done.stderr.splitlines() if line.startswith(file)]

    assert (done.returncode, done.stdout) == (2, "")
    assert [line.removeprefix(f"{file}:").split(" ")[0] for line in told] == [
        "2:21:",
        "3:1:",
        "4:30:",
        "5:10:",
        "6:1:",
        "7:10:",
        *["8:10:"] * 2,
        "9:53:",
        "10:51:",
        "11:51:",
        "13:51:",
        "14:1:",
        "15:1:",
    ]
    assert [line.split(" ")[1] for line in told] == [
        "CG102",
        "CG203",
        "CG201",
        "CG203",
        "CG202",
        "unknown_tool",
        *["invalid_arguments"] * 2,
        "unknown_chat",
        "bad_name",
        "call_id_taken",
        "CG205",
        "CG102",
        "CG102",
    ]
    assert f"13 lines of {file} cannot be called: nothing ran" in done.stderr
    assert len(world.codes()) == 1


def test_a_batch_without_a_chat_needs_one_on_each_line(world: World) -> None:
    file = batch(world, add("a", chat="c1"), add("b"))
    done = world.cli("call", "--batch", file)

    assert done.returncode == 2
    assert done.stderr.startswith(f"{file}:2:1: CG202 no chat is named\n")


@pytest.mark.parametrize(
    ("options", "became", "summary"),
    [
        pytest.param((), ["ran", "failed"], {"ran": 1, "failed": 1, "not_run": 2}, id="stop"),
        pytest.param(
            ("--keep-going",),
            ["ran", "failed", "waiting", "ran"],
            {"ran": 2, "failed": 1, "waiting": 1},
            id="keep-going",
        ),
        pytest.param(
            ("--keep-going", "--yes"),
            ["ran", "failed", "ran", "ran"],
            {"ran": 3, "failed": 1},
            id="yes",
        ),
    ],
)
def test_a_batch_stops_where_a_call_fails_or_waits_unless_it_is_to_go_on(
    world: World, options: tuple[str, ...], became: list[str], summary: dict[str, int]
) -> None:
    lines = [add("a"), {"tool": "demo:fail"}, {"tool": "demo:ask"}, add("b")]
    code, rows, told = run(world, *lines, options=options)

    assert (code, [row["became"] for row in rows], told) == (1, became, summary)


def test_arguments_that_only_the_tool_can_judge_fail_on_the_way(world: World) -> None:
    code, (row, _), summary = run(
        world,
        {"tool": "demo:judge", "args": {"number": 3}},
        add("b"),
        options=("--keep-going",),
    )

    assert (code, summary) == (1, {"ran": 1, "failed": 1})
    assert row["refusal"]["error"] == "invalid_arguments"


def test_a_batch_with_ids_goes_on_where_it_stopped(world: World) -> None:
    ids = [new_id() for _ in range(4)]
    lines = [
        add("a", id=ids[0]),
        {"tool": "demo:ask", "id": ids[1]},
        add("b", id=ids[2]),
    ]
    first = run(world, *lines)
    again = run(world, *lines)
    world.approve(first[1][1]["execution_id"])
    last = run(world, *lines)

    assert (first[0], first[2]) == (1, {"ran": 1, "waiting": 1, "not_run": 1})
    assert (again[0], again[2]) == (1, {"already": 1, "waiting": 1, "not_run": 1})
    assert again[1][1]["execution_id"] == first[1][1]["execution_id"]
    assert (last[0], last[2]) == (0, {"already": 2, "ran": 1})
    assert world.runs() == 3


def test_a_batch_goes_on_behind_a_call_that_failed_before_and_still_says_so(world: World) -> None:
    lines = [{"tool": "demo:fail", "id": new_id()}, add("b", id=new_id())]
    first, again = run(world, *lines), run(world, *lines)

    assert (first[0], first[2]) == (1, {"failed": 1, "not_run": 1})
    assert (again[0], again[2]) == (1, {"already": 1, "ran": 1})


def test_a_batch_comes_from_standard_input_and_is_told_a_line_each(world: World) -> None:
    lines = "".join(json.dumps(one) + "\n" for one in (add("a"), {"tool": "demo:fail"}, add("b")))
    done = subprocess.run(
        world.command("call", "c1", "--batch", "-"),
        input=lines,
        capture_output=True,
        text=True,
        check=False,
    )

    failed = world.log()[-1].id
    assert done.returncode == 1
    assert done.stderr == f"  see all of it: covalt-git chat show c1 {failed[:12]}\n"
    assert done.stdout.splitlines() == [
        "standard input:1: c1 demo:add ran",
        "standard input:2: c1 demo:fail failed: tool_raised: RuntimeError: half way ?",
        "3 calls: 1 ran, 1 failed, 1 not run",
    ]


def test_at_a_terminal_a_bar_tells_how_far_it_is(world: World) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        world.command("call", "c1", "--batch", batch(world, add("a"), add("b"))),
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ):
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal ends on Linux
            while chunk := os.read(ours, 1000):
                shown += chunk
    os.close(ours)

    assert b"[....................] 0/2 c1 demo:add" in shown
    assert b"[##########..........] 1/2 c1 demo:add" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_a_batch_tells_of_each_call_what_a_call_alone_tells(world: World) -> None:
    code, (ran, failed), _ = run(world, add("a"), {"tool": "demo:fail"})
    alone = json.loads(world.cli("call", "c1", "demo:add", "--json").stdout)

    assert code == 1
    assert ran.keys() == alone.keys() | {"line", "became"}
    assert (ran["output"], ran["sandbox"]) == ("added a\n", alone["sandbox"])
    assert 'raise RuntimeError("half way' in failed["error_detail"]["traceback"]


def test_a_batch_that_is_followed_says_whose_each_line_is(world: World) -> None:
    world.write("demo/toolset.yaml", TELLS_MANIFEST)
    world.write("demo/tools/tells.py", TELLS)
    file = batch(world, {"tool": "demo:tell"}, "", {"tool": "demo:tell"})
    told = world.cli("call", "c1", "--batch", file, "--follow")

    assert told.stderr.splitlines() == [
        f"{file}:1: [##########..........] 1/2",
        f"{file}:1: warning: slow",
        f"{file}:3: [##########..........] 1/2",
        f"{file}:3: warning: slow",
    ]
    assert world.cli("call", "c1", "--batch", file).stderr == ""


def test_a_file_that_cannot_be_read_is_a_wrong_call(world: World) -> None:
    binary = world.root / "binary"
    binary.write_bytes(b"a\xff")

    for option in ("--batch", "--args-file"):
        tool = () if option == "--batch" else ("demo:add",)
        missing = world.cli("call", "c1", *tool, option, "nowhere")
        coded = world.cli("call", "c1", *tool, option, str(binary))
        assert (missing.returncode, coded.returncode) == (2, 2)
        assert missing.stderr == "nowhere cannot be read: no such file or directory\n"
        assert coded.stderr == f"{binary} is not UTF-8: byte 1\n"


def test_a_file_may_begin_with_the_signature_of_its_encoding(world: World) -> None:
    file = batch(world, "\ufeff" + json.dumps(add("a")))
    done = world.cli("call", "c1", "--batch", file)

    assert (done.returncode, done.stderr) == (0, "")


def test_an_empty_batch_is_no_calls(world: World) -> None:
    done = world.cli("call", "c1", "--batch", batch(world, ""))

    assert (done.returncode, done.stdout) == (0, "0 calls\n")


def test_a_batch_says_what_is_called_by_itself(world: World) -> None:
    file = batch(world, add("a"))

    for more in (("demo:add",), ("--arg", "text=a"), ("--id", new_id()), ("--open",)):
        done = world.cli("call", "c1", *more, "--batch", file)
        assert done.returncode == 2
        assert done.stderr == "with --batch the lines of the file say what is called\n"
    assert world.cli("call").returncode == 2
    assert world.log() == []


@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.integers() | st.text(),
            lambda x: st.lists(x) | st.dictionaries(st.text(), x),
            max_leaves=10,
        ),
    ),
    st.sampled_from([None, (", ", ": "), (" ,\t", " :  ")]),
)
def test_the_place_of_every_value_is_found(
    value: dict[str, Any], separators: tuple[str, str] | None
) -> None:
    line = json.dumps(value, separators=separators)
    found = _columns(line)

    assert found.keys() == value.keys()
    for key, column in found.items():
        assert json.JSONDecoder().raw_decode(line, column - 1)[0] == value[key]
