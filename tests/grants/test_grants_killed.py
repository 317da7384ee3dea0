"""A process killed at any step of a decision leaves the old state or the new one, never a part."""

from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.grants.grants import add_grant, revoke_all
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.toolsets.overrides import override_tool
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.toolsets.toolset import read_toolset
from tests.examples import EVERY, named
from tests.grants.test_grants_merged import MANIFEST
from tests.killing import kills

DECISIONS: dict[str, Callable[[Path], object]] = {
    "toolset enable": lambda root: set_enabled(root, "demo", enabled=True),
    "tool override": lambda root: override_tool(root, "demo:a", {"name_override": "A" * 150}),
    "grant add": lambda root: add_grant(root, "demo", "network", hosts=["a.example"], by="x"),
    "grant revoke": lambda root: revoke_all(root, "demo"),
}


def decided(root: Path) -> ToolsetState:
    """Return the state of the toolset, without the times of grants."""
    toolset = read_toolset(root, "demo")
    assert toolset.problems == ()
    grants = {
        key: grant.model_copy(update={"granted_at": "2026-11-20T17:24:00Z"})
        for key, grant in toolset.state.grants.items()
    }
    return toolset.state.model_copy(update={"grants": grants})


@pytest.mark.kills
@pytest.mark.parametrize("name", named(DECISIONS, "toolset enable", "grant add"))
def test_a_killed_decision_is_made_or_not(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "toolsets/demo"
    folder.mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    add_grant(tmp_path, "demo", "process", "demo-server", by="x")
    set_enabled(tmp_path, "demo", enabled=False)
    file = tmp_path / "toolsets/state/demo.yaml"
    content, old = file.read_bytes(), decided(tmp_path)
    DECISIONS[name](tmp_path)
    new = decided(tmp_path)
    assert new != old
    seen = []
    for _ in kills(lambda: DECISIONS[name](tmp_path), lambda: file.write_bytes(content)):
        seen.append(decided(tmp_path))
        assert seen[-1] in (old, new)
    set_enabled(tmp_path, "demo", enabled=True)  # removes what was half written
    assert {left.name for left in file.parent.iterdir()} <= {"demo.yaml"}
    assert (seen[0], seen[-1]) == (old, new)
    assert len(seen) * EVERY > 5
