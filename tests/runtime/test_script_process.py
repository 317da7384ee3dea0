"""Scripts: what their process gives out and takes in, in each language."""

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.runtime.pool import ScriptSandbox
from covalt_git.runtime.scripts.process import ScriptLanguageError, ScriptProcess, spares
from covalt_git.runtime.scripts.steps import (
    LANGUAGES,
    CallReply,
    ScriptCall,
    ScriptEnd,
    ScriptError,
    ScriptFault,
    ScriptLanguage,
    ScriptLimits,
    ScriptLog,
    ScriptSource,
    Step,
)
from tests.examples import first_of
from tests.runtime.in_sandbox import HOLDING, LEVELS
from tests.tables import tables

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")

LIMITS = ScriptLimits()
STARTED_MS = 1_700_000_000_000

Answer = Callable[[ScriptCall], Any]


def source(text: str, language: ScriptLanguage = "python", **args: Any) -> ScriptSource:
    return ScriptSource(text, language, args, STARTED_MS, seed=7)


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


def ended(text: str, language: ScriptLanguage = "python", answer: Answer = echoed) -> ScriptEnd:
    end = run(source(text, language), answer)[-1].end
    assert end is not None
    return end


def in_order(script: ScriptSource, chosen: Callable[[list[int]], int]) -> tuple[Any, Any]:
    """Run a script whose calls are answered one at a time; return its calls and its end."""
    with ScriptProcess(script) as process:
        ran = [process.advance()]
        while ran[-1].end is None:
            index = chosen(sorted(process.pending))
            ran.append(process.advance([CallReply(index, f"reply {index}")]))
    return calls(ran), ran[-1].end


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


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "process"])
def test_javascript_gives_out_its_calls_and_ends_with_what_it_returns(level: SandboxLevel) -> None:
    text = "console.warn('begins', {a: 1});\nconst mail = await tools.gmail.messages.list({q: args.who});\nreturn [mail, 1]"

    ran = run(source(text, "javascript", who="acme"), level=level)

    assert ran == [
        Step(
            (ScriptCall(0, "gmail.messages.list", {"q": "acme"}, 2),),
            (ScriptLog("warn", 'begins {"a":1}'),),
        ),
        Step(end=ScriptEnd([{"path": "gmail.messages.list", "q": "acme"}, 1])),
    ]


def test_javascript_is_refused_without_a_sandbox_and_without_its_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ScriptLanguageError, match="need a sandbox"):
        ScriptProcess(source("1", "javascript"), level="process")

    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ScriptLanguageError) as raised:
        ScriptProcess(source("1", "javascript"), level="full")
    assert raised.value.hint == "pip install 'covalt-git[javascript]'"


VALUES: dict[str, Any] = dict(tables(__file__)["values"])


@pytest.mark.parametrize("name", VALUES)
def test_value_of_a_script(name: str) -> None:
    row = VALUES[name]

    assert ended(row["text"], row["language"]) == ScriptEnd(row["value"])


def test_search_and_describe_are_calls_and_a_path_can_be_stored() -> None:
    text = "tools.search(query='mail')\ntools.describe.tool(path='a.b')\nf = tools.a\nf.b(x=1)\ngetattr(f, 'c-d')()"

    assert calls(run(source(text))) == [
        (0, "search", {"query": "mail"}, 1),
        (1, "describe.tool", {"path": "a.b"}, 2),
        (2, "a.b", {"x": 1}, 4),
        (3, "a.c-d", {}, 5),
    ]


CAUGHT: dict[ScriptLanguage, str] = {
    "python": "try:\n    tools.a.b()\nexcept Exception as e:\n    r = str(e)\nr",
    "javascript": "try { await tools.a.b({}) } catch (e) { return e.code + ': ' + e.message }",
}
RAISED: dict[ScriptLanguage, str] = {
    "python": "x = 1\ntools.a.b()\n",
    "javascript": "const x = 1;\nawait tools.a.b()\n",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_error_of_a_call_can_be_caught_and_keeps_its_code_otherwise(
    language: ScriptLanguage,
) -> None:
    assert ended(CAUGHT[language], language, denied) == ScriptEnd("denied: not today")
    assert ended(RAISED[language], language, denied) == ScriptEnd(
        error=ScriptError("denied", "not today", 2)
    )


TOGETHER: dict[ScriptLanguage, str] = {
    "python": """
import asyncio
async def mail(n):
    a = await tools.mail.read(n=n)
    return await tools.mail.label(a=a)
r = await asyncio.gather(mail(1), mail(2), mail(3))
r
""",
    "javascript": """
const mail = async (n) => {
  const a = await tools.mail.read({n});
  return await tools.mail.label({a});
};
return await Promise.all([1, 2, 3].map(mail))
""",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_calls_issued_together_come_in_one_step(language: ScriptLanguage) -> None:
    ran = run(source(TOGETHER[language], language))

    assert [[call.path for call in step.calls] for step in ran] == [
        ["mail.read"] * 3,
        ["mail.label"] * 3,
        [],
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_order_of_replies_does_not_change_what_a_script_does(language: ScriptLanguage) -> None:
    script = source(TOGETHER[language], language)
    first = in_order(script, lambda pending: pending[0])

    assert in_order(script, lambda pending: pending[-1]) == first
    assert in_order(script, lambda pending: pending[len(pending) // 2]) == first


@pytest.mark.parametrize("language", LANGUAGES)
def test_known_replies_make_a_script_do_the_same_without_an_exchange_for_each(
    language: ScriptLanguage,
) -> None:
    script = source(TOGETHER[language], language)
    first = run(script)
    every = [call for step in first for call in step.calls]

    for count in range(len(every) + 1):
        known = [CallReply(call.index, echoed(call)) for call in every[:count]]
        with ScriptProcess(script, ScriptLimits(time_s=5), known=known) as process:
            again = list(steps(process))
        answered = [call for step in again for call in step.answered]
        assert answered == every[:count]
        assert answered + [call for step in again for call in step.calls] == every
        assert again[-1].end == first[-1].end
        # Three calls are issued together, twice: one exchange for each group that is not known, and the first.
        assert len(again) == 1 + (len(every) - count + 2) // 3


def test_known_error_keeps_its_code() -> None:
    known = [CallReply(0, error=ScriptFault("denied", "not today"))]
    with ScriptProcess(source("tools.a.b()"), known=known) as process:
        end = process.advance().end
    assert end is not None
    assert end.error is not None
    assert end.error.code == "denied"


CLOCKS: dict[ScriptLanguage, str] = {
    "python": """
import datetime, random, time
r = [tools.a.b(t=time.time(), n=random.random()) for _ in range(2)]
[datetime.date.today().isoformat(), random.randint(1, 10**6), [x for x in {"a", "z", 5}], id(tools), repr(lambda: 1)]
""",
    "javascript": """
const r = [await tools.a.b({t: Date.now(), n: Math.random()}), await tools.a.b({n: Math.random()})];
return [new Date().toString(), Math.random(), Object.keys({b: 1, a: 2, 1: 3})]
""",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_same_script_does_the_same_in_each_process_and_another_seed_does_not(
    language: ScriptLanguage,
) -> None:
    script = source(CLOCKS[language], language)
    first = run(script, level=LEVELS[0])

    assert run(script, level=HOLDING[-1]) == first
    assert calls(run(script._replace(seed=8))) != calls(first)
    assert calls(run(script._replace(started_ms=STARTED_MS + 1))) != calls(first)


DOES_NOT_WAIT: dict[ScriptLanguage, str] = {
    "python": "tools.a.b(x=1)\nawait tools.a.c()\nraise ValueError('no')",
    "javascript": "tools.a.b({x: 1});\nawait tools.a.c({});\nthrow new Error('no')",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_script_ends_after_the_calls_that_it_does_not_wait_for(language: ScriptLanguage) -> None:
    with ScriptProcess(source(DOES_NOT_WAIT[language], language)) as process:
        assert len(process.advance().calls) == 2
        assert process.advance([CallReply(1)]) == Step()
        end = process.advance([CallReply(0)]).end
    assert end is not None
    assert end.error is not None
    assert (end.error.code, end.error.line) == ("script_raised", 3)


HOSTILE: dict[str, Any] = dict(tables(__file__)["hostile"])


@pytest.mark.parametrize(
    ("name", "language", "ends"),
    first_of([(name, row["language"], str(row["ends"])) for name, row in HOSTILE.items()], (1, 2)),
)
def test_hostile_script_ends_with_an_error_of_its_own(
    name: str, language: ScriptLanguage, ends: str
) -> None:
    script = source(HOSTILE[name]["text"], language)
    with ScriptProcess(script, ScriptLimits(time_s=0.4, memory_mb=32), warm=True) as process:
        *_, last = steps(process)

    assert last.end is not None
    code = last.end.error.code if last.end.error else last.end.value
    assert str(code) == ends


STEP = b'{"calls":[],"logs":[],"end":null}\n'
CALL = b'{"path":"a.b","arguments":{},"line":1}'
WRITTEN = {
    "no JSON": b"no JSON\n",
    "not UTF-8": b"\xff\n",
    "two keys": b'{"calls":[],"calls":[],"logs":[],"end":null}\n',
    "no number": b'{"calls":[],"logs":[],"end":{"value":NaN,"error":null}}\n',
    "deeply nested": b"[" * 100_000 + b"\n",
    "no step": b'{"calls":{"a":1},"logs":[],"end":null}\n',
    "another key": b'{"calls":[],"logs":[],"end":null,"run":"rm"}\n',
    "a path without end": b'{"calls":[{"path":"%s","arguments":{},"line":1}],"logs":[],"end":null}\n'
    % (b"a" * 10_000),
    "an end before its calls": b'{"calls":[%s],"logs":[],"end":{"value":1}}\n' % CALL,
    "two steps": STEP * 2,
    "the begin of another step": STEP + b'{"calls"',
}


@contextmanager
def taken_over(written: bytes, limits: ScriptLimits = LIMITS) -> Iterator[ScriptProcess]:
    """Give a script whose process was taken over, and writes these bytes."""
    life, its_life = socket.socketpair()
    ours, its_end = socket.socketpair()

    def write() -> None:
        with its_life, its_end, suppress(OSError):
            its_end.recv(1 << 16)
            its_end.sendall(written)
            while its_end.recv(1 << 16):
                its_end.sendall(STEP * 2)

    thread = threading.Thread(target=write)
    with ScriptProcess(source("1"), limits, warm=False) as script:
        spares.put(script.spec, ScriptSandbox(life, ours))
        thread.start()
        yield script
    thread.join()


@pytest.mark.parametrize("name", WRITTEN)
def test_process_that_writes_no_step_ends_its_own_script(name: str) -> None:
    with taken_over(WRITTEN[name]) as script:
        end = script.advance().end

    assert end is not None
    assert end.error is not None
    assert end.error.code == "script_died"
    assert ended("1 + 1") == ScriptEnd(2)


def test_line_without_end_is_not_read_to_its_end() -> None:
    with taken_over(b"x" * (17 << 20), ScriptLimits(memory_mb=16)) as script:
        end = script.advance().end

    assert end is not None
    assert end.error is not None
    assert end.error.code == "script_memory"


LENGTH: dict[ScriptLanguage, str] = {
    "python": "len(tools.a.b())",
    "javascript": "(await tools.a.b()).length",
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("value", "ends"),
    [
        pytest.param("x" * (4 << 20), 4 << 20, id="fits"),
        pytest.param([[]] * 1_000_000, "script_memory", id="does not fit as values"),
        pytest.param("x" * (16 << 20), "script_memory", id="is longer than the memory"),
    ],
)
def test_reply_that_is_larger_than_the_memory_ends_the_script(
    language: ScriptLanguage, value: Any, ends: Any
) -> None:
    with ScriptProcess(source(LENGTH[language], language), ScriptLimits(memory_mb=16)) as script:
        script.advance()
        end = script.advance([CallReply(0, value)]).end

    assert end is not None
    assert (end.error.code if end.error else end.value) == ends


def test_process_gives_out_no_more_calls_than_the_limit_and_no_code_of_another_part() -> None:
    two = b'{"calls":[%s,%s],"logs":[],"end":null}\n' % (CALL, CALL)
    denied = b'{"calls":[],"logs":[],"end":{"error":{"code":"denied","message":"x","line":1}}}\n'

    with taken_over(two, ScriptLimits(calls=1)) as script:
        step = script.advance()
    assert (step.calls, step.end and step.end.error and step.end.error.code) == (
        (),
        "script_calls",
    )
    with taken_over(denied) as script:
        end = script.advance().end
    assert end == ScriptEnd(error=ScriptError("script_raised", "x", 1))


def test_process_that_writes_unasked_ends_its_own_script() -> None:
    with taken_over(b'{"calls":[%s],"logs":[],"end":null}\n' % CALL) as script:
        assert len(script.advance().calls) == 1
        end = script.advance([CallReply(0)]).end

    assert end is not None
    assert end.error is not None
    assert end.error.code == "script_died"


def test_script_can_be_closed_while_another_thread_waits_for_it() -> None:
    with ScriptProcess(source("while True: pass"), ScriptLimits(time_s=60), warm=False) as script:
        timer = threading.Timer(0.5, script.close)
        timer.start()
        end = script.advance().end
        timer.join()

    assert end is not None
    assert end.error is not None
    assert end.error.code == "script_died"


def test_reply_that_was_not_asked_for_is_refused() -> None:
    with ScriptProcess(source("tools.a.b()")) as process:
        process.advance()
        with pytest.raises(ValueError, match="waits for no reply"):
            process.advance([CallReply(1)])
        assert process.advance([CallReply(0, "x")]).end == ScriptEnd("x")
        with pytest.raises(ValueError, match="has ended"):
            process.advance()
