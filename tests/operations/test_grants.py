"""Grants: what each covers, what ends it, and what cannot be granted."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from covalt_git.access.grants import GrantNeededError, granted
from covalt_git.calls.engine import CallRequest
from covalt_git.hosts import origin_of
from covalt_git.project import Project
from covalt_git.runtime import sandbox_levels
from covalt_git.runtime.sandbox_levels import check_trust
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust.own_data import adopt
from tests.examples import rest
from tests.operations_client import Operations
from tests.trusting import use_config

MANIFEST = """\
id: demo
name: Demo
version: "1"
secrets: [MAPS_KEY]
tools:
  - {id: web, http: {url: "https://example.com/", headers: {X-Key: "${MAPS_KEY}"}}}
mcp_servers:
  - {id: maps, command: python, args: [server/main.py], env: {KEY: "${MAPS_KEY}", MODE: fast}}
  - {id: far, url: "https://example.com/mcp", headers: {Authorization: "Bearer ${MAPS_KEY}"}}
"""
STATE = "toolsets/state/demo.yaml"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "toolsets/demo/server").mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "toolsets/demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    (tmp_path / "toolsets/demo/server/main.py").write_text("x = 1\n", encoding="utf-8")
    return tmp_path


def rewrite(root: Path, old: str, new: str, path: str = "toolset.yaml") -> None:
    file = root / "toolsets/demo" / path
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def add(operate: Operations, kind: str, name: str | None = None, *hosts: str) -> Any:
    return operate("add_grant", toolset_id="demo", kind=kind, name=name, hosts=hosts)


def grants(operate: Operations) -> dict[str, Any]:
    return {row["key"]: row for row in operate("list_grants")["grants"]}


def usable_servers(root: Path) -> list[str]:
    """Return which of the two servers may be used now."""
    toolset = read_toolset(root, "demo")
    assert toolset.manifest is not None
    may = granted("demo", toolset.state, toolset.digest)
    found = []
    for server in toolset.manifest.mcp_servers:
        with suppress(GrantNeededError):
            may.check_server(server, toolset.files.hashes)
            found.append(server.id)
    return found


def test_an_http_tool_needs_its_host_and_its_secret(root: Path, operate: Operations) -> None:
    def check() -> None:
        Project.open(root).engine().check(CallRequest("demo:web", {}))

    add(operate, "network", None, "example.com")
    with pytest.raises(GrantNeededError, match="MAPS_KEY"):
        check()
    add(operate, "secret", "MAPS_KEY", "example.com")
    check()
    operate("revoke_grant", toolset_id="demo", key="network")
    with pytest.raises(GrantNeededError, match=r"https://example\.com"):
        check()


def test_an_http_tool_keeps_its_grant_until_its_own_request_changes(
    root: Path, operate: Operations
) -> None:
    def may_reach(tool_id: str | None) -> bool:
        toolset = read_toolset(root, "demo")
        tool = toolset.tool(tool_id) if tool_id else None
        may = granted("demo", toolset.state, toolset.digest, tool)
        return may.reach.covers(origin_of("https://example.com/")[0])

    add(operate, "network", None, "example.com")
    rewrite(root, "x = 1", "x = 2", "server/main.py")
    assert may_reach("demo:web")
    assert not may_reach(None)
    assert not grants(operate)["network"]["holds"]
    rewrite(root, "X-Key:", "X-Other:")
    assert not may_reach("demo:web")


def test_ended_grants_are_renewed_for_the_files_that_were_seen(
    root: Path, operate: Operations
) -> None:
    add(operate, "network", None, "example.com")
    add(operate, "server", "far")
    rewrite(root, "example.com/mcp", "example.org/mcp")
    seen = operate("get_toolset", toolset_id="demo")["digest"]
    rewrite(root, 'version: "1"', 'version: "2"')

    assert operate.error("renew_grants", toolset_id="demo", digest=seen).code == "moved"
    done = operate("renew_grants", toolset_id="demo")["grants"]
    assert [one["key"] for one in done] == ["network", "server-far"]
    assert all(row["holds"] for row in grants(operate).values())


def test_hosts_are_added_to_a_grant_that_holds(root: Path, operate: Operations) -> None:
    add(operate, "network", None, "b.example.com")
    assert add(operate, "network", None, "a.example.com")["grant"]["hosts"] == [
        "a.example.com",
        "b.example.com",
    ]

    rewrite(root, 'version: "1"', 'version: "2"')
    assert not grants(operate)["network"]["holds"]
    assert add(operate, "network", None, "c.example.com")["grant"]["hosts"] == ["c.example.com"]


def test_a_host_is_revoked_alone(root: Path, operate: Operations) -> None:
    add(operate, "network", None, "a.example.com", "localhost:8077")
    assert grants(operate)["network"]["ports"] == {"a.example.com": [443], "localhost:8077": [8077]}
    done = operate("revoke_grant", toolset_id="demo", key="network", hosts=["a.example.com"])

    assert (done["revoked"], done["left"]["hosts"]) == ([], ["localhost:8077"])
    assert operate("revoke_grant", toolset_id="demo", all=True)["revoked"] == ["network"]
    assert not (root / STATE).exists()


@pytest.mark.parametrize("broken", [False, True])
def test_revoking_an_unknown_grant_changes_nothing(
    root: Path, operate: Operations, *, broken: bool
) -> None:
    add(operate, "network", None, "example.com")
    before = (root / STATE).read_bytes()
    if broken:
        (root / "toolsets/demo/toolset.yaml").write_text("id: demo\n", encoding="utf-8")

    for key, hosts in (("network", ["exmaple.com"]), ("secret-MAPS_KEY", [])):
        refused = operate.error("revoke_grant", toolset_id="demo", key=key, hosts=hosts)
        assert refused.http_status == 404
    assert (root / STATE).read_bytes() == before
    assert operate("revoke_grant", toolset_id="demo", key="network")["revoked"] == ["network"]


def test_a_secret_without_hosts_is_sent_by_no_http_tool(root: Path, operate: Operations) -> None:
    refused = operate.error("add_grant", toolset_id="demo", kind="secret", name="MAPS_KEY")
    assert "demo:web" in refused.message
    rewrite(root, ', headers: {X-Key: "${MAPS_KEY}"}', "")
    add(operate, "secret", "MAPS_KEY")
    toolset = read_toolset(root, "demo")
    may = granted("demo", toolset.state, toolset.digest)

    assert not may.secrets["MAPS_KEY"].covers(origin_of("https://example.com/")[0])


def test_a_server_is_granted_as_it_is_declared(root: Path, operate: Operations) -> None:
    add(operate, "process", "maps")
    assert usable_servers(root) == ["maps"]
    assert add(operate, "server", "far")["key"] == "server-far"
    assert usable_servers(root) == ["maps", "far"]
    assert "MAPS_KEY" not in (root / STATE).read_text(encoding="utf-8")

    operate("revoke_grant", toolset_id="demo", key="process-maps")
    assert usable_servers(root) == ["far"]
    operate("revoke_grant", toolset_id="demo", key="server-far")
    assert not (root / STATE).exists()


@pytest.mark.parametrize(
    ("old", "new", "ended"),
    [
        ("args: [server/main.py]", "args: [server/main.py, --all]", "process-maps"),
        rest("MODE: fast", "MODE: slow", "process-maps"),
        (", MODE: fast", "", "process-maps"),
        rest("MODE: fast", "MODE: fast, LD_PRELOAD: x.so", "process-maps"),
        ("env:", "cwd: /tmp, env:", "process-maps"),
        ("{id: maps,", "{id: mops,", "process-maps"),
        rest("command: python, args: [server/main.py]", 'url: "https://a.b/"', "process-maps"),
        ("example.com/mcp", "example.org/mcp", "server-far"),
        rest("headers: {Auth", "transport: sse, headers: {Auth", "server-far"),
        ("Bearer ", "Basic ", "server-far"),
        rest("Authorization:", "X-Key:", "server-far"),
    ],
)
def test_a_changed_server_ends_its_own_grant_only(
    root: Path, operate: Operations, old: str, new: str, ended: str
) -> None:
    add(operate, "process", "maps")
    add(operate, "server", "far")
    if "url" in new:
        rewrite(root, ', env: {KEY: "${MAPS_KEY}", MODE: fast}', "")
    rewrite(root, old, new)
    rows = grants(operate)

    assert [key for key, row in rows.items() if not row["holds"]] == [ended]
    assert [key for key, row in rows.items() if row["changed"]] == [ended]


def test_files_of_the_toolset_end_the_grant_of_a_program_and_its_manifest_does_not(
    root: Path, operate: Operations
) -> None:
    add(operate, "process", "maps")
    rewrite(root, 'version: "1"', 'version: "2"')
    assert usable_servers(root) == ["maps"]

    rewrite(root, "x = 1", "x = 2", "server/main.py")
    (root / "toolsets/demo/lib.py").write_text("y = 1\n", encoding="utf-8")
    assert usable_servers(root) == []
    assert len(grants(operate)["process-maps"]["changed"]) == 2


def test_facts_in_a_state_file_that_do_not_match_their_digest_grant_nothing(
    root: Path, operate: Operations
) -> None:
    add(operate, "process", "maps")
    text = (root / STATE).read_text(encoding="utf-8")
    (root / STATE).write_text(text.replace("server/main.py\n", "harmless.py\n"), encoding="utf-8")

    assert usable_servers(root) == []
    assert "harmless.py" in grants(operate)["process-maps"]["changed"][0]


def test_missing_grants_are_listed_with_their_commands(operate: Operations) -> None:
    def lacking() -> list[str]:
        found = [
            operate("validate")["lacking"],
            operate("get_toolset", toolset_id="demo")["lacking"],
        ]
        assert found[0] == found[1]
        return [one["command"] for one in found[0]]

    assert lacking() == [
        "covalt-git grant add demo network example.com",
        "covalt-git grant add demo secret MAPS_KEY example.com",
        "covalt-git grant add demo server maps",
        "covalt-git grant add demo server far",
    ]
    add(operate, "server", "far")
    assert len(lacking()) == 3
    assert len(operate("add_requested_grants", toolset_id="demo")["grants"]) == 3
    assert lacking() == []
    assert not operate("list_toolsets")["toolsets"][0]["lacks_grants"]


def test_what_is_requested_and_granted_is_not_said_to_be_valid(
    root: Path, operate: Operations, cli: Callable[..., tuple[int, str]]
) -> None:
    operate("add_requested_grants", toolset_id="demo")
    assert "has ended" not in cli("grant", "add", "demo", "--requested")[1]
    # The HTTP tool keeps its grant, and the program, which loads files, does not.
    rewrite(root, 'version: "1"', 'version: "2"')

    _, text = cli("grant", "add", "demo", "--requested")

    for key in ("network", "secret-MAPS_KEY"):
        (change,) = grants(operate)[key]["changed"]
        assert f"demo {key} has ended: {change}" in text
    assert "covalt-git grant add demo --again" in text


def test_a_changed_program_is_renewed_with_what_it_had(
    root: Path, operate: Operations, tmp_path: Path
) -> None:
    missing = operate.error(
        "add_grant", toolset_id="demo", kind="server", name="maps", folders=["/no/such"]
    )
    assert (missing.code, "/no/such" in missing.message) == ("no_folder", True)
    operate(
        "add_grant",
        toolset_id="demo",
        kind="server",
        name="maps",
        hosts=["example.com"],
        folders=[str(tmp_path)],
    )
    had = grants(operate)["process-maps"]["grant"]["sandbox"]

    for again in ("renew_grants", "add_requested_grants"):
        rewrite(root, "x = ", "x = 1", "server/main.py")
        commands = [row["command"] for row in operate("get_toolset", toolset_id="demo")["lacking"]]
        assert "covalt-git grant add demo --again" in commands
        operate(again, toolset_id="demo")
        (row,) = (row for key, row in grants(operate).items() if key == "process-maps")
        assert (row["holds"], row["grant"]["sandbox"]) == (True, had)


def test_an_imported_toolset_may_be_granted_to_run_without_a_sandbox(
    root: Path, operate: Operations
) -> None:
    (root / "toolsets/state").mkdir()
    (root / STATE).write_text("enabled: true\nsource_type: local\n", encoding="utf-8")
    add(operate, "unsandboxed")

    toolset = read_toolset(root, "demo")
    check_trust("demo", toolset.state, digest=toolset.digest, at="process")


@pytest.mark.parametrize("kind", ["unsandboxed", "process"])
def test_a_server_with_the_workspace_is_not_granted_without_a_sandbox(
    root: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    rewrite(root, "server/main.py]", "server/main.py, $workspace]")
    operate = Operations(root)
    monkeypatch.setattr(sandbox_levels, "level", lambda: "full")

    for operation in ("preview_grant", "add_grant"):
        refused = operate.error(operation, toolset_id="demo", kind=kind, name="maps")
        assert refused.code == "server_in_workspace"
        assert refused.hint == (
            "run the program in the sandbox: covalt-git grant add demo server maps"
        )
    assert grants(operate) == {}

    add(operate, "server", "maps")
    # Tools can write everywhere on such a machine, so the program may run there.
    monkeypatch.setattr(sandbox_levels, "level", lambda: "process")
    assert add(operate, kind, "maps")["grant"]["sandbox"] == "none"


def test_a_grant_without_a_sandbox_is_not_renewed_for_a_server_with_the_workspace(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operate = Operations(root)
    add(operate, "unsandboxed", "maps")
    rewrite(root, "server/main.py]", "server/main.py, $workspace]")
    monkeypatch.setattr(sandbox_levels, "level", lambda: "full")

    refused = operate.error("renew_grants", toolset_id="demo")

    assert refused.code == "server_in_workspace"
    assert operate("get_toolset", toolset_id="demo")["ended_permissions"] == []


def test_a_server_is_shown_to_be_able_to_do_what_the_grant_that_acts_permits(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operate = Operations(root)
    monkeypatch.setattr(sandbox_levels, "level", lambda: "full")

    def abilities() -> list[str]:
        servers = operate("get_toolset", toolset_id="demo")["mcp_servers"]
        return next(server["abilities"] for server in servers if server["id"] == "maps")

    declared = abilities()
    assert "sees no file of the chat" in declared
    assert "reaches no host, and no other file, before you grant it" in declared

    (tmp_path / "maps").mkdir()
    add_grant = {"toolset_id": "demo", "kind": "server", "name": "maps"}
    operate("add_grant", **add_grant, hosts=("example.com",), folders=(str(tmp_path / "maps"),))
    granted_abilities = abilities()
    assert "reaches the host example.com" in granted_abilities
    assert f"reads the folder {tmp_path}/maps" in granted_abilities
    assert "sees no file of the chat" in granted_abilities
    assert not any("before you grant it" in text for text in granted_abilities)
    operate("add_grant", **add_grant, folders=("$workspace",))
    assert "reads and writes the files of the chat" in abilities()

    add(operate, "unsandboxed", "maps")
    assert abilities()[0] == "runs without a sandbox, and can do everything that you can do"
    assert not any("file of the chat" in text or "no host" in text for text in abilities())
    # A grant that acts nowhere permits nothing: it is not trusted here, or the toolset has changed.
    with monkeypatch.context() as patch:
        use_config(patch, tmp_path / "another-user", trusts=False)
        adopt(root)
        assert abilities() == declared
    rewrite(root, "x = 1", "x = 2", "server/main.py")
    assert abilities() == declared


def test_a_server_that_its_grant_does_not_start_is_shown_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_levels, "level", lambda: "process")
    rewrite(root, "server/main.py]", "server/main.py, $workspace]")
    operate = Operations(root)
    add(operate, "unsandboxed", "maps")
    monkeypatch.setattr(sandbox_levels, "level", lambda: "full")

    server, *_ = operate("get_toolset", toolset_id="demo")["mcp_servers"]

    assert server["abilities"][0].startswith("is not started: ")
