"""The grant of an MCP server that a toolset no longer has: it permits nothing, stops nothing, and does not come back."""

from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.toolsets.permissions import check_servers_trusted
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.trust import NotTrustedError
from tests.operations_client import Operations
from tests.trusting import use_config

MANIFEST = """\
id: ev
name: Ev
version: "1"
mcp_servers:
  - {id: disk, command: /bin/cat}
  - {id: clock, command: /bin/date}
"""
RENAMED = MANIFEST.replace("id: disk", "id: disc")
FILE = "toolsets/ev/toolset.yaml"
Cli = Callable[..., tuple[int, str]]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of another user, in which this user has granted two programs."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    root = tmp_path / "clone"
    (root / "toolsets/ev").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\nroles: {owner: {admin: true}}\n")
    (root / FILE).write_text(MANIFEST)
    Operations(root, "owner")("trust_project")
    for name in ("disk", "clock"):
        Operations(root, "owner")("add_grant", toolset_id="ev", kind="process", name=name)
    return root


def use_servers(root: Path) -> None:
    check_servers_trusted(find_toolset(root, "ev"))


def edit(root: Path, content: str, *, dry_run: bool = False) -> dict[str, object]:
    operate = Operations(root, "owner")
    base = operate("get_toolset_file", toolset_id="ev", path="toolset.yaml")["base"]
    request = {"toolset_id": "ev", "path": "toolset.yaml", "content": content, "base": base}
    answer: dict[str, object] = operate("update_toolset_file", **request, dry_run=dry_run)
    return answer


def pull(root: Path, content: str, *, dry_run: bool = False) -> None:
    assert not dry_run
    (root / FILE).write_text(content)


def test_the_other_servers_of_the_toolset_work_and_the_review_says_what_becomes_of_the_grant(
    root: Path, cli_in: Cli
) -> None:
    shown = edit(root, RENAMED, dry_run=True)
    assert shown["left_over"] == ["disk"]
    edit(root, RENAMED)

    use_servers(root)
    detail = Operations(root, "owner")("get_toolset", toolset_id="ev")
    assert detail["not_trusted"] == []
    assert [grant["server"] for grant in detail["left_over"]] == ["disk"]
    assert detail["ended"]["process-disk"] == ["the MCP server 'disk' no longer exists"]
    assert [lack["server"] for lack in detail["lacking"]] == ["disc"]
    _, printed = cli_in(root, "grant", "list", "ev")
    assert "not trusted" not in printed
    assert "covalt-git grant revoke ev unsandboxed disk" in printed


@pytest.mark.parametrize("change", [edit, pull])
def test_a_server_that_comes_back_needs_its_grant_again(
    root: Path, change: Callable[[Path, str], object]
) -> None:
    change(root, RENAMED)
    use_servers(root)  # without the server, as the user has seen it
    pull(root, MANIFEST)

    with pytest.raises(NotTrustedError):
        use_servers(root)
    Operations(root, "owner")("add_grant", toolset_id="ev", kind="process", name="disk")
    use_servers(root)


def test_another_untrusted_grant_still_stops_the_toolset(root: Path) -> None:
    state = root / "toolsets/state/ev.yaml"
    pull(root, RENAMED)
    state.write_text(state.read_text().replace("process-clock", "process-disc"))
    text = state.read_text().replace("server: clock", "server: disc")
    state.write_text(text)
    with pytest.raises(NotTrustedError):
        use_servers(root)


def test_a_manifest_that_cannot_be_read_ends_no_trust(root: Path) -> None:
    pull(root, "id: [\n")
    with pytest.raises(NotTrustedError):
        use_servers(root)
    pull(root, MANIFEST)
    use_servers(root)
