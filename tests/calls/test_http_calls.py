"""Calls of HTTP tools through the engine: granted, recorded, shown, and without their secrets."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.access.grants import GrantNeededError
from covalt_git.json_values.json_schema import InvalidArgumentsError
from covalt_git.toolsets.toolset import read_toolset
from tests.runtime.http_upstream import PNG, Upstream, upstream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.calls.outcomes import CallOutcome
    from tests.calls.conftest import World

SECRET = "canary-5f2c9a/+="
MANIFEST = """\
id: demo
name: Demo
version: "1"
secrets: [WEB_KEY]
tools:
  - id: fetch
    http: {{url: "{url}/echo/{{id}}", headers: {{X-Key: "${{WEB_KEY}}"}}, query: {{key: "${{WEB_KEY}}"}}}}
    renderer: {{type: code, content: $return.path, language: text}}
  - id: image
    http: {{url: "{url}/files/{{name}}"}}
    renderer: {{type: document, file: $return.file}}
  - id: leak
    http: {{url: "{url}/leak", headers: {{X-Key: "${{WEB_KEY}}"}}}}
  - id: blob
    http: {{url: "{url}/blob", headers: {{X-Key: "${{WEB_KEY}}"}}}}
  - id: asks
    http: {{url: "{url}/echo"}}
    requires_confirmation: true
"""
WHEN = {"granted_at": "2026-11-20T17:24:00Z", "granted_by": "local"}


@pytest.fixture(scope="module")
def served() -> Iterator[Upstream]:
    with upstream() as made:
        yield made


@pytest.fixture
def web(world: World, served: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world, whose toolset now has HTTP tools of the upstream; its secret is set, nothing granted."""
    served.seen.clear()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("WEB_KEY", SECRET)
    world.write("demo/toolset.yaml", MANIFEST.format(url=served.url))
    return world


def grant(world: World, served: Upstream, **more: Any) -> None:
    """Grant the upstream and the secret for it to the toolset as it is now."""
    facts = {"hosts": [served.address], "digest": read_toolset(world.root, "demo").digest, **WHEN}
    grants = {
        "network": {"kind": "network", **facts},
        "key": {"kind": "secret", "name": "WEB_KEY", **facts},
    }
    world.write("state/demo.yaml", json.dumps({"grants": grants, **more}))


def record(world: World) -> Any:
    call = world.log()[-1].record.call
    assert call is not None
    return call


def test_a_tool_whose_host_and_secret_were_granted_runs_and_is_recorded(
    web: World, served: Upstream
) -> None:
    grant(web, served)
    outcome = web.call("fetch", id="a")

    assert outcome.call.status == "success"
    assert outcome.call.result["headers"]["X-Key".lower()] == "***"
    assert outcome.call.render_plan is not None
    assert outcome.call.render_plan.config == {"content": "/echo/a", "language": "text"}
    assert served.last["headers"]["x-key"] == SECRET
    assert record(web).sandbox is None
    assert record(web).output.startswith(f"GET {served.url}/echo/a?key=***: 200, ")


def test_binary_is_a_file_of_the_commit(web: World, served: Upstream) -> None:
    grant(web, served)
    outcome = web.call("image", name="cat.png")

    assert [(one.kind, one.path) for one in outcome.changes] == [("added", "cat.png")]
    assert outcome.call.result == {"file": "cat.png", "media_type": "image/png", "size": len(PNG)}
    assert outcome.call.render_plan is not None
    assert outcome.call.render_plan.config == {"file": "workspace:cat.png"}
    shown = subprocess.run(
        ["git", "-C", str(web.store), "show", "main:cat.png"], capture_output=True, check=True
    )
    assert shown.stdout == PNG


@pytest.mark.parametrize("part", ["network", "key"])
def test_nothing_is_sent_and_nothing_recorded_without_a_grant(
    web: World, served: Upstream, part: str
) -> None:
    grant(web, served)
    file = web.root / "toolsets/state/demo.yaml"
    grants = json.loads(file.read_text())["grants"]
    del grants[part]
    file.write_text(json.dumps({"grants": grants}))
    with pytest.raises(GrantNeededError) as caught:
        web.call("fetch", id="a")

    asked = "network" if part == "network" else "secret WEB_KEY"
    assert caught.value.hint == f"covalt-git grant add demo {asked} {served.address}"
    assert (served.seen, web.log()) == ([], [])


def test_a_grant_is_for_the_files_that_were_granted(web: World, served: Upstream) -> None:
    grant(web, served)
    web.write("demo/toolset.yaml", MANIFEST.format(url=served.url) + "description: now another\n")
    with pytest.raises(GrantNeededError) as caught:
        web.call("image", name="cat.png")

    assert caught.value.message.endswith("; it has changed since that was granted")
    assert served.seen == []


def test_an_imported_toolset_needs_its_grants_and_no_sandbox(web: World, served: Upstream) -> None:
    grant(web, served, source_type="zip", enabled=True)

    assert web.call("image", name="cat.png").call.status == "success"


def test_arguments_without_a_place_are_refused_and_not_recorded(
    web: World, served: Upstream
) -> None:
    grant(web, served)
    with pytest.raises(InvalidArgumentsError) as caught:
        web.call("fetch", id="..")
    with pytest.raises(InvalidArgumentsError):
        web.call("fetch")

    (problem,) = caught.value.problems
    assert problem.path == "$.id"
    assert problem.message.startswith("the argument 'id' would lead elsewhere than /echo/{id}: ")
    assert (served.seen, web.log()) == ([], [])


def test_a_call_that_asks_is_sent_once_it_is_approved(web: World, served: Upstream) -> None:
    grant(web, served)
    waiting = web.ask("asks")
    before = list(served.seen)
    outcome = web.approve(waiting)

    assert (before, outcome.call.status) == ([], "success")
    assert len(served.seen) == 1


def spilled(root: Path) -> list[str]:
    """Return the files below the project that hold the secret, git's objects as git shows them."""
    found = []
    needles = [SECRET.encode(), json.dumps(SECRET).encode(), b"canary-5f2c9a%2F%2B%3D"]
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            found += [str(path) for needle in needles if needle in content]
    store = root / "data/chats/c1/store.git"
    objects = subprocess.run(
        ["git", "-C", str(store), "cat-file", "--batch-all-objects", "--batch"],
        capture_output=True,
        check=True,
    ).stdout
    return found + [str(needle) for needle in needles if needle in objects]


def test_a_secret_is_in_no_file_no_object_and_no_output(web: World, served: Upstream) -> None:
    grant(web, served)
    outcomes: list[CallOutcome] = [
        *(web.call("fetch", id="a"), web.call("leak"), web.call("blob")),
    ]
    shown = (
        web.cli("call", "c1", "demo:leak"),
        web.cli("call", "c1", "demo:fetch", "--arg", "id=b", "--json"),
    )
    web.cli("index", "rebuild")

    assert [one.call.status for one in outcomes] == ["success", "error", "success"]
    assert outcomes[1].call.error is not None
    assert outcomes[1].call.error.endswith("answered 403 FORBIDDEN: bad key ***")
    assert SECRET not in repr(outcomes)
    assert all(SECRET not in one.stdout + one.stderr for one in shown)
    assert served.seen[-1]["headers"]["x-key"] == SECRET
    assert spilled(web.root) == []


def test_a_secret_may_come_from_a_file_that_only_its_owner_reads(
    web: World, served: Upstream, tmp_path: Path
) -> None:
    grant(web, served)
    file = tmp_path / "config/covalt-git/secrets.env"
    file.parent.mkdir(parents=True)
    file.write_text("WEB_KEY='from the file'\n")
    file.chmod(0o644)
    refused = web.call("fetch", id="a")
    file.chmod(0o600)
    web.call("fetch", id="a")

    assert refused.error is not None
    assert refused.error.code == "secrets_file"
    assert len(served.seen) == 1
    assert served.last["headers"]["x-key"] == "from the file"


def test_a_command_shows_an_http_tool_with_where_its_arguments_go(web: World) -> None:
    shown = web.cli("tool", "show", "demo:fetch").stdout
    listed = web.cli("tool", "list").stdout

    assert "  id  string, needed, in the path" in shown
    assert "/echo/{id}" in shown
    assert "demo:fetch" in listed
