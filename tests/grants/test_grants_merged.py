"""Decisions of two branches, merged by git: a merge has both decisions, or it is a conflict.

Git merges lines.  Two decisions at the same place of a state file conflict; none is lost silently.
"""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from covalt_git.grants.grants import add_grant, revoke
from covalt_git.installs.importing import import_toolset
from covalt_git.manifests.state_files import read_state
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.toolsets.overrides import override_tool
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.toolsets.toolset import read_toolset
from tests.workspaces.stores import commit_all, git, run_git

MANIFEST = """\
id: demo
name: Demo
version: "1"
secrets: [KEY]
tools:
  - {id: a, http: {url: "https://example.com/"}}
  - {id: b, http: {url: "https://example.com/"}}
  - {id: c, http: {url: "https://example.com/"}}
mcp_servers:
  - {id: demo-server, command: serve}
"""
DECISIONS: dict[str, Callable[[Path], object]] = {
    "switched": lambda root: set_enabled(root, "demo", enabled=True),
    "tool a": lambda root: override_tool(root, "demo:a", {"enabled": False}),
    "tool b": lambda root: override_tool(root, "demo:b", {"name_override": "B"}),
    "network": lambda root: add_grant(root, "demo", "network", hosts=["a.example"], by="x"),
    "process": lambda root: add_grant(root, "demo", "process", "demo-server", by="x"),
    "secret": lambda root: add_grant(root, "demo", "secret", "KEY", ["a.example"], by="x"),
}
SAME_PLACE = {
    ("tool a", "tool b"),
    ("network", "process"),
    ("network", "secret"),
    ("process", "secret"),
}
"""Pairs that conflict because both begin a section; with an entry between them they merge."""


def branch(root: Path, name: str, decide: Callable[[Path], object]) -> str:
    """Make a decision on a new branch of main, and go back; return the branch's name."""
    made = name.replace(" ", "-")
    git(root, "checkout", "-qb", made, "main")
    decide(root)
    commit_all(root)
    git(root, "checkout", "-q", "main")
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project in git with one imported toolset."""
    made = tmp_path / "project"
    (made / "toolsets").mkdir(parents=True)
    (made / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    import_toolset(made, tmp_path / "demo")
    git(made, "init", "-qb", "main")
    commit_all(made)
    return made


def merged(root: Path, *branches: str) -> ToolsetState:
    """Merge branches onto main, and return the resulting state."""
    git(root, "checkout", "-q", "--detach", "main")
    for one in branches:
        git(root, "merge", "-q", "--no-edit", one)
    state = read_state(root / "toolsets/state/demo.yaml", "demo.yaml").value
    assert state is not None
    assert read_toolset(root, "demo").problems == ()
    git(root, "checkout", "-q", "main")
    return state


def test_different_decisions_about_one_toolset_merge_or_are_a_conflict(root: Path) -> None:
    alone = {}
    for name, decide in DECISIONS.items():
        made = branch(root, name, decide)
        alone[name] = merged(root, made)
    conflicts = set()
    for one, other in combinations(DECISIONS, 2):
        branches = [name.replace(" ", "-") for name in (one, other)]
        if run_git(root, "merge-tree", "--write-tree", *branches).returncode:
            conflicts.add((one, other))
            continue
        both = merged(root, *branches)
        assert both.grants == alone[one].grants | alone[other].grants
        assert both.overrides == alone[one].overrides | alone[other].overrides
        assert both.enabled == (alone[one].enabled or alone[other].enabled)
    assert conflicts == SAME_PLACE


def test_a_grant_revoked_on_one_branch_does_not_come_back(root: Path) -> None:
    DECISIONS["network"](root)
    commit_all(root)
    branch(root, "revoked", lambda root: revoke(root, "demo", "network"))
    branch(root, "switched", DECISIONS["switched"])
    branch(root, "secret", DECISIONS["secret"])

    assert merged(root, "revoked", "switched").grants == {}
    assert run_git(root, "merge-tree", "--write-tree", "revoked", "secret").returncode == 1
