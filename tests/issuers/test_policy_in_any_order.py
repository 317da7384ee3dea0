"""Calls, approvals, spent tokens and changed rules in any order: nothing runs unapproved, and nothing runs twice."""

import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from werkzeug.test import TestResponse

from covalt_git.access.security import input_hash
from covalt_git.names import new_id
from tests.api_client import Api, make_project
from tests.examples import examples
from tests.issuers import tokens
from tests.issuers.guarded import call, guard, make_chat
from tests.issuers.tokens import TOOL

STEPS = 50
WORLDS = 5
FOLDERS = ("config", "drafts", "notes")
EFFECTS = ("allow", "ask", "deny")

effects = st.tuples(*(st.sampled_from(EFFECTS) for _ in FOLDERS))
numbers = count()


class Asked(NamedTuple):
    """A call that was made: its id, its text, its token, and the id of its approval if it was pending.

    ``runs`` is how many calls had run before the approval was requested: each changes the workspace.
    """

    call_id: str
    text: str
    token: str
    execution_id: str | None
    runs: int


class Policy(RuleBasedStateMachine):
    """A tool that writes each text of its calls into a file, with tokens that are for one execution."""

    new_root: Callable[[], Path]

    def __init__(self) -> None:
        super().__init__()
        self.root = type(self).new_root()
        guard(self.root, more=", requires_confirmation: true")
        self.api = Api.of(self.root)
        self.effects = dict.fromkeys(FOLDERS, "ask")
        self.asked: list[Asked] = []
        self.pending: set[str] = set()
        self.approved: set[str] = set()
        self.free: set[str] = set()
        make_chat(self.api, tokens.token())

    @property
    def runs(self) -> int:
        return len(self.free | self.approved)

    @rule(effects=effects)
    def change_rules(self, effects: tuple[str, ...]) -> None:
        self.effects = dict(zip(FOLDERS, effects, strict=True))
        lines = (
            f"  - {{pattern: '{TOOL.replace(':', '.')}', roles: [caller], effect: {effect},"
            f" when: {{args: {{text: {{under: {folder}}}}}}}}}\n"
            for folder, effect in self.effects.items()
        )
        tokens.list_issuer(self.root, more=f"rules:\n{''.join(lines)}")

    @rule(folder=st.sampled_from(FOLDERS), spelled=st.sampled_from(("{}", "./{}", "x/../{}")))
    def make_call(self, folder: str, spelled: str) -> None:
        text = spelled.format(f"{folder}/{next(numbers)}")
        args = {"text": text}
        token = tokens.token(inp_hash=input_hash(args))
        call_id = new_id()
        answer = call(self.api, token, args=args, call_id=call_id)
        effect = self.effects[folder]
        if effect == "allow" and spelled != "{}":
            effect = (
                "ask"  # the rule does not apply to this spelling, and the tool requires approval
            )
        if effect == "deny":
            assert (answer.status_code, error_of(answer)) == (403, "policy_denied")
            return
        status = answer.get_json()["status"]
        assert (answer.status_code, status) == (200, "pending" if effect == "ask" else "success")
        execution_id = answer.get_json().get("execution_id") if effect == "ask" else None
        if execution_id:
            self.pending.add(execution_id)
        else:
            self.free.add(text)
        self.asked.append(Asked(call_id, text, token, execution_id, self.runs))

    @rule(data=st.data())
    def use_a_spent_token(self, data: st.DataObject) -> None:
        if self.asked:
            made = data.draw(st.sampled_from(self.asked))
            answer = call(self.api, made.token, args={"text": made.text}, call_id=new_id())
            # A rule that denies now comes before the binding to an execution.
            assert answer.status_code == 403
            assert error_of(answer) in {"exec_binding_invalid", "policy_denied"}

    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """The same call again gets its recorded answer, whatever the rules say now, and does not run."""
        if self.asked:
            made = data.draw(st.sampled_from(self.asked))
            answer = call(self.api, made.token, args={"text": made.text}, call_id=made.call_id)
            assert answer.status_code in {200, 403}, answer.get_data(as_text=True)

    @rule(data=st.data(), verb=st.sampled_from(("approve_call", "approve_call", "deny_call")))
    def decide(self, data: st.DataObject, verb: str) -> None:
        waiting = [made for made in self.asked if made.execution_id]
        if not waiting:
            return
        made = data.draw(st.sampled_from(waiting))
        assert made.execution_id
        answer = self.api.tell(verb, execution_id=made.execution_id)
        is_denied = self.effects[folder_of(made.text)] == "deny"
        if made.execution_id not in self.pending:
            assert error_of(answer) in {"already_settled", "policy_denied"}
        elif verb == "approve_call" and is_denied:
            assert error_of(answer) == "policy_denied"
        elif verb == "approve_call" and made.runs != self.runs:
            assert error_of(answer) == "asked_again"
            renewed = answer.get_json()["hint"].rpartition(" ")[2]
            self.pending ^= {made.execution_id, renewed}
            self.asked.append(made._replace(execution_id=renewed, runs=self.runs))
        else:
            assert answer.status_code == 200, answer.get_data(as_text=True)
            self.pending.remove(made.execution_id)
            if verb == "approve_call":
                self.approved.add(made.text)

    @rule(table=st.sampled_from(("tools", "approvals", "tool_calls", "all")))
    def change_the_index(self, table: str) -> None:
        """Rows that say that nothing asks, or that all is approved, change no decision."""
        changes = {
            "tools": "UPDATE tools SET requires_confirmation = 0, enabled = 1, definition = json_remove("
            "definition, '$.security', '$.confirmation')",
            "approvals": "UPDATE approvals SET state = 'approved'",
            "tool_calls": "UPDATE tool_calls SET status = 'success'",
        }
        with contextlib.closing(sqlite3.connect(self.root / "data/index.db")) as index:
            for name, change in changes.items():
                if table in {name, "all"}:
                    index.execute(change)
            index.commit()

    @invariant()
    def each_run_was_free_or_approved_and_happened_once(self) -> None:
        file = self.root / "data/chats/own/workspace/echoes.txt"
        ran = file.read_text().splitlines() if file.exists() else []
        assert sorted(ran) == sorted(self.free | self.approved)

    def teardown(self) -> None:
        shutil.rmtree(self.root)


def error_of(answer: TestResponse) -> Any:
    return (answer.get_json() or {}).get("error")


def folder_of(text: str) -> str:
    return text.rpartition("/")[0].rpartition("/")[2]


@pytest.mark.hypothesis  # `python -m tests.stress laws` runs more examples
def test_nothing_runs_unapproved_or_twice_in_any_order(tmp_path: Path) -> None:
    def new_root() -> Path:
        return make_project(tmp_path / str(next(numbers)))

    class Machine(Policy):
        pass

    Machine.new_root = staticmethod(new_root)
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples(WORLDS), stateful_step_count=STEPS, deadline=None, database=None
        ),
    )
