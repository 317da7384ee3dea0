"""What a user revokes ends in each form that they have trusted, so that a pull of an earlier form needs trust again."""

from pathlib import Path

import pytest

from covalt_git.credentials.command import SecretCommand
from covalt_git.manifests.project_config import read_config
from covalt_git.system.private_files import user_folder
from covalt_git.toolsets.permissions import permissions_of
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust import Consents
from tests.operations_client import Operations
from tests.trusting import use_config

SERVER = """\
manifest_version: "1"
id: ev
name: Ev
version: "1.0.0"
description: d
tools:
  - {{id: get, http: {{url: "https://a.example/x"}}}}
mcp_servers:
  - {{id: disk, command: /bin/echo, args: [{0}]}}
"""
ENTRY = {
    "tool_id": "al",
    "name": "Al",
    "description": "d",
    "protocols": ["http"],
    "protocol_meta": {"http": {"url": "https://a.example/1", "method": "GET"}},
}


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user who trusts nothing yet."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    (root / "toolsets/ev").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\n")
    (root / "toolsets/ev/toolset.yaml").write_text(SERVER.format("v1"))
    return root


def lacking(root: Path, toolset_id: str = "ev") -> list[str]:
    permissions = permissions_of(read_toolset(root, toolset_id), read_config(root))
    return [permission.text for permission in Consents.of(root).lacking(permissions)]


def files(root: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in (root / "toolsets").rglob("*") if file.is_file()}


def pull(root: Path, versions: dict[Path, bytes]) -> None:
    for file in (root / "toolsets").rglob("*"):
        if file.is_file():
            file.unlink()
    for file, content in versions.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def pulled_version(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Change the server and its grant as another user does, whose consents are elsewhere."""
    (root / "toolsets/ev/toolset.yaml").write_text(SERVER.format("v2"))
    with monkeypatch.context() as patch:
        use_config(patch, tmp_path / "author-config", trusts=True)
        Operations(root)("add_grant", toolset_id="ev", kind="process", name="disk")


def revoke_all(operate: Operations) -> None:
    operate("revoke_grant", toolset_id="ev", all=True)


def revoke_one(operate: Operations) -> None:
    operate("add_grant", toolset_id="ev", kind="network", hosts=("a.example",))
    operate("revoke_grant", toolset_id="ev", key="process-disk")


def uninstall(operate: Operations) -> None:
    operate("uninstall_toolset", toolset_id="ev", force=True)


@pytest.mark.parametrize("end", [revoke_all, revoke_one, uninstall])
def test_a_grant_that_the_user_ended_is_not_trusted_in_an_earlier_form(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: object
) -> None:
    operate = Operations(root)
    operate("add_grant", toolset_id="ev", kind="process", name="disk")
    assert lacking(root) == []
    first = files(root)
    pulled_version(root, monkeypatch, tmp_path)
    assert any("v2" in text for text in lacking(root))

    assert callable(end)
    end(operate)
    pull(root, first)

    assert any("disk: /bin/echo v1" in text for text in lacking(root))


def test_a_program_that_its_user_moved_into_the_sandbox_is_not_trusted_without_one(
    root: Path,
) -> None:
    operate = Operations(root)
    operate("add_grant", toolset_id="ev", kind="unsandboxed", name="disk")
    first = files(root)
    operate("add_grant", toolset_id="ev", kind="server", name="disk", hosts=("a.example",))
    assert lacking(root) == []

    pull(root, first)

    assert lacking(root) == ["ev may run its MCP server disk: /bin/echo v1 without a sandbox"]


def test_a_grant_of_an_earlier_version_keeps_its_trust_and_its_meaning(root: Path) -> None:
    operate = Operations(root)
    operate("add_grant", toolset_id="ev", kind="process", name="disk")
    state = root / "toolsets/state/ev.yaml"
    assert "sandbox: none" in state.read_text()
    permission, *_ = permissions_of(read_toolset(root, "ev"), read_config(root))
    state.write_text(state.read_text().replace("    sandbox: none\n", ""))

    # No fact has a field that earlier versions did not have, so the digest that their users trusted is the same.
    earlier, *_ = permissions_of(read_toolset(root, "ev"), read_config(root))
    names = {"toolset", "grant", "kind", "server", "argv", "cwd", "env", "files", "digest"}
    assert earlier.fact.keys() == names
    assert earlier == permission
    assert lacking(root) == []
    (problem,) = operate("validate")["problems"]
    assert problem["code"] == "CG406"
    assert "grant add ev server disk" in problem["hint"]
    assert "grant add ev unsandboxed disk" in problem["hint"]

    operate("add_grant", toolset_id="ev", kind="unsandboxed", name="disk")
    assert operate("validate")["problems"] == []


def test_a_consent_for_another_grant_of_the_toolset_remains(root: Path) -> None:
    operate = Operations(root)
    operate("add_grant", toolset_id="ev", kind="process", name="disk")
    operate("add_grant", toolset_id="ev", kind="network", hosts=("a.example", "b.example"))
    operate("revoke_grant", toolset_id="ev", key="process-disk")

    assert lacking(root) == []


def test_a_removed_entry_is_not_trusted_in_an_earlier_form(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operate = Operations(root)
    operate("register_tool", entry=ENTRY)
    operate("add_grant", toolset_id="registered", kind="tool", name="al")
    first = files(root)
    assert lacking(root, "registered") == []
    entry = next((root / "toolsets").rglob("*registered/*"))
    entry.write_text(entry.read_text().replace("a.example/1", "a.example/2"))
    with monkeypatch.context() as patch:
        use_config(patch, tmp_path / "author-config", trusts=True)
        operate("revoke_grant", toolset_id="registered", all=True)
        operate("add_grant", toolset_id="registered", kind="tool", name="al")
    assert lacking(root, "registered") != []

    operate("remove_registered_tool", tool_id="al")
    pull(root, first)

    assert len(lacking(root, "registered")) == 2  # the grant, and the calls without approval


def test_a_forbidden_command_is_not_allowed_in_an_earlier_form(root: Path) -> None:
    first = SecretCommand.of(root, ["/bin/echo", "A-{name}"])
    second = SecretCommand.of(root, ["/bin/echo", "B-{name}"])
    elsewhere = SecretCommand.of(root.parent, ["/bin/echo", "A-{name}"])
    assert first is not None
    assert second is not None
    assert elsewhere is not None
    first.allow()
    elsewhere.allow()

    assert second.forbid()

    assert not first.is_allowed
    assert elsewhere.is_allowed
    assert not second.forbid()
    assert len(list((user_folder() / "allowed-commands").glob("*.json"))) == 1
