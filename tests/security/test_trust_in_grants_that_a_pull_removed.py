"""A user revokes what they have trusted, also if a pull has meanwhile taken it out of the project's files."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.api_client import BEARER, HOME, Api
from tests.examples import rest
from tests.operations_client import Operations
from tests.trusting import use_config

MANIFEST = """\
id: ev
name: Ev
version: "1"
secrets: [KEY]
tools:
  - {id: get, http: {url: "https://a.example/x"}}
  - {id: send, http: {url: "https://a.example/y", method: POST}}
mcp_servers:
  - {id: disk, command: /bin/cat}
"""
STATE = "toolsets/state/ev.yaml"
Cli = Callable[..., tuple[int, str]]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of another user, whose toolset this user has granted two hosts and a program."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    root = tmp_path / "clone"
    (root / "toolsets/ev").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\nroles: {owner: {admin: true}}\n")
    (root / "toolsets/ev/toolset.yaml").write_text(MANIFEST)
    owner(root)("trust_project")
    owner(root)("add_grant", toolset_id="ev", kind="network", hosts=("a.example", "b.example"))
    owner(root)("add_grant", toolset_id="ev", kind="process", name="disk")
    return root


def owner(root: Path) -> Operations:
    return Operations(root, role="owner")


def trusted(root: Path) -> list[str]:
    rows = owner(root)("list_permissions")["permissions"]
    return [row["permits"] for row in rows if row["trusted"] and row["toolset_id"]]


def lost_file(root: Path) -> Callable[[], object]:
    """A pull removes the state file; return the pull that restores it."""
    text = (root / STATE).read_text()
    (root / STATE).unlink()
    return lambda: (root / STATE).write_text(text)


def lost_grants(root: Path) -> Callable[[], object]:
    text = (root / STATE).read_text()
    (root / STATE).write_text("enabled: true\n")
    return lambda: (root / STATE).write_text(text)


def lost_toolset(root: Path) -> Callable[[], object]:
    shutil.move(root / "toolsets", root.parent / "kept")
    (root / "toolsets").mkdir()

    def restore() -> None:
        shutil.rmtree(root / "toolsets")
        shutil.move(root.parent / "kept", root / "toolsets")

    return restore


def broken_file(root: Path) -> Callable[[], object]:
    text = (root / STATE).read_text()
    (root / STATE).write_text("grants: [\n")
    return lambda: (root / STATE).write_text(text)


@pytest.mark.parametrize("pull", [lost_file, lost_grants, lost_toolset])
def test_all_trust_in_the_grants_ends_and_is_named(
    root: Path, cli_in: Cli, pull: Callable[[Path], Callable[[], object]]
) -> None:
    restore = pull(root)

    code, printed = cli_in(root, "grant", "revoke", "ev", "all")
    restore()

    assert code == 0
    assert "revoked from ev: network, process-disk\n" in printed
    for line in (
        "connect to a.example",
        "connect to b.example",
        "run its MCP server disk: /bin/cat",
        "call without",
    ):
        assert f"no longer trusted on this machine: ev may {line}" in printed
    assert trusted(root) == []
    assert cli_in(root, "grant", "revoke", "ev", "all")[0] == 0


@pytest.mark.parametrize("pull", [lost_file, rest(lost_grants), rest(lost_toolset)])
def test_the_trust_in_one_grant_ends(
    root: Path, pull: Callable[[Path], Callable[[], object]]
) -> None:
    restore = pull(root)

    done = owner(root)("revoke_grant", toolset_id="ev", key="network")
    restore()

    assert done["revoked"] == ["network"]
    assert "ev may connect to a.example" in done["withdrawn"]
    assert len(trusted(root)) == 1  # the program


@pytest.mark.parametrize("pull", [rest(lost_file), lost_grants, rest(lost_toolset)])
def test_the_trust_in_one_host_ends(
    root: Path, pull: Callable[[Path], Callable[[], object]]
) -> None:
    restore = pull(root)

    done = owner(root)("revoke_grant", toolset_id="ev", key="network", hosts=["a.example"])
    restore()

    assert done["withdrawn"] == ["ev may connect to a.example"]
    assert "ev may connect to b.example" in trusted(root)
    assert "ev may connect to a.example" not in trusted(root)


def test_the_trust_in_a_host_ends_that_a_pull_took_out_of_a_grant(root: Path) -> None:
    text = (root / STATE).read_text()
    lines = [line for line in text.splitlines(keepends=True) if "a.example" not in line]
    (root / STATE).write_text("".join(lines))

    done = owner(root)("revoke_grant", toolset_id="ev", key="network", hosts=["a.example"])

    assert done["withdrawn"] == ["ev may connect to a.example"]
    assert done["left"] is None or done["left"]["hosts"] == ["b.example"]
    assert "b.example" in (root / STATE).read_text()
    (root / STATE).write_text(text)
    assert "ev may connect to a.example" not in trusted(root)


@pytest.mark.parametrize("request_", [{"all": True}, {"key": "network"}])
def test_the_trust_ends_if_the_state_file_cannot_be_read(
    root: Path, request_: dict[str, object]
) -> None:
    restore = broken_file(root)

    refused = owner(root).error("revoke_grant", toolset_id="ev", **request_)
    restore()

    assert "was not changed" in refused.message
    assert "ev may connect to a.example" not in trusted(root)


def test_what_was_never_trusted_is_unknown(root: Path) -> None:
    lost_file(root)

    for toolset_id, request, code in (
        ("ev", {"key": "secret-KEY"}, "unknown_grant"),
        ("ev", {"key": "network", "hosts": ["a.example", "c.example"]}, "unknown_host"),
        ("no", {"all": True}, "unknown_toolset"),
    ):
        assert owner(root).error("revoke_grant", toolset_id=toolset_id, **request).code == code
    assert owner(root)("revoke_grant", toolset_id="ev", key="network", hosts=["a.example"])


def test_the_page_ends_the_trust_too(root: Path) -> None:
    restore = lost_file(root)
    client = Api.of(root, role="owner").client()
    headers = BEARER | {"Origin": HOME}

    sent = client.post(
        "/toolsets/ev/grants/revoke", data={"key": "network"}, headers=headers, base_url=HOME
    )
    shown = client.get(sent.headers["Location"], headers=headers, base_url=HOME).text
    restore()

    assert "No longer trusted on this machine: ev may " in shown
    assert "ev may connect to a.example" not in trusted(root)


@pytest.mark.parametrize("pull", [rest(lost_file), lost_grants])
def test_a_tool_that_shall_ask_again_loses_the_trust_without_a_grant(
    root: Path, pull: Callable[[Path], Callable[[], object]]
) -> None:
    override = {"tool_id": "ev:send", "requires_confirmation": False}
    owner(root)("override_tool", **override)
    assert "send" in str(trusted(root))
    restore = pull(root)

    owner(root)("override_tool", **override | {"requires_confirmation": True})
    restore()

    assert "send" not in str(trusted(root))
