"""Tools that go wrong: each is an error of its call with a code, and never an error of ours."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.runtime.python_tool import KEPT_OUTPUT

if TYPE_CHECKING:
    from tests.runtime.conftest import Workshop


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        pytest.param("raise KeyError('x')", "tool_raised", "KeyError: 'x'", id="raises"),
        pytest.param("raise ValueError", "tool_raised", "ValueError", id="raises-without-words"),
        pytest.param(
            r"raise ValueError('half \ud800')",
            "tool_raised",
            "ValueError: half ?",
            id="half-of-a-surrogate-pair-in-the-message",
        ),
        pytest.param("sys.exit('bye')", "tool_raised", "SystemExit: bye", id="exits"),
        pytest.param("raise KeyboardInterrupt", "tool_raised", "KeyboardInterrupt", id="interrupt"),
        pytest.param(
            "raise Silent", "tool_raised", "Silent: (its text cannot be shown)", id="broken-message"
        ),
        pytest.param(
            "raise Loud", "tool_raised", "Loud: (its text cannot be shown)", id="message-exits"
        ),
        pytest.param(
            "return object()",
            "bad_result",
            "$: an object is not JSON",
            id="object",
        ),
        pytest.param(
            "return {'rows': [float('nan')]}",
            "bad_result",
            "$.rows[0]: nan is not a JSON number",
            id="nan",
        ),
        pytest.param(
            "return 'x' * (1 << 20)",
            "limit_output",
            "it printed or returned more than 1 MiB",
            id="result-too-large",
        ),
        pytest.param(
            "raise ValueError('x' * (1 << 20))",
            "limit_output",
            "it printed or returned more than 1 MiB",
            id="message-too-large",
        ),
        pytest.param(
            "while True: print('x' * 65536)",
            "limit_output",
            "it printed or returned more than 1 MiB",
            id="prints-for-ever",
        ),
        pytest.param(
            "os._exit(7)", "tool_died", "its process ended with 7 and no answer", id="hard-exit"
        ),
        pytest.param(
            "os._exit(0)", "tool_died", "its process ended with 0 and no answer", id="quiet-exit"
        ),
        pytest.param(
            "os.kill(os.getpid(), 9)",
            "tool_died",
            "its process was ended by SIGKILL",
            id="kills-itself",
        ),
        pytest.param(
            "os.kill(os.getpid(), 40)",
            "tool_died",
            "its process was ended by signal 40",
            id="signal-without-a-name",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="a signal of Linux"),
        ),
        pytest.param(
            "import ctypes; ctypes.string_at(0)",
            "tool_died",
            "its process was ended by SIGSEGV",
            id="segfault",
        ),
        pytest.param(
            "os.closerange(0, 256)",
            "tool_died",
            "its process ended with 1 and no answer",
            id="closes-everything",
        ),
        pytest.param(
            "for end in range(3, 64):\n"
            "        try: os.write(end, b'x')\n"
            "        except OSError: pass",
            "tool_died",
            "its process ended with 0 and no answer",
            id="writes-to-all-it-inherited",
        ),
    ],
)
def test_failure_has_a_code_and_a_plain_message(
    workshop: Workshop, body: str, code: str, message: str
) -> None:
    outcome = workshop.run(
        f"""
import os, sys

class Silent(Exception):
    def __str__(self): raise RuntimeError

class Loud(Exception):
    def __str__(self): sys.exit(3)

def run():
    {body}
""",
        limits={"output_mb": 1},
    )

    assert outcome.status == "error"
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == (code, message)
    assert outcome.result is None
    assert len(outcome.output) < KEPT_OUTPUT + 100


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param(
            "import missing_module", "ModuleNotFoundError: No module named 'missing_module'"
        ),
        pytest.param("def run(:", "SyntaxError: invalid syntax (it.py, line 1)", id="syntax-error"),
        pytest.param("raise RuntimeError('no')", "RuntimeError: no", id="raises-at-import"),
        pytest.param("import sys; sys.exit(4)", "SystemExit: 4", id="exits-at-import"),
        pytest.param(
            "other = 1",
            "AttributeError: module 'tools.it' has no attribute 'run'",
            id="no-function",
        ),
        pytest.param("run = 1", "TypeError: tools.it:run is not a function", id="not-a-function"),
    ],
)
def test_module_that_cannot_be_imported_is_told(
    workshop: Workshop, source: str, message: str
) -> None:
    outcome = workshop.run(source)

    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("cannot_load", message)


def test_traceback_has_the_toolset_s_own_lines_and_no_others(workshop: Workshop) -> None:
    workshop.write("tools/lib.py", "import json\ndef parse(): json.loads('{')\n")

    outcome = workshop.run("from tools.lib import parse\ndef run():\n    parse()\n")

    assert outcome.error is not None
    assert outcome.error.traceback == (
        "tools/it.py:3 in run: parse()\ntools/lib.py:2 in parse: def parse(): json.loads('{')"
    )


def test_traceback_goes_on_with_what_the_exception_came_of(workshop: Workshop) -> None:
    outcome = workshop.run("""
        def run():
            try:
                try:
                    int("x")
                except ValueError:
                    {}["a"]
            except KeyError as error:
                raise RuntimeError("no number") from error
    """)

    assert outcome.error is not None
    assert outcome.error.traceback == (
        'tools/it.py:9 in run: raise RuntimeError("no number") from error\n'
        "caused by KeyError: 'a'\n"
        'tools/it.py:7 in run: {}["a"]\n'
        "while handling ValueError: invalid literal for int() with base 10: 'x'\n"
        'tools/it.py:5 in run: int("x")'
    )


def test_traceback_of_exceptions_that_lead_back_into_themselves_ends(workshop: Workshop) -> None:
    outcome = workshop.run("""
        def run():
            error = ValueError("round")
            error.__cause__ = KeyError("and round")
            error.__cause__.__cause__ = error
            raise error
    """)

    assert outcome.error is not None
    assert outcome.error.traceback.count("\n") < 30


def test_wrong_arguments_that_a_running_tool_gives_to_another_are_its_own_error(
    workshop: Workshop,
) -> None:
    outcome = workshop.run("""
        from covalt_toolset import invoke

        def other(number: int) -> int:
            return number

        def run() -> int:
            return invoke(other, {"number": "one"})
    """)

    assert outcome.error is not None
    assert outcome.error.code == "tool_raised"


@pytest.mark.parametrize(
    ("body", "result"),
    [
        pytest.param("os.close(1); os.close(2); return 1", 1, id="closes-its-streams"),
        pytest.param("sys.stdout = sys.stderr = None; return 1", 1, id="takes-its-streams-away"),
        pytest.param("sys.stdout = object(); return 1", 1, id="puts-nonsense-in-their-place"),
        pytest.param("sys.stdout.close(); return 1", 1, id="closes-its-output"),
        pytest.param(
            "threading.Thread(target=time.sleep, args=(60,)).start(); return 1",
            1,
            id="leaves-a-thread",
        ),
        pytest.param(
            "subprocess.Popen(['sleep', '60']); return 1", 1, id="leaves-a-process-with-its-pipes"
        ),
        pytest.param("subprocess.Popen(['yes']); return 1", 1, id="leaves-one-that-prints-on"),
        pytest.param(
            "signal.signal(signal.SIGTERM, signal.SIG_IGN); return 1", 1, id="ignores-signals"
        ),
    ],
)
def test_answer_counts_whatever_the_tool_leaves_behind(
    workshop: Workshop, body: str, result: int
) -> None:
    outcome = workshop.run(
        f"import os, signal, subprocess, sys, threading, time\ndef run():\n    {body}\n"
    )

    assert (outcome.status, outcome.result) == ("success", result)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param([], id="not-an-object"),
        pytest.param({"status": "approved"}, id="no-such-status"),
        pytest.param({"status": "error", "code": 1, "message": 2}, id="wrong-types"),
        pytest.param({"status": "invalid_arguments", "problems": [1]}, id="problems-of-no-shape"),
        pytest.param({"status": "success", "extra": 1}, id="unknown-key"),
    ],
)
def test_answer_that_a_tool_forged_badly_is_no_answer(workshop: Workshop, answer: Any) -> None:
    frame = json.dumps({"event": "answer"} | answer if isinstance(answer, dict) else answer)
    outcome = workshop.run(f"""
        import os, stat, struct

        def run():
            content = {frame!r}.encode()
            for end in range(3, 64):
                try:
                    if stat.S_ISSOCK(os.fstat(end).st_mode):
                        os.write(end, struct.pack("!I", len(content)) + content)
                except OSError:
                    pass
            os._exit(0)
    """)

    assert outcome.error is not None
    assert outcome.error.message == "its process ended with 0 and no answer"
