"""``covalt-git grant``: for the files as they are, by whoever may do everything, and nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from covalt_git import yaml_text
from covalt_git.access.grants import GrantNeededError
from covalt_git.calls.engine import Request
from covalt_git.project import Project
from covalt_git.runtime.sandbox import SandboxNeededError, check_trust
from tests import command

MANIFEST = """\
id: demo
name: Demo
version: "1"
secrets: [API_KEY]
tools:
  - {id: web, http: {url: "https://example.com/", headers: {X-Key: "${API_KEY}"}}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "toolsets/demo").mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "toolsets/demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    return tmp_path


def covalt(root: Path, *args: str) -> tuple[int, str]:
    done = command.run("-C", str(root), *args)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def grants(root: Path) -> dict[str, dict[str, object]]:
    state = yaml_text.load_file(root / "toolsets/state/demo.yaml", "demo.yaml").data
    found: dict[str, dict[str, object]] = state["grants"]
    return found


def test_what_a_call_asks_for_can_be_typed_one_after_the_other(root: Path) -> None:
    covalt(root, "chat", "new", "--id", "c1")
    hints = []
    for _ in range(2):
        _, said = covalt(root, "call", "c1", "demo:web")
        hints.append(said.rpartition("hint: ")[2].strip())
        covalt(root, *hints[-1].split()[1:])

    assert hints == [
        "covalt-git grant add demo network example.com",
        "covalt-git grant add demo secret API_KEY example.com",
    ]
    assert {key: one["hosts"] for key, one in grants(root).items()} == {
        "network": ["example.com"],
        "secret-API_KEY": ["example.com"],
    }
    Project.open(root).engine().check(Request("demo:web", {}))


def test_more_is_added_to_what_holds_and_nothing_to_what_is_of_other_files(root: Path) -> None:
    covalt(root, "grant", "add", "demo", "network", "b.example.com")
    _, said = covalt(root, "grant", "add", "demo", "network", "a.example.com", "--json")
    assert json.loads(said)["grant"]["hosts"] == ["a.example.com", "b.example.com"]

    manifest = root / "toolsets/demo/toolset.yaml"
    manifest.write_text(MANIFEST.replace('"1"', '"2"'), encoding="utf-8")
    covalt(root, "grant", "add", "demo", "network", "c.example.com")

    assert grants(root)["network"]["hosts"] == ["c.example.com"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        pytest.param(["network", "a b"], 1, "'a b'", id="no-host"),
        pytest.param(["secret", "API_KEI", "example.com"], 1, "'API_KEY'", id="no-such-secret"),
        pytest.param(["network"], 2, "Missing argument", id="no-host-given"),
        pytest.param(["netwrok", "a.b"], 2, "no kind of grant 'netwrok'", id="no-such-kind"),
        pytest.param([], 2, "say what, after demo: network, secret", id="no-kind-given"),
    ],
)
def test_what_cannot_be_granted_is_refused_and_nothing_is_written(
    root: Path, args: list[str], code: int, said: str
) -> None:
    done = covalt(root, "grant", "add", "demo", *args)

    assert done[0] == code
    assert said in done[1]
    assert not (root / "toolsets/state").exists()


def test_a_toolset_with_errors_is_granted_nothing(root: Path) -> None:
    (root / "toolsets/demo/toolset.yaml").write_text("id: demo\n", encoding="utf-8")

    code, said = covalt(root, "grant", "add", "demo", "network", "example.com")

    assert code == 1
    assert said.endswith("the toolset 'demo' has errors\n  hint: covalt-git validate\n")


def test_a_role_that_may_not_do_everything_grants_nothing(root: Path) -> None:
    roles = 'roles: {maker: {allow: ["**"]}, owner: {admin: true}}\n'
    (root / "covalt.yaml").write_text(f"version: 1\n{roles}", encoding="utf-8")
    wanted = ("grant", "add", "demo", "network", "example.com")

    assert covalt(root, "--role", "maker", *wanted) == (
        1,
        "your role may not grant anything\n  hint: a role with admin: true may\n",
    )
    assert covalt(root, "--role", "owner", *wanted)[0] == 0


def test_list_says_what_holds_and_json_says_all(root: Path) -> None:
    assert covalt(root, "grant", "list") == (0, "nothing is granted to any toolset\n")
    covalt(root, "grant", "add", "demo", "network", "example.com")
    manifest = root / "toolsets/demo/toolset.yaml"
    manifest.write_text(MANIFEST.replace('"1"', '"2"'), encoding="utf-8")
    covalt(root, "grant", "add", "demo", "secret", "API_KEY", "example.com", "localhost:8077")

    _, said = covalt(root, "grant", "list")
    _, shown = covalt(root, "grant", "list", "demo", "--json")

    lines = [line.split("  ") for line in said.splitlines()]
    assert [line[0] for line in lines] == ["TOOLSET", "demo", "demo"]
    assert "no, a file has changed" in said.splitlines()[1]
    assert "  example.com (port 443), localhost:8077  yes" in said.splitlines()[2]
    assert [(one["key"], one["holds"], one["ports"]) for one in json.loads(shown)["grants"]] == [
        ("network", False, {"example.com": [443]}),
        ("secret-API_KEY", True, {"example.com": [443], "localhost:8077": [8077]}),
    ]


def test_a_host_or_all_of_it_is_taken_back(root: Path) -> None:
    covalt(root, "grant", "add", "demo", "network", "a.example.com", "b.example.com")
    covalt(root, "grant", "add", "demo", "secret", "API_KEY", "a.example.com")

    said = [
        covalt(root, "grant", "revoke", "demo", "network", "a.example.com")[1],
        covalt(root, "grant", "revoke", "demo", "secret", "API_KEY")[1],
    ]
    assert said == ["demo may reach b.example.com only\n", "demo has lost secret-API_KEY\n"]
    assert {key: one["hosts"] for key, one in grants(root).items()} == {
        "network": ["b.example.com"]
    }

    assert covalt(root, "grant", "revoke", "demo", "all")[1] == "demo has lost network\n"
    assert not (root / "toolsets/state/demo.yaml").exists()
    with pytest.raises(GrantNeededError):
        Project.open(root).engine().check(Request("demo:web", {}))


@pytest.mark.parametrize("broken", [False, True])
def test_what_was_not_granted_cannot_be_taken_back_and_nothing_changes(
    root: Path, *, broken: bool
) -> None:
    covalt(root, "grant", "add", "demo", "network", "example.com")
    state = (root / "toolsets/state/demo.yaml").read_bytes()
    if broken:
        (root / "toolsets/demo/toolset.yaml").write_text("id: demo\n", encoding="utf-8")

    for args, said in [
        (("network", "exmaple.com"), "no host 'exmaple.com'"),
        (("secret", "API_KEY"), "no grant 'secret-API_KEY'"),
    ]:
        code, shown = covalt(root, "grant", "revoke", "demo", *args)
        assert code == 1
        assert said in shown
    assert (root / "toolsets/state/demo.yaml").read_bytes() == state
    assert covalt(root, "grant", "revoke", "demo", "network")[0] == 0
    assert not (root / "toolsets/state/demo.yaml").exists()


def test_only_what_was_imported_is_granted_to_run_without_a_sandbox(root: Path) -> None:
    code, said = covalt(root, "grant", "add", "demo", "unsandboxed")
    assert code == 1
    assert "is the project's own" in said

    (root / "toolsets/state").mkdir()
    (root / "toolsets/state/demo.yaml").write_text("enabled: true\nsource_type: local\n")
    opened = Project.open(root)
    with pytest.raises(SandboxNeededError) as refused:
        check_trust("demo", opened.catalog.find_toolset("demo").state, at="process")
    command = refused.value.hint.partition("covalt-git grant")[2].split()

    assert covalt(root, "grant", *command)[0] == 0
    toolset = Project.open(root).catalog.find_toolset("demo")
    check_trust("demo", toolset.state, digest=toolset.digest, at="process")
