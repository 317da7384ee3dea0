"""Scripts: what their process gives out and takes in, in each language."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.runtime.scripts.process import ScriptProcess
from covalt_git.runtime.scripts.steps import (
    CallReply,
    ScriptCall,
    ScriptEnd,
    ScriptError,
    ScriptFault,
    ScriptLimits,
    ScriptLog,
    ScriptSource,
    Step,
)
from tests.runtime.in_sandbox import LEVELS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")

STARTED_MS = 1_700_000_000_000

Answer = Callable[[ScriptCall], Any]


def source(text: str, **args: Any) -> ScriptSource:
    return ScriptSource(text, "python", args, STARTED_MS, seed=7)


def echoed(call: ScriptCall) -> Any:
    return {"path": call.path, **call.arguments}


def denied(_: ScriptCall) -> ScriptFault:
    return ScriptFault("denied", "not today")


def steps(process: ScriptProcess, answer: Answer = echoed) -> Iterator[Step]:
    """Run a script whose calls are answered at once; yield its steps."""
    yield (step := process.advance())
    while step.end is None:
        replies = []
        for call in step.calls:
            value = answer(call)
            is_fault = isinstance(value, ScriptFault)
            replies.append(
                CallReply(call.index, error=value) if is_fault else CallReply(call.index, value)
            )
        yield (step := process.advance(replies))


def run(
    script: ScriptSource, answer: Answer = echoed, *, level: SandboxLevel | None = None
) -> list[Step]:
    with ScriptProcess(script, ScriptLimits(time_s=5), level=level) as process:
        return list(steps(process, answer))


def calls(ran: list[Step]) -> list[tuple[int, str, Any, int | None]]:
    return [(c.index, c.path, c.arguments, c.line) for step in ran for c in step.calls]


@pytest.mark.parametrize("level", LEVELS)
def test_script_gives_out_its_calls_and_ends_with_its_last_expression(
    level: SandboxLevel,
) -> None:
    text = (
        "print('begins')\nmail = tools.gmail.messages.list({'q': args['who']}, limit=2)\n[mail, 1]"
    )

    ran = run(source(text, who="acme"), level=level)

    assert ran == [
        Step(
            (ScriptCall(0, "gmail.messages.list", {"q": "acme", "limit": 2}, 2),),
            (ScriptLog("info", "begins"),),
        ),
        Step(end=ScriptEnd([{"path": "gmail.messages.list", "q": "acme", "limit": 2}, 1])),
    ]


def test_search_and_describe_are_calls_and_a_path_can_be_stored() -> None:
    text = "tools.search(query='mail')\ntools.describe.tool(path='a.b')\nf = tools.a\nf.b(x=1)\ngetattr(f, 'c-d')()"

    assert calls(run(source(text))) == [
        (0, "search", {"query": "mail"}, 1),
        (1, "describe.tool", {"path": "a.b"}, 2),
        (2, "a.b", {"x": 1}, 4),
        (3, "a.c-d", {}, 5),
    ]


def test_error_of_a_call_can_be_caught_and_keeps_its_code_otherwise() -> None:
    caught = run(source("try:\n    tools.a.b()\nexcept Exception as e:\n    r = str(e)\nr"), denied)
    raised = run(source("x = 1\ntools.a.b()\n"), denied)

    assert caught[-1].end == ScriptEnd("denied: not today")
    assert raised[-1].end == ScriptEnd(error=ScriptError("denied", "not today", 2))


def test_reply_that_was_not_asked_for_is_refused() -> None:
    with ScriptProcess(source("tools.a.b()")) as process:
        process.advance()
        with pytest.raises(ValueError, match="waits for no reply"):
            process.advance([CallReply(1)])
        assert process.advance([CallReply(0, "x")]).end == ScriptEnd("x")
        with pytest.raises(ValueError, match="has ended"):
            process.advance()
