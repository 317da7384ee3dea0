"""A batch of calls in a file: all are checked before any runs, and the same file resumes a stopped batch."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from covalt_git.names import new_id
from covalt_git.operations.calls.call_batch import BadBatchError, read_batch
from tests.calls.conftest import World
from tests.examples import rest

Cli = Callable[..., tuple[int, str]]


def add(text: str, **more: Any) -> dict[str, Any]:
    return {"tool": "demo:add", "args": {"text": text}, **more}


def batch(world: World, *lines: dict[str, Any] | str) -> str:
    """Write a batch; return its path."""
    file = world.root / "calls.jsonl"
    written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    return str(file)


def run(
    world: World, cli: Cli, *lines: dict[str, Any] | str, options: tuple[str, ...] = ()
) -> tuple[int, list[dict[str, Any]], dict[str, int]]:
    """Return the exit code, an object for each call that was made, and the summary."""
    code, printed = cli("call", "c1", "--batch", batch(world, *lines), "--json", *options)
    *rows, last = map(json.loads, printed.splitlines())
    return code, rows, {name: n for name, n in last["summary"].items() if n}


def test_every_problem_of_every_line_is_reported_and_nothing_runs(world: World) -> None:
    taken, twice = new_id(), new_id()
    world.call("add", call_id=taken)
    wrong: list[tuple[Any, str]] = [
        (add("good"), ""),
        ('{"tool" "demo:add"}', "2:9 CG102"),
        ("[]", "3:1 CG203"),
        ('{"tool": "demo:add", "agrs": {}}', "4:30 CG201"),
        ('{"tool": 7}', "5:10 CG203"),
        ("{}", "6:1 CG202"),
        ('{"tool": "demo:ad"}', "7:10 unknown_tool"),
        ('{"args": {"tool": 1, "text": 1}, "tool": "demo:add"}', "8:10 invalid_arguments"),
        (None, "8:10 invalid_arguments"),
        (add("x", chat="c9"), "9:53 unknown_chat"),
        (add("x", id="x"), "10:51 bad_name"),
        (add("x", id=taken), "11:51 call_id_taken"),
        (add("x", id=twice), ""),
        (add("x", id=twice), "13:51 CG205"),
        ('{"tool": "demo:add", "tool": "demo:add"}', "14:1 CG102"),
        ('{"tool": "demo:add", "args": {"n": 9007199254740993}}', "15:1 CG102"),
    ]
    lines = [line if isinstance(line, str) else json.dumps(line) for line, _ in wrong if line]
    project = world.project()

    def problems(text: str, chat_id: str | None) -> list[str]:
        with pytest.raises(BadBatchError) as caught:
            read_batch(text, "b", engine=project.engine(), chats=project.chats, chat_id=chat_id)
        return [f"{one.line}:{one.col} {one.code}" for one in caught.value.problems]

    assert problems("\n".join(lines), "c1") == [place for _, place in wrong if place]
    assert problems(json.dumps(add("a")), None) == ["1:1 CG202"]
    assert len(world.codes()) == 1


@pytest.mark.parametrize(
    ("options", "asked"), [((), "waiting"), (("--no-terminal", "tested"), "ran")]
)
def test_a_batch_that_keeps_going_makes_every_call_in_order(
    world: World, cli: Cli, options: tuple[str, ...], asked: str
) -> None:
    world.project().chats.new("c2")
    judged = {"tool": "demo:judge", "args": {"number": 3}}
    # A file may begin with a byte order mark.
    lines: list[Any] = ["\ufeff" + json.dumps(add("a")), "", {"tool": "demo:fail"}, judged]
    lines += [{"tool": "demo:ask"}, add("b", chat="c2")]
    code, rows, _ = run(world, cli, *lines, options=("--keep-going", *options))

    became = [(1, "ran"), (3, "failed"), (4, "failed"), (5, asked), (6, "ran")]
    assert (code, [(row["line"], row["became"]) for row in rows]) == (1, became)
    assert (rows[0]["chat_id"], rows[-1]["chat_id"]) == ("c1", "c2")
    assert (rows[0]["result"], rows[0]["output"]) == ({"text": "a"}, "added a\n")
    assert 'raise RuntimeError("half way' in rows[1]["error_detail"]["traceback"]
    assert rows[2]["refusal"]["error"] == "invalid_arguments"


@pytest.mark.parametrize(
    ("lines", "ends"),
    [
        ([{"tool": "demo:ask"}], 4),
        rest([{"tool": "demo:ask"}, add("a")], 4),
        ([add("a"), {"tool": "demo:ask"}, {"tool": "demo:fail"}], 1),
        rest([{"tool": "demo:fail"}, {"tool": "demo:ask"}], 1),
        rest([add("a")], 0),
    ],
)
def test_a_batch_with_pending_calls_exits_with_4_unless_a_call_failed(
    world: World, cli: Cli, lines: list[Any], ends: int
) -> None:
    assert run(world, cli, *lines, options=("--keep-going",))[0] == ends
    if ends == 4:
        assert run(world, cli, *lines)[0] == ends


def test_a_batch_with_idempotency_keys_resumes_where_it_stopped(world: World, cli: Cli) -> None:
    first, second, third, fourth = (new_id() for _ in range(4))
    lines = [
        add("a", id=first),
        {"tool": "demo:fail", "id": second},
        {"tool": "demo:ask", "id": third},
        add("b", id=fourth),
    ]
    runs = [run(world, cli, *lines) for _ in range(3)]
    waiting = runs[1][1][2]["execution_id"]
    world.approve(waiting)
    runs.append(run(world, cli, *lines))

    assert [(code, summary) for code, _, summary in runs] == [
        (1, {"ran": 1, "failed": 1, "not_run": 2}),
        (1, {"already": 2, "waiting": 1, "not_run": 1}),
        (1, {"already": 2, "waiting": 1, "not_run": 1}),
        (1, {"already": 3, "ran": 1}),
    ]
    assert runs[2][1][2]["execution_id"] == waiting
    assert world.runs() == 3
