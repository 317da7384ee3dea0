"""Pages of scripts: the state of each call at its line, and the decisions about the call that waits."""

import time
from pathlib import Path

import pytest

from tests.api_client import Api, configure
from tests.operations_client import Operations
from tests.server.visitor import Visitor
from tests.settling import until

CONFIG = """\
default_role: boss
roles:
  agent: {allow: ["app-builder.*", "workspace.*"]}
  boss: {admin: true}
approvals:
  - {pattern: "app-builder.write_file", require: true}
"""
SOURCE = (
    "for name in ['a', 'b', 'c']:\n    tools.app_builder.write_file(path=name, content='x')\n'end'"
)


def waiting(root: Path) -> tuple[str, str]:
    """Run a script as an agent; return its id and that of the approval for which it waits."""
    configure(root, CONFIG)
    answer = Operations(root, "agent")(
        "call_tool", chat_id="c1", tool_id="workspace:run_script", args={"script": SOURCE}
    )
    return answer["id"], answer["execution_id"]


def until_ended(root: Path, script_id: str, state: str = "success") -> None:
    """Wait for a script that continues in a thread of the server."""
    for _ in range(600):
        if Operations(root)("get_script", script_id=script_id)["state"] == state:
            return
        time.sleep(0.1)
    raise AssertionError(f"the script did not become {state}")


def until_waiting_again(api: Api, script_id: str) -> str:
    """Wait for the next pending call of a script that continues in a thread; return its approval."""

    waiting_for = list[str]()

    def waits() -> bool:
        script = api.get("get_script", script_id=script_id)
        if script["calls"] and script["execution_id"]:
            waiting_for.append(script["execution_id"])
        return bool(waiting_for)

    until(waits)
    return waiting_for[0]


def test_the_page_of_an_approval_shows_the_script_and_its_line(
    visitor: Visitor, root: Path, api: Api
) -> None:
    script_id, execution_id = waiting(root)
    page = visitor.open(f"/approvals/{execution_id}")
    assert "Line 2 of a script made this call, after 0 calls" in page.text
    assert "for name in ['a', 'b', 'c']:" in page.text
    assert f"/scripts/{script_id}" in {link.href for link in page.links}
    assert api.get("get_approval", execution_id=execution_id)["script_line"] == 2


@pytest.mark.usefixtures("api")
def test_a_script_is_reached_from_the_list_of_chats(visitor: Visitor, root: Path) -> None:
    script_id, _ = waiting(root)
    scripts = visitor.open(visitor.open("/chats").link("Scripts"))
    (link,) = [link.href for link in scripts.links if script_id in link.href]
    assert "app_builder.write_file" in visitor.open(link).text


def test_a_script_continues_in_the_server_and_the_next_calls_can_be_allowed(
    visitor: Visitor, root: Path, api: Api
) -> None:
    script_id, _ = waiting(root)
    form = visitor.open(f"/scripts/{script_id}").form("/approve")
    visitor.send(form, "Approve and run", next_calls="2")
    until_ended(root, script_id)
    page = visitor.open(f"/scripts/{script_id}")
    assert page.text.count("allowed by an earlier approval") == 2
    assert {"a", "b", "c"} <= api.files().keys()


def test_the_page_of_a_script_call_lists_the_calls_below_it(
    visitor: Visitor, root: Path, api: Api
) -> None:
    script_id, execution_id = waiting(root)
    api.post("approve_call", execution_id=execution_id, next_calls=2)
    page = visitor.open(f"/chats/c1/calls/{script_id}")
    calls = api.get("get_script", script_id=script_id)["lines"]
    links = [link.href for link in page.links]
    for call in calls:
        assert f"/chats/c1/calls/{call['call_id']}" in links
    words = "app-builder.write_file success"
    assert page.text.count(words) == 3
    assert page.text.count(f"{words} waited for approval") == 1
    assert page.text.count(f"{words} allowed by an earlier approval line 2") == 2


def test_the_form_marks_the_arguments_that_differ_and_selects_none(
    visitor: Visitor, root: Path, api: Api
) -> None:
    script_id, _ = waiting(root)
    visitor.send(visitor.open(f"/scripts/{script_id}").form("/approve"), "Approve and run")
    execution_id = until_waiting_again(api, script_id)
    for page in (f"/scripts/{script_id}", f"/approvals/{execution_id}"):
        opened = visitor.open(page)
        assert "only with this path differs" in opened.text
        assert "only with this content same in 1 earlier call" in opened.text
        assert "same" not in opened.form("/approve").fields


def test_a_script_is_cancelled_on_its_page(visitor: Visitor, root: Path, api: Api) -> None:
    script_id, _ = waiting(root)
    assert f"/scripts/{script_id}" in {link.href for link in visitor.open("/scripts").links}
    form = visitor.open(f"/scripts/{script_id}").form("/cancel")
    page = visitor.send(form, "Cancel the script")
    assert "cancelled" in page.text
    assert api.get("list_approvals")["approvals"] == []
