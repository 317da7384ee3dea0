"""Which calls require approval: by their toolset, their decorator, the project's state or its rules."""

import pytest

from tests.calls.conftest import World

PLAIN = "from tools.plain import add as plain\nfrom covalt_toolset import get_context, tool\n"
ADD = "def add(text: str = 'run'):\n    return plain(get_context().workspace, text)\n"


@pytest.mark.requirement("covalt-1.3.requires_confirmation", "covalt-10.confirmation")
def test_a_call_that_requires_approval_waits_and_changes_nothing(world: World) -> None:
    outcome = world.call("ask", text="hello")

    (approval,) = world.approvals()
    (waiting,) = world.waiting()
    assert outcome.approval == approval
    assert outcome.call.status == waiting.status == "pending"
    assert waiting.execution_id == approval.execution_id
    assert (approval.state, approval.reasons) == ("pending", ("the toolset requires it",))
    assert world.log() == []
    assert not (world.workspace / "runs.txt").exists()


@pytest.mark.requirement("covalt-4.2.confirmation")
@pytest.mark.parametrize(
    "source",
    [
        f"@tool(requires_confirmation=True)\n{ADD}",
        f"decorate = tool(requires_confirmation=True)\n{ADD}add = decorate(add)\n",
        f"{ADD}globals()['add'] = tool(**{{'requires_confirmation': True}})(add)\n",
    ],
    ids=["plain", "applied-later", "not-seen-by-the-reader"],
)
def test_a_decorator_can_require_approval_however_it_is_applied(world: World, source: str) -> None:
    world.write("demo/tools/quiet.py", PLAIN + source)
    outcome = world.call("quiet", text="hello")

    assert outcome.approval is not None
    assert outcome.approval.reasons == ("its decorator requires it",)
    assert world.log() == []
    assert not (world.workspace / "runs.txt").exists()

    done = world.approve(outcome.approval.execution_id)

    assert (done.call.status, done.call.id) == ("success", outcome.call.id)
    assert world.files() == {"runs.txt": "hello\n"}
