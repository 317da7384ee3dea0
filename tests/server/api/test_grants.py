"""Grants over the API: bound to the files they were given for, told with whether they hold, taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api_client import Api, answered, configure, form_file, refused
from tests.server.api.test_bundles import DEMO

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def demo(api: Api) -> Api:
    """The API of a project with an imported toolset that asks for a host and a secret."""
    answered(api.send_form("import_toolset", {"file": form_file("demo.zip", DEMO)}))
    return api


def test_grants_are_given_listed_and_taken_back(demo: Api) -> None:
    given = demo.post(
        "add_grant", toolset_id="demo", kind="network", hosts=["maps.example", "*.far.example"]
    )
    secret = demo.post(
        "add_grant", toolset_id="demo", kind="secret", name="MAPS_KEY", hosts=["maps.example"]
    )
    demo.post("add_grant", toolset_id="demo", kind="unsandboxed")
    listed = demo.get("list_grants")["grants"]

    assert given["key"] == "network"
    assert given["grant"]["hosts"] == ["*.far.example", "maps.example"]
    assert given["ports"] == listed[0]["ports"] == {"*.far.example": [443], "maps.example": [443]}
    assert given["grant"]["granted_by"] == "local"
    assert secret["key"] == "secret-MAPS_KEY"
    assert [one["key"] for one in listed] == ["network", "secret-MAPS_KEY", "unsandboxed"]
    assert all(one["holds"] for one in listed)
    assert all(one["granted"] for one in demo.get("get_toolset", toolset_id="demo")["asks"])
    assert demo.get("list_grants", toolset_id="data-lab")["grants"] == []

    left = demo.post("revoke_grant", toolset_id="demo", key="network", hosts=["maps.example"])
    assert (left["revoked"], left["left"]["hosts"]) == ([], ["*.far.example"])
    gone = demo.post("revoke_grant", toolset_id="demo", key="network")
    assert (gone["revoked"], gone["left"]) == (["network"], None)
    every = demo.post("revoke_grant", toolset_id="demo", all=True)
    assert every["revoked"] == ["secret-MAPS_KEY", "unsandboxed"]
    assert demo.get("list_grants")["grants"] == []


LOOK = """\
id: look
name: Look
version: "1"
secrets: [LOOK_KEY]
tools:
  - {id: look, entrypoint: "tools.look:look"}
"""


def look_toolset(root: Path, manifest: str = LOOK) -> None:
    """Write a toolset whose Python uses a secret."""
    (root / "toolsets/look/tools").mkdir(parents=True, exist_ok=True)
    (root / "toolsets/look/tools/look.py").write_text("def look() -> None: ...\n")
    (root / "toolsets/look/toolset.yaml").write_text(manifest)


def test_a_secret_needs_a_host_only_where_an_http_tool_sends_it_to_one(demo: Api) -> None:
    look_toolset(demo.root)

    given = demo.post("add_grant", toolset_id="look", kind="secret", name="LOOK_KEY")
    told = demo.tell("add_grant", toolset_id="demo", kind="secret", name="MAPS_KEY")

    assert (given["grant"]["hosts"], given["holds"]) == ([], True)
    assert demo.get("get_toolset", toolset_id="look")["asks"][0]["granted"]
    hint = refused(told, 400, "host_needed")["hint"]
    assert hint == "covalt-git grant add demo secret MAPS_KEY maps.example"


def test_a_changed_file_ends_a_grant_and_it_is_told(demo: Api) -> None:
    demo.post("add_grant", toolset_id="demo", kind="network", hosts=["maps.example"])
    file = demo.root / "toolsets/demo/tools/a.py"
    file.write_text(file.read_text() + "# changed\n")

    seen = demo.get("list_grants")["grants"][0]["grant"]["digest"]
    again = {"toolset_id": "demo", "kind": "network", "hosts": ["maps.example"]}

    refused(demo.tell("add_grant", digest=seen, **again), 409, "moved")
    assert [one["holds"] for one in demo.get("list_grants")["grants"]] == [False]
    assert not demo.get("get_toolset", toolset_id="demo")["asks"][0]["granted"]
    now = demo.get("get_toolset", toolset_id="demo")["digest"]
    assert demo.post("add_grant", digest=now, **again)["holds"]


SERVERS = """\
id: far
name: Far
version: "1"
mcp_servers:
  - {id: maps, command: maps-server, args: [--stdio]}
  - {id: there, url: "https://example.com/mcp"}
"""


def test_mcp_servers_are_granted_as_they_are_and_what_changed_is_told(api: Api) -> None:
    file = api.root / "toolsets/far/toolset.yaml"
    file.parent.mkdir()
    file.write_text(SERVERS)
    program = api.post("add_grant", toolset_id="far", kind="process", name="maps")
    address = api.post("add_grant", toolset_id="far", kind="server", name="there")

    assert (program["key"], program["grant"]["argv"]) == (
        "process-maps",
        ["maps-server", "--stdio"],
    )
    assert (address["key"], address["grant"]["url"]) == ("server-there", "https://example.com/mcp")
    assert api.get("get_toolset", toolset_id="far")["ended"] == {}

    file.write_text(SERVERS.replace("--stdio", "--all"))
    why = "the command was maps-server --stdio, and is maps-server --all"
    listed = api.get("list_grants", toolset_id="far")["grants"]
    assert [(one["holds"], one["changed"]) for one in listed] == [(False, [why]), (True, [])]
    assert api.get("get_toolset", toolset_id="far")["ended"] == {"process-maps": [why]}

    wrong = {"toolset_id": "far", "kind": "process"}
    refused(api.tell("add_grant", name="mops", **wrong), 404, "unknown_server")
    refused(api.tell("add_grant", name="there", **wrong), 400, "invalid_request")
    told = refused(api.tell("add_grant", **wrong), 400, "invalid_request")
    assert told["problems"][0]["path"] == "name"


@pytest.mark.parametrize(
    ("body", "status", "code", "place"),
    [
        pytest.param({"kind": "network"}, 400, "invalid_request", ["hosts"], id="no-host"),
        pytest.param(
            {"kind": "secret", "hosts": ["a.example"]},
            400,
            "invalid_request",
            ["name"],
            id="no-name",
        ),
        pytest.param({"kind": "network", "hosts": ["a/b"]}, 400, "bad_host", [], id="no-such-host"),
        pytest.param(
            {"kind": "secret", "name": "OTHER", "hosts": ["a.example"]},
            404,
            "unknown_secret",
            [],
            id="not-asked-for",
        ),
        pytest.param({"kind": "everything"}, 400, "invalid_request", ["kind"], id="no-kind"),
    ],
)
def test_what_cannot_be_granted_is_refused(
    demo: Api, body: dict[str, object], status: int, code: str, place: list[str]
) -> None:
    told = refused(demo.tell("add_grant", toolset_id="demo", **body), status, code)

    assert [one["path"] for one in told["problems"]] == place
    assert demo.get("list_grants")["grants"] == []


def test_what_was_not_granted_cannot_be_taken_back(demo: Api) -> None:
    refused(demo.tell("revoke_grant", toolset_id="demo", key="network"), 404, "unknown_grant")
    told = refused(demo.tell("revoke_grant", toolset_id="demo"), 400, "invalid_request")

    assert told["problems"][0]["path"] == "key"


def test_only_a_role_that_sees_everything_grants(demo: Api) -> None:
    configure(demo.root, 'roles: {dev: {allow: ["**"]}, owner: {admin: true}}')
    dev = Api.of(demo.root, "dev")

    refused(dev.ask("list_grants"), 403, "forbidden")
    grant = {"toolset_id": "demo", "kind": "network", "hosts": ["maps.example"]}
    refused(dev.tell("add_grant", **grant), 403, "forbidden")
    refused(dev.tell("revoke_grant", toolset_id="demo", all=True), 403, "forbidden")
    assert Api.of(demo.root, "owner").get("list_grants")["grants"] == []
