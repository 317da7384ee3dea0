"""A button of a page grants exactly the lines that its form shows, or nothing."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import BEARER, HOME, Api
from tests.examples import covering, rest
from tests.operations_client import Operations
from tests.server.visitor import Form, Page, Visitor
from tests.trusting import use_config

MANIFEST = """\
id: ev
name: Ev
version: "1"
secrets: [KEY, BASE]
tools:
  - id: get
    http: {url: "${BASE}/x", headers: {X-Key: "${KEY}"}}
  - {id: look, http: {url: "https://api.example/x"}}
  - {id: count, entrypoint: "tools.t:count"}
mcp_servers:
  - {id: disk, command: /bin/bash, args: [-c, "exit 0"], env: {BASH_ENV: /tmp/evil-of-the-author, LANG: C}}
"""
CODE = """\
from covalt_toolset import tool

@tool
def count(path: str) -> int:
    "Count."
    return 1
"""
ENDED = """\
grants:
  process-disk:
    kind: process
    server: disk
    argv: [/bin/bash, -c, "exit 0"]
    cwd: null
    env: [LANG]
    files: {}
    digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"
    granted_at: 2026-01-01T00:00:00Z
    granted_by: local
  secret-KEY:
    kind: secret
    name: KEY
    hosts: []
    digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"
    granted_at: 2026-01-01T00:00:00Z
    granted_by: local
"""
ENTRY = {
    "tool_id": "al",
    "name": "Al",
    "description": "d",
    "protocols": ["http"],
    "protocol_meta": {"http": {"url": "https://a.example/1", "method": "GET"}},
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of another user, whose requests cannot be granted together: a secret needs a host."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    root = tmp_path / "clone"
    (root / "toolsets/ev/tools").mkdir(parents=True)
    (root / "toolsets/state").mkdir()
    (root / "covalt.yaml").write_text("version: 1\n")
    (root / "toolsets/ev/toolset.yaml").write_text(MANIFEST)
    (root / "toolsets/ev/tools/t.py").write_text(CODE)
    return root


def shown(root: Path, address: str = "/toolsets/ev") -> Page:
    return Visitor.of(root).open(address)


def trusted(root: Path) -> set[str]:
    rows = Operations(root)("list_permissions")["permissions"]
    return {line for row in rows if row["trusted"] for line in row["lines"]}


def form_with(page: Page, button: str) -> Form:
    """Return the form with a button, whose words contain the text."""
    return next(form for form in page.forms if button in str(form.buttons))


def lines_of(page: Page, button: str) -> set[str]:
    """Return the lines that the form with a button shows, as a browser displays them."""
    (form,) = (
        form
        for form in re.findall(r"<form.*?</form>", page.source, re.DOTALL)
        if re.search(rf"<button[^>]*>(?:<[^>]*>|\s)*{button}", form)
    )
    codes = re.findall(r"<code>(.*?)</code>", form, re.DOTALL)
    return {text.replace("&#39;", "'").replace("&#34;", '"') for text in codes}


@pytest.mark.parametrize("ended", [False, True])
def test_a_button_trusts_exactly_the_lines_of_its_form(root: Path, *, ended: bool) -> None:
    if ended:
        (root / "toolsets/state/ev.yaml").write_text(ENDED)
    button = 'Grant again<span class="unseen"> disk' if ended else 'Grant<span class="unseen"> disk'
    page = shown(root)
    lines = lines_of(page, button)
    assert any("BASH_ENV='/tmp/evil-of-the-author'" in line for line in lines)
    assert "ev may call without approval: count" in lines

    sent = Visitor.of(root).send(form_with(page, "again disk" if ended else "Grant disk"))

    assert sent.status == 200
    assert trusted(root) == lines


def test_the_error_is_in_place_of_a_button_that_cannot_grant(root: Path) -> None:
    page = shown(root)
    assert "They cannot be granted together: ev:get would send the secret" in page.text
    assert "Grant all" not in page.text

    (root / "toolsets/state/ev.yaml").write_text(ENDED)
    page = shown(root)
    assert page.text.count("would send the secret 'KEY' to a host") == 2  # of all, and of this one
    assert "Grant again KEY" not in page.text


@pytest.mark.parametrize(
    ("fields", "path"),
    covering([{}, {"permission": ["sha256:0"]}], ["grants", "grants/requested", "grants/again"]),
)
def test_a_form_that_showed_nothing_grants_nothing(
    root: Path, path: str, fields: dict[str, Any]
) -> None:
    text = MANIFEST.replace("secrets: [KEY, BASE]\n", "").replace(
        '"${BASE}/x"', '"https://b.example"'
    )
    (root / "toolsets/ev/toolset.yaml").write_text(text.replace(', headers: {X-Key: "${KEY}"}', ""))
    if path == "grants/again":
        (root / "toolsets/state/ev.yaml").write_text(ENDED)
    digest = Operations(root)("get_toolset", toolset_id="ev")["digest"]
    before = sorted(root.rglob("*.yaml")), trusted(root)

    sent = (
        Api.of(root)
        .client()
        .post(
            f"/toolsets/ev/{path}",
            data={"digest": digest, "kind": "process", "name": "disk", **fields},
            headers=BEARER | {"Origin": HOME},
            base_url=HOME,
        )
    )

    assert sent.status_code == 409
    assert (sorted(root.rglob("*.yaml")), trusted(root)) == before


@pytest.mark.parametrize("typed", [False, rest(True)])
def test_a_click_is_refused_if_a_pull_has_changed_what_it_permits(
    root: Path, *, typed: bool
) -> None:
    (root / "covalt.yaml").write_text(
        "version: 1\napprovals: [{pattern: ev.count, require: true}]\n"
    )
    page = shown(root)
    form = (
        next(one for one in page.forms if "typed" in one.fields)
        if typed
        else form_with(page, "Grant disk")
    )

    (root / "covalt.yaml").write_text("version: 1\n")
    sent = Visitor.of(root).send(form, **({"hosts": "typed.example"} if typed else {}))

    assert sent.status == 409
    assert trusted(root) == set()


def test_a_typed_host_is_granted_with_the_lines_of_its_form(root: Path) -> None:
    page = shown(root)
    form = next(one for one in page.forms if "typed" in one.fields)
    assert form.fields["kind"] == ["network"]
    assert "host.invalid" not in page.source

    sent = Visitor.of(root).send(form, hosts="typed.example, *.far.example")

    assert sent.status == 200
    calls = {line for line in trusted(root) if "without approval" in line}
    assert all(line in page.text for line in calls)
    assert trusted(root) - calls == {
        "ev may connect to typed.example",
        "ev may connect to *.far.example",
    }


def test_a_registered_tool_is_granted_with_the_lines_of_its_form(root: Path) -> None:
    Operations(root)("register_tool", entry=ENTRY)
    page = shown(root, "/registry")
    form = page.form("/registry/grant")
    bare = Form(form.method, form.action, form.fields | {"permission": []})
    assert Visitor.of(root).send(bare).status == 409
    assert trusted(root) == set()

    Visitor.of(root).send(form)

    assert len(trusted(root)) == 2
    assert all(line in page.text for line in trusted(root))


def test_an_operation_compares_the_reviewed_permissions(root: Path) -> None:
    operate = Operations(root)
    fields = {"toolset_id": "ev", "kind": "network", "hosts": ["a.example"]}
    assert operate.error("add_grant", **fields, permissions=[]).code == "moved"
    assert json.dumps(operate("list_grants")["grants"]) == "[]"
    operate("add_grant", **fields)
