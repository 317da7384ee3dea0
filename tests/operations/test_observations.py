"""Observation of MCP servers: what each lacks, and that the proposed grant is enough."""

import os
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from covalt_git.cli import main
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.runtime import sandbox_levels
from tests.operations_client import Operations

SERVERS = Path(__file__).parents[2] / "fixtures/servers"
INTERPRETERS = {"py": "python3", "js": "node"}
MANIFEST = """\
id: demo
name: Demo
version: "1"
secrets: [NEEDED_TOKEN]
mcp_servers:
  - {id: needing, command: INTERPRETER, args: [needing.END]}
  - {id: far, url: "https://far.example/mcp"}
"""


ends = pytest.mark.parametrize("end", ["js", pytest.param("py", marks=pytest.mark.rest)])
"""Node opens fewer files at its start than Python, each of which takes the time of an observation."""


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}/"
        server.shutdown()


def project(tmp_path: Path, end: str) -> Operations:
    """Return the operations of a project with a server that is granted its start."""
    if shutil.which(INTERPRETERS[end]) is None:
        pytest.skip("this machine has no Node")
    if sandbox_levels.level() != "full":
        pytest.skip("hosts need the sandbox level full")
    toolset = tmp_path / "project/toolsets/demo"
    toolset.mkdir(parents=True)
    manifest = MANIFEST.replace("INTERPRETER", INTERPRETERS[end]).replace("END", end)
    (toolset / "toolset.yaml").write_text(manifest, encoding="utf-8")
    shutil.copy(SERVERS / f"needing.{end}", toolset)
    (tmp_path / "project/covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    operate = Operations(tmp_path / "project")
    operate("add_grant", toolset_id="demo", kind="server", name="needing")
    return operate


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user with data, a program of ``PATH``, and a home with an SSH key."""
    for name in ("data", "written", "bin", "home/.ssh"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data/a.csv").write_text("1,2", encoding="utf-8")
    (tmp_path / "bin/counter").write_text("#!/bin/sh\necho 3\n", encoding="utf-8")
    (tmp_path / "bin/counter").chmod(0o755)
    (tmp_path / "home/.ssh/id_rsa").write_text("key", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("NEEDED_TOKEN", "canary-1234")
    return tmp_path


def observe(operate: Operations, calls: list[Any] | None = None, **more: Any) -> Any:
    return operate(
        "observe_source", toolset_id="demo", namespace="needing", calls=calls or [], **more
    )


@ends
def test_a_server_works_with_the_grant_that_its_observation_proposes(
    outside: Path, url: str, end: str
) -> None:
    operate = project(outside, end)
    calls = [
        {"tool": "fetch", "args": {"url": url}},
        {"tool": "read", "args": {"path": str(outside / "data/a.csv")}},
        {"tool": "write", "args": {"path": str(outside / "written/new")}},
        {"tool": "run", "args": {"program": "counter"}},
        {"tool": "token", "args": {}},
    ]
    before = operate("list_grants")

    observed = observe(operate, calls)

    assert len(observed["tools"]) == 5
    assert all(call["error"] for call in observed["calls"])
    assert not (outside / "written/new").exists()
    needs = {need["call"].split()[0]: need for need in observed["needs"]}
    assert {tool: (need["kind"], need["name"]) for tool, need in needs.items()} == {
        "fetch": ("host", url.removesuffix("/")),
        "read": ("path", str(outside / "data/a.csv")),
        "write": ("path", str(outside / "written/new")),
        "run": ("program", "counter"),
        "token": ("variable", "NEEDED_TOKEN"),
    }
    assert len(needs) == len(observed["needs"])
    # Nothing is granted by an observation.
    assert operate("list_grants") == before
    assert all(call["error"] for call in observe(operate, calls, granted=True)["calls"])

    for need in observed["needs"]:
        names = {key: need[key] for key in ("hosts", "folders", "secrets")}
        operate("add_grant", toolset_id="demo", kind="server", name="needing", **names)
    again = observe(operate, calls, granted=True)

    assert [call["error"] for call in again["calls"]] == [""] * 5
    assert again["needs"] == []
    assert (outside / "written/new").read_text(encoding="utf-8") == "written"
    # Without `granted`, the same is found again, and marked as granted.
    (outside / "written/new").unlink()
    observed = observe(operate, calls)
    assert [need["granted"] for need in observed["needs"]] == [True] * 5
    assert observed["command"] == ""
    CONNECTIONS.close()


@ends
def test_what_a_server_should_not_need_is_marked_and_left_out_of_the_proposal(
    outside: Path, end: str
) -> None:
    operate = project(outside, end)
    paths = [
        "~/.ssh/id_rsa",
        "~/.aws/credentials",
        str(outside / "home/.ssh/id_rsa"),
        "/etc/shadow",
    ]
    calls = [{"tool": "read", "args": {"path": path}} for path in paths]
    calls += [{"tool": "fetch", "args": {"url": "http://169.254.169.254/latest/meta-data"}}]

    observed = observe(operate, calls)

    warnings = {need["name"]: need["warning"] for need in observed["needs"]}
    assert set(paths) <= set(warnings)
    assert "http://169.254.169.254" in warnings
    assert all(warnings.values())
    assert observed["command"] == ""
    CONNECTIONS.close()


@pytest.mark.rest  # tests/runtime/test_personal_places.py has the hosts
def test_hosts_of_telemetry_are_marked_and_left_out_of_the_proposal(outside: Path) -> None:
    operate = project(outside, "py")
    marked = (
        *("us.i.posthog.com", "api.segment.io", "o1.ingest.us.sentry.io", "api-eu.mixpanel.com"),
        *("api2.amplitude.com", "www.google-analytics.com", "static.scarf.sh"),
        *("mobile.events.data.microsoft.com", "telemetry.example.com"),
    )
    others = ("api.example.com", "sentry.io", "posthog.com", "scarf.shop", "mytelemetry.example")
    # The proxy refuses each, so that none is contacted.
    calls = [{"tool": "fetch", "args": {"url": f"https://{host}/"}} for host in (*marked, *others)]

    observed = observe(operate, calls)

    warnings = {
        need["name"].removeprefix("https://"): need["warning"] for need in observed["needs"]
    }
    assert {host for host, why in warnings.items() if why.startswith("telemetry")} == {*marked}
    assert {host for host, why in warnings.items() if not why} == {*others}
    assert not any(host in observed["command"].split() for host in marked)
    CONNECTIONS.close()


@ends
def test_no_advice_grants_the_home_for_a_file_in_it(outside: Path, end: str) -> None:
    operate = project(outside, end)
    home = outside / "home"
    (home / "tool").mkdir()
    for name in (".gitconfig", "tool/settings.json"):
        (home / name).write_text("{}", encoding="utf-8")
    calls = [
        {"tool": "read", "args": {"path": path}}
        for path in ("~/.gitconfig", "~/tool/settings.json")
    ]

    observed = observe(operate, calls)

    notes = {need["name"]: need["note"] for need in observed["needs"]}
    assert f"grant {home / 'tool'} and" in notes["~/tool/settings.json"]
    assert str(home) not in notes["~/.gitconfig"]
    assert "move the file into a folder of its own" in notes["~/.gitconfig"]
    assert not any("listed its tools without" in note for note in notes.values())
    CONNECTIONS.close()


@pytest.mark.rest
def test_a_file_without_which_a_server_lists_its_tools_is_reported_so(outside: Path) -> None:
    operate = project(outside, "py")
    (outside / "home/.gitconfig").write_text("", encoding="utf-8")
    server = outside / "project/toolsets/demo/needing.py"
    begin = 'import os\nos.path.exists(os.path.expanduser("~/.gitconfig"))\n'
    server.write_text(begin + server.read_text(encoding="utf-8"), encoding="utf-8")
    operate("add_grant", toolset_id="demo", kind="server", name="needing")

    (need,) = observe(operate)["needs"]

    assert need["name"] == "~/.gitconfig"
    assert need["note"].startswith("it listed its tools without this file")
    CONNECTIONS.close()


def test_a_server_that_is_not_granted_is_not_started(outside: Path) -> None:
    operate = project(outside, "py")
    operate("revoke_grant", toolset_id="demo", all=True)
    assert operate.error("observe_source", toolset_id="demo", namespace="needing").code == (
        "grant_needed"
    )
    operate("add_grant", toolset_id="demo", kind="server", name="far")
    assert operate.error("observe_source", toolset_id="demo", namespace="far").code == "no_program"


@ends
def test_a_server_without_a_sandbox_is_observed_in_the_sandbox(outside: Path, end: str) -> None:
    operate = project(outside, end)
    operate("revoke_grant", toolset_id="demo", all=True)
    operate("add_grant", toolset_id="demo", kind="unsandboxed", name="needing")
    calls = [{"tool": "read", "args": {"path": str(outside / "data/a.csv")}}]

    observed = observe(operate, calls, granted=True)

    assert observed["sandbox"] == "full"
    assert observed["calls"][0]["error"]
    assert [need["name"] for need in observed["needs"]] == [str(outside / "data/a.csv")]
    CONNECTIONS.close()


@pytest.mark.rest
def test_settings_of_an_interpreter_are_no_need(outside: Path) -> None:
    operate = project(outside, "py")
    paths = [outside / "bin" / name for name in ("pyvenv.cfg", "python3._pth", "python3.11._pth")]

    observed = observe(operate, [{"tool": "read", "args": {"path": str(path)}} for path in paths])

    assert observed["needs"] == []
    CONNECTIONS.close()


@ends
def test_a_misspelt_tool_is_not_called_and_ends_the_command_with_1(
    outside: Path, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project(outside, end)
    command = ["source", "observe", "demo/needing", "--call", "tokn", "{}"]

    with pytest.raises(SystemExit) as ended:
        main(["-C", str(outside / "project"), *command])

    printed = capsys.readouterr().out
    assert ended.value.code == 1
    assert "did you mean 'token'?" in printed
    assert "ran in an empty workspace" in printed
    CONNECTIONS.close()


STARTING = """
import os, pathlib, sys, urllib.request
def attempt(action):
    try:
        action()
    except Exception as error:
        print(error, file=sys.stderr)
attempt(lambda: pathlib.Path("~/.config/search.json").expanduser().read_text())
attempt(lambda: urllib.request.urlopen(URL, timeout=5))
if not os.environ.get("BRAVE_API_KEY"):
    sys.exit("Error: BRAVE_API_KEY environment variable is required")
"""


def test_what_a_server_needs_at_its_start_is_proposed(outside: Path, url: str) -> None:
    operate = project(outside, "py")
    (outside / "home/.config").mkdir()
    (outside / "home/.config/search.json").write_text("{}", encoding="utf-8")
    server = outside / "project/toolsets/demo/needing.py"
    server.write_text(f"URL = {url!r}\n{STARTING}", encoding="utf-8")
    operate("add_grant", toolset_id="demo", kind="server", name="needing")

    observed = observe(operate)

    needs = {need["kind"]: need for need in observed["needs"]}
    assert len(observed["needs"]) == 3
    assert "BRAVE_API_KEY environment variable is required" in observed["failure"]
    assert needs["host"]["name"] == url.removesuffix("/")
    assert observed["command"] == needs["host"]["command"]
    # A grant gives neither: the variable is not among the toolset's secrets, and the home is a private folder.
    assert needs["path"]["name"] == "~/.config/search.json"
    assert str(outside / "home/.config") in needs["path"]["note"]
    assert needs["variable"]["name"] == "BRAVE_API_KEY"
    assert "add BRAVE_API_KEY to secrets of toolsets/demo/toolset.yaml" in needs["variable"]["note"]
    CONNECTIONS.close()


def test_a_failed_start_shows_what_it_lacked_and_fails_a_script(outside: Path) -> None:
    operate = project(outside, "py")
    server = outside / "project/toolsets/demo/needing.py"
    server.write_text(f"open({str(outside / 'data/a.csv')!r})\n", encoding="utf-8")
    operate("add_grant", toolset_id="demo", kind="server", name="needing")

    observed = observe(operate)

    assert "FileNotFoundError" in observed["failure"]
    assert [(need["name"], need["call"]) for need in observed["needs"]] == [
        (str(outside / "data/a.csv"), "")
    ]
    with pytest.raises(SystemExit) as ended:
        main(["-C", str(outside / "project"), "source", "observe", "demo/needing"])
    assert ended.value.code == 1
    CONNECTIONS.close()
