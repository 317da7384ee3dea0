"""The page of the policy: the roles of a tool, and why a call is refused, asks or runs."""

from pathlib import Path

import pytest

from tests.api_client import configure
from tests.server.visitor import Visitor

RULES = """\
default_role: owner
roles:
  owner: {admin: true}
  guest: {allow: ["app-builder.*"], deny: [app-builder.run_command]}
rules:
  - {pattern: "app-builder.write_file", when: {args: {path: {under: config}}}, effect: deny, reason: <b>Ann</b>}
"""
WRITE = "app-builder:write_file"


@pytest.fixture
def project(root: Path) -> Path:
    configure(root, RULES)
    return root


def test_an_admin_sees_the_roles_of_a_tool_and_why_a_call_is_denied(project: Path) -> None:
    owner = Visitor.of(project, "owner")
    page = owner.open(f"/policy?tool={WRITE}")
    assert "guest yes some never no" in page.text
    form = page.form("/policy")
    assert form.fields["tool"] == [WRITE]

    answer = owner.send(form, role="guest", args='{"path": "config/a", "content": ""}')
    assert "A call of the role guest is denied" in answer.text
    assert "<b>Ann</b>" in answer.text  # as text: the page has no such element
    assert "covalt.yaml:8:5" in answer.text
    assert answer.form("/policy").fields["args"][0].strip().startswith('{"path": "config/a"')
    runs = owner.send(form, role="guest", args='{"path": "a", "content": ""}')
    assert "A call of the role guest runs" in runs.text


def test_arguments_that_are_no_object_are_shown_again(project: Path) -> None:
    owner = Visitor.of(project, "owner")
    for text in ("{", "[]"):
        page = owner.send(owner.open(f"/policy?tool={WRITE}").form("/policy"), args=text)
        assert page.status == 400
        assert page.form("/policy").fields["args"][0].strip() == text


def test_another_role_explains_its_own_calls_of_tools_that_it_sees(project: Path) -> None:
    guest = Visitor.of(project, "guest")
    page = guest.open(f"/policy?tool={WRITE}")
    form = page.form("/policy")
    assert "Who may call it" not in page.text
    assert "role" not in form.fields
    whole = '{"path": "a.txt", "content": ""}'
    assert "A call of the role guest runs" in guest.send(form, args=whole).text
    assert "because its arguments are invalid" in guest.send(form, args="{}").text
    assert "A call of the role guest depends on its arguments" in guest.send(form, args="").text
    assert guest.send(form, role="owner", args="").status == 403

    hidden, unknown = "app-builder:run_command", "app-builder:run_commanx"
    pages = [[guest.open(f"/policy?tool={tool}") for tool in (hidden, unknown)]]
    pages += [[guest.send(form, tool=tool, args="") for tool in (hidden, unknown)]]
    for answers in pages:
        assert [answer.status for answer in answers] == [404, 404]
        assert answers[0].text == answers[1].text.replace(unknown, hidden)


def test_each_line_of_a_decision_leads_to_its_file_or_shows_it(project: Path) -> None:
    owner, guest = Visitor.of(project, "owner"), Visitor.of(project, "guest")
    form = owner.open("/policy").form("/policy")
    asks = owner.send(form, tool="app-builder:delete_file", args='{"path": "a.txt"}')
    (link,) = [one for one in asks.links if "toolsets/app-builder/" in one.text]
    path, _, anchor = link.href.partition("#")
    assert f'id="{anchor}"' in owner.open(path).source
    assert link.text.split(":")[1] == anchor.removeprefix("L")

    # No page shows covalt.yaml. Its line is for admins: it can name what other roles do not see.
    whole = '{"path": "config/a", "content": ""}'
    rule = '- {pattern: "app-builder.write_file", when:'
    assert rule in owner.send(form, tool=WRITE, args=whole).text
    denied = guest.send(guest.open(f"/policy?tool={WRITE}").form("/policy"), args=whole)
    assert "covalt.yaml:8:5" in denied.text
    assert rule not in denied.text
