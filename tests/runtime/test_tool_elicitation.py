"""What a tool asks from within its policy, and how the answers come to it."""

import threading
import time
from collections.abc import Callable
from typing import Any

from covalt_git.elicitation.requests import Inquiry, Respondent, inquire
from covalt_git.models.elicitation import QuestionRecord
from covalt_git.models.outcomes import Outcome
from tests.runtime.conftest import Workshop, error_of

NAME = """
from typing import TypedDict
from covalt_toolset import get_context

class Person(TypedDict):
    name: str

def run() -> str:
    answer = get_context().elicit("Who?", Person, key="who")
    return answer.content["name"] if answer.accepted else answer.action
"""
ADA = {"action": "accept", "content": {"name": "Ada"}}


def asked(
    workshop: Workshop, source: str, show: Callable[[Inquiry], None], *kinds: Any, **changes: Any
) -> Outcome:
    respondent = Respondent(frozenset(kinds or ("form",)), show)
    return workshop.run(
        source,
        kinds=respondent.kinds,
        ask=lambda questions: inquire(respondent, questions),
        **changes,
    )


def answers(after_s: float, **given: Any) -> Callable[[Inquiry], None]:
    def answer(inquiry: Inquiry) -> None:
        for key, one in given.items():
            inquiry.answer(key, one)

    return lambda inquiry: threading.Timer(after_s, answer, [inquiry]).start()


def test_a_tool_receives_the_answer_of_the_user(workshop: Workshop) -> None:
    outcome = asked(workshop, NAME, answers(0.05, who=ADA))

    assert outcome.result == "Ada"
    assert outcome.asked == (
        QuestionRecord(method="elicitation/create", message="Who?", answer="accept"),
    )


def test_the_time_limit_pauses_while_the_user_answers(workshop: Workshop) -> None:
    outcome = asked(workshop, NAME, answers(1.7, who=ADA), limits={"timeout_s": 1.5})

    assert outcome.result == "Ada"


def test_without_a_user_the_call_reports_it(workshop: Workshop) -> None:
    outcome = workshop.run(NAME)

    assert error_of(outcome).code == "cannot_ask"


def test_a_cancelled_call_asks_no_longer(workshop: Workshop) -> None:
    cancel, shown = threading.Event(), []

    def show(inquiry: Inquiry) -> None:
        shown.append(inquiry)
        cancel.set()

    began = time.monotonic()
    outcome = asked(workshop, NAME, show, cancel=cancel)

    assert time.monotonic() - began < 10
    assert error_of(outcome).code == "cancelled"
    assert shown[0].is_over


def test_a_tool_that_dies_while_it_asks_is_not_run_again(workshop: Workshop) -> None:
    source = """
import os, signal, threading
from pathlib import Path
from covalt_toolset import get_context

def run(workspace: Path) -> None:
    with (workspace / "begun").open("a") as file:
        file.write("x")
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    get_context().elicit("?", {"type": "object", "properties": {}})
"""
    shown: list[Inquiry] = []
    outcome = asked(workshop, source, shown.append)

    assert error_of(outcome).code == "tool_died"
    assert (workshop.workspace / "begun").read_text() == "x"
    assert shown[0].is_over
