"""Tools that fail: the call has an error with a code, and covalt-git does not fail."""

import json
from typing import Any

import pytest

from covalt_git.runtime.processes import wire
from covalt_git.text.printed import MOST_STORED
from tests.runtime.conftest import Workshop, error_of
from tests.tables import tables

TABLES = {name: dict(rows) for name, rows in tables(__file__).items()}


@pytest.mark.parametrize("name", TABLES["failures"])
def test_failure_has_a_code_and_a_plain_message(workshop: Workshop, name: str) -> None:
    row = TABLES["failures"][name]
    classes = """
class Silent(Exception):
    def __str__(self): raise RuntimeError
class Loud(Exception):
    def __str__(self): sys.exit(3)
"""
    outcome = workshop.call(f"{classes}{row['body']}", limits={"output_mb": 1})
    error = error_of(outcome)

    assert (error.code, error.message) == (row["code"], row["message"])
    assert len(outcome.output) < MOST_STORED + 100


@pytest.mark.parametrize("name", TABLES["modules"])
def test_module_that_cannot_be_imported_is_reported(workshop: Workshop, name: str) -> None:
    row = TABLES["modules"][name]
    if "other" in row:
        workshop.write("tools/other.py", row["other"])

    error = error_of(workshop.run(row["source"]))

    assert (error.code, error.message) == ("cannot_load", row["message"])


def test_traceback_has_the_toolset_s_own_lines_and_no_others(workshop: Workshop) -> None:
    workshop.write("tools/lib.py", "import json\ndef parse(): json.loads('{')\n")

    outcome = workshop.run("from tools.lib import parse\ndef run():\n    parse()\n")

    assert error_of(outcome).traceback == (
        "tools/it.py:3 in run: parse()\ntools/lib.py:2 in parse: def parse(): json.loads('{')"
    )


@pytest.mark.parametrize("name", TABLES["successes"])
def test_answer_counts_whatever_the_tool_leaves_behind(workshop: Workshop, name: str) -> None:
    outcome = workshop.call(TABLES["successes"][name]["body"])

    assert (outcome.status, outcome.result) == ("success", 1)


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

    assert error_of(outcome).message == "its process ended with 0 and no answer"


@pytest.mark.parametrize("content", [b"x", b"xxxxx", bytes(64)])
def test_a_module_that_writes_to_each_descriptor_is_an_error_of_its_call(
    workshop: Workshop, content: bytes
) -> None:
    # This is an error of the call, and no exception is raised in this process.  A single byte can also be read together
    # with the true message, after the answer; and five bytes are a well-formed ENDED, which the answer can precede.
    outcome = workshop.run(f"""
        import os
        for end in range(3, 20):
            try:
                os.write(end, {content!r})
            except OSError:
                pass

        def run() -> int:
            return 1
    """)
    again = workshop.run("def run() -> int: return 2")

    if outcome.status == "success":
        assert outcome.result == 1
        assert content in {b"x", b"x" * wire.ENDED.size}
    else:
        assert error_of(outcome).code in {"sandbox_failed", "tool_died"}
    assert again.result == 2
