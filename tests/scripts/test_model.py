"""Model of scripts: pause, decide, allow the next calls, continue, cancel and branch deletion, in any order."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.examples import examples
from tests.operations_client import Operations
from tests.scripts.conftest import Scripts

SOURCE = """\
for number in range(3):
    try:
        tools.marks.pay(name=args['id'] + str(number))
    except Exception as error:
        if 'denied' not in str(error):
            raise
    tools.marks.mark(name=args['id'] + 'm' + str(number))
"""


class ScriptModel(RuleBasedStateMachine):
    """Scripts on branches of one chat; the model counts what each of them has marked."""

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        root = Path(shutil.copytree(self.template, self.folder / "project", symlinks=True))
        self.operate = Operations(root)
        self.operate("create_chat", chat_id="c1")
        self.scripts = Scripts(self.operate)
        self.operate("call_tool", chat_id="c1", tool_id="marks:mark", args={"name": "first"})
        self.branch = "main"
        self.branches = {"main"}
        self.open: dict[str, dict[str, Any]] = {}
        self.expected: dict[str, list[str]] = {"main": ["first"]}
        self.names = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def _advance(self, script: dict[str, Any]) -> None:
        """Mark what follows a decision, until the next call that no allowance covers."""
        marks = self.expected[script["branch"]]
        marks.append(f"{script['name']}m{script['at']}")
        script["at"] += 1
        while script["at"] < 3 and script["allowed"] > 0:
            script["allowed"] -= 1
            marks += [f"{script['name']}{script['at']}", f"{script['name']}m{script['at']}"]
            script["at"] += 1
        if script["at"] == 3:
            del self.open[script["id"]]

    def _pick(self, data: st.DataObject) -> dict[str, Any]:
        mine = [one for one in self.open.values() if one["branch"] == self.branch]
        return data.draw(st.sampled_from(mine))

    def _has_open(self) -> bool:
        return any(one["branch"] == self.branch for one in self.open.values())

    def _approval(self, script: dict[str, Any]) -> Any:
        """Return the approval of a script on the current files: other calls may have changed them."""
        execution_id = self.scripts.show(script)["execution_id"]
        detail = self.scripts.boss("get_approval", execution_id=execution_id)
        if detail["changes"]:
            error = self.scripts.boss.error("approve_call", execution_id=execution_id)
            assert error.code == "asked_again"
            execution_id = self.scripts.show(script)["execution_id"]
        return execution_id

    @precondition(lambda self: len(self.open) < 3)
    @rule()
    def start(self) -> None:
        self.names += 1
        name = f"s{self.names}x"
        answer = self.scripts.run(SOURCE, id=name)
        assert answer["status"] == "pending"
        facts = {"id": answer["id"], "name": name, "at": 0, "allowed": 0}
        self.open[answer["id"]] = facts | {"branch": self.branch}

    @precondition(_has_open)
    @rule(data=st.data(), more=st.sampled_from([None, None, 1, 2]))
    def approve(self, data: st.DataObject, more: int | None) -> None:
        script = self._pick(data)
        execution_id = self._approval(script)
        self.scripts.boss("approve_call", execution_id=execution_id, next_calls=more)
        script["allowed"] += more or 0
        self.expected[self.branch].append(f"{script['name']}{script['at']}")
        self._advance(script)

    @precondition(_has_open)
    @rule(data=st.data())
    def deny(self, data: st.DataObject) -> None:
        script = self._pick(data)
        execution_id = self.scripts.show(script)["execution_id"]
        self.scripts.boss("deny_call", execution_id=execution_id)
        self._advance(script)

    @precondition(_has_open)
    @rule(data=st.data())
    def proceed_without_a_decision(self, data: st.DataObject) -> None:
        script = self._pick(data)
        detail = self.operate("continue_script", script_id=script["id"])
        assert detail["state"] == "paused"

    @precondition(_has_open)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        script = self._pick(data)
        self.operate("cancel_script", script_id=script["id"])
        del self.open[script["id"]]

    @rule()
    def call_in_between(self) -> None:
        self.names += 1
        args = {"name": f"call{self.names}"}
        self.operate("call_tool", chat_id="c1", tool_id="marks:mark", args=args)
        self.expected[self.branch].append(args["name"])

    @precondition(lambda self: self.branch == "main")
    @rule()
    def switch_to_a_new_branch(self) -> None:
        self.names += 1
        name = f"idea{self.names}"
        self.scripts.boss("create_branch", chat_id="c1", name=name)
        self.scripts.boss("switch_branch", chat_id="c1", branch=name)
        self.expected[name] = [*self.expected["main"]]
        self.branch = name

    @precondition(lambda self: self.branch != "main")
    @rule()
    def delete_the_branch(self) -> None:
        name = self.branch
        self.scripts.boss("switch_branch", chat_id="c1", branch="main")
        self.branch = "main"
        self.scripts.boss("delete_branch", chat_id="c1", branch=name, force=True)
        for script in [one for one in self.open.values() if one["branch"] == name]:
            error = self.operate.error("continue_script", script_id=script["id"])
            assert error.code == "branch_deleted"
            del self.open[script["id"]]

    @invariant()
    def each_call_is_made_once(self) -> None:
        assert self.scripts.marks == self.expected[self.branch]

    @invariant()
    def open_scripts_are_those_of_the_model(self) -> None:
        rows = self.operate("list_scripts")["scripts"]
        assert {row["id"] for row in rows} == self.open.keys()
        assert all(row["state"] == "paused" for row in rows)


@pytest.mark.hypothesis  # `python -m tests.stress laws` runs more examples
def test_scripts_behave_as_their_model(scripts_template: Path) -> None:
    machine = type("Machine", (ScriptModel,), {"template": scripts_template})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(8),
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=[*HealthCheck],
        ),
    )
