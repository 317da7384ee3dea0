"""Enabling and disabling toolsets writes one state file, and no file that a user wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.toolsets.state_store import find_toolset, set_enabled


@pytest.fixture
def root(sample_project: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample_project, tmp_path / "project"))


def state_file(root: Path) -> Path:
    return root / "toolsets" / "state" / "data-lab.yaml"


def write_state(root: Path, text: str) -> None:
    state_file(root).parent.mkdir(exist_ok=True)
    state_file(root).write_text(text, encoding="utf-8")


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_disabling_a_toolset_writes_its_state_file_alone(root: Path) -> None:
    before = contents(root)

    assert set_enabled(root, "data-lab", enabled=False) is True

    toolset = find_toolset(root, "data-lab")
    after = contents(root)
    text = after.pop(state_file(root)).decode()
    assert after == before
    assert text.startswith("# Written by covalt-git: ")
    assert text.endswith("\n\nenabled: false\n")
    assert not toolset.enabled
    assert not any(tool.enabled for tool in toolset.tools)
    assert find_toolset(root, "app-builder").enabled
    assert set_enabled(root, "data-lab", enabled=True) is True
    assert contents(root) == before
    assert find_toolset(root, "data-lab").enabled


@pytest.mark.parametrize("enabled", [True, False])
def test_a_decision_that_holds_already_is_not_written_again(root: Path, *, enabled: bool) -> None:
    set_enabled(root, "data-lab", enabled=enabled)
    before = contents(root)

    assert set_enabled(root, "data-lab", enabled=enabled) is False
    assert contents(root) == before


def test_an_imported_toolset_is_disabled_until_it_is_enabled(root: Path) -> None:
    write_state(root, "source_type: zip\nsource_ref: shop.zip\n")
    assert not find_toolset(root, "data-lab").enabled

    set_enabled(root, "data-lab", enabled=True)

    state = find_toolset(root, "data-lab").state
    assert (state.enabled, state.imported, state.source_ref) == (True, True, "shop.zip")


@pytest.mark.parametrize("enabled", [True, False])
def test_other_decisions_about_the_toolset_stay(root: Path, *, enabled: bool) -> None:
    other = str(not enabled).lower()
    write_state(root, f"enabled: {other}\noverrides: {{plot: {{enabled: false}}}}\n")
    before = find_toolset(root, "data-lab").state

    set_enabled(root, "data-lab", enabled=enabled)

    assert find_toolset(root, "data-lab").state.overrides == before.overrides
    assert find_toolset(root, "data-lab").enabled is enabled


def test_a_state_file_with_errors_is_not_changed(root: Path) -> None:
    write_state(root, "enabeld: true\n")

    with pytest.raises(CovaltError) as caught:
        set_enabled(root, "data-lab", enabled=True)

    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("toolsets/state/data-lab.yaml", 1)
    assert caught.value.hint.endswith("git checkout HEAD -- toolsets/state/data-lab.yaml")
    assert state_file(root).read_text() == "enabeld: true\n"


def test_a_broken_toolset_can_be_disabled(root: Path) -> None:
    (root / "toolsets" / "data-lab" / "toolset.yaml").write_text("id: [\n")

    assert set_enabled(root, "data-lab", enabled=False) is True
    assert not find_toolset(root, "data-lab").enabled


@pytest.mark.parametrize("name", ["data-leb", "state", "../toolsets/data-lab", ""])
def test_an_unknown_toolset_is_an_error_with_the_nearest_name(root: Path, name: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        set_enabled(root, name, enabled=False)

    assert ("did you mean 'data-lab'?" in caught.value.hint) is ("data-l" in name)
    assert not state_file(root).parent.exists()
