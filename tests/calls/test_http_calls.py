"""Calls of HTTP tools: redirects need grants, and bad answers fail only their own call."""

import json
from textwrap import dedent, indent
from typing import Any

import pytest

from covalt_git.toolsets.toolset import read_toolset
from tests.calls.conftest import World, make_world
from tests.http_tools.upstream import Upstream

WHEN = {"granted_at": "2026-11-20T17:24:00Z", "granted_by": "local"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world whose tool each test declares anew."""
    return make_world(tmp_path_factory.mktemp("http") / "project")


def call(world: World, http: str, *hosts: str, limits: str = "{}", **args: Any) -> Any:
    """Declare an HTTP tool, grant it hosts, and call it; return the finished call."""
    declare(world, http, *hosts, limits=limits)
    return world.call("it", **args).call


def declare(world: World, http: str, *hosts: str, limits: str = "{}") -> None:
    """Declare the HTTP tool ``demo:it``, and grant it hosts if there are any."""
    text = f'id: demo\nname: Demo\nversion: "1"\ntools:\n- id: it\n  limits: {limits}\n  http:\n'
    text += indent(dedent(http), "    ") + "\n  input_schema: {type: object}\n"
    world.write("demo/toolset.yaml", text)
    toolset = read_toolset(world.root, "demo")
    assert toolset.sound, toolset.problems
    granted = {"kind": "network", "hosts": hosts, "digest": toolset.digest, **WHEN}
    grants = {"network": granted} if hosts else {}
    world.write("state/demo.yaml", json.dumps({"grants": grants}))


def check(world: World, served: Upstream) -> None:
    """Check that the chat still works, and that git finds its store valid."""
    made = call(world, f"url: {served.url}/echo", served.address)
    assert made.status == "success"
    assert world.git("fsck", "--strict", "--no-dangling") == ""


@pytest.mark.parametrize(
    ("path", "expected"), [("/big", "limit_output"), ("/status/404", "http_404")]
)
def test_a_bad_answer_fails_only_its_own_call(
    shared: World, served: Upstream, path: str, expected: str
) -> None:
    http = f"url: {served.url}{path}\nretries: 0"
    made = call(shared, http, served.address, limits="{output_mb: 1}")

    assert made.error.startswith(f"{expected}: ")
    assert shared.codes()[-1] == expected
    check(shared, served)


def test_an_imported_toolset_needs_grants_and_no_sandbox(world: World, served: Upstream) -> None:
    declare(world, f"url: {served.url}/echo", served.address)
    world.edit("state/demo.yaml", '"grants"', '"source_type": "zip", "enabled": true, "grants"')

    assert world.call("it", level="process").call.status == "success"
