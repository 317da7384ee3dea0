"""Switching toolsets on and off: one state file is written, and nothing a person wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.toolsets.new_project import create_project
from covalt_git.toolsets.state_store import find_toolset, set_enabled

if TYPE_CHECKING:
    from pathlib import Path

IMPORTED = "source_type: zip\nsource_ref: shop.zip\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    create_project(tmp_path / "project")
    return tmp_path / "project"


def state_file(root: Path) -> Path:
    return root / "toolsets" / "state" / "data-lab.yaml"


def write_state(root: Path, text: str) -> None:
    state_file(root).parent.mkdir(exist_ok=True)
    state_file(root).write_text(text, encoding="utf-8")


def checked_in(root: Path) -> dict[str, bytes]:
    """Return everything of the project but what the machine itself writes."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.parts and "state" not in path.parts
    }


def test_switching_writes_the_state_file_alone(root: Path) -> None:
    before = checked_in(root)

    assert set_enabled(root, "data-lab", enabled=False) is True

    assert checked_in(root) == before
    assert [path.name for path in state_file(root).parent.iterdir()] == ["data-lab.yaml"]
    assert state_file(root).read_text() == (
        "# Written by covalt-git: what this project decided about the toolset. Check it in.\n"
        "# Change it with covalt-git toolset, tool and grant rather than by hand.\n"
        "\n"
        "enabled: false\n"
    )


def test_toolset_that_is_off_is_read_so(root: Path) -> None:
    set_enabled(root, "data-lab", enabled=False)

    toolset = find_toolset(root, "data-lab")

    assert not toolset.enabled
    assert not any(tool.enabled for tool in toolset.tools)
    assert find_toolset(root, "app-builder").enabled


def test_own_toolset_switched_on_again_is_as_if_nothing_was_ever_said(root: Path) -> None:
    set_enabled(root, "data-lab", enabled=False)

    assert set_enabled(root, "data-lab", enabled=True) is True
    assert not state_file(root).exists()
    assert find_toolset(root, "data-lab").enabled


@pytest.mark.parametrize("enabled", [True, False])
def test_what_is_so_already_is_not_written_again(root: Path, *, enabled: bool) -> None:
    set_enabled(root, "data-lab", enabled=enabled)
    before = state_file(root).read_bytes() if state_file(root).exists() else None

    assert set_enabled(root, "data-lab", enabled=enabled) is False
    assert (state_file(root).read_bytes() if state_file(root).exists() else None) == before


def test_imported_toolset_is_off_until_somebody_says_so(root: Path) -> None:
    write_state(root, IMPORTED)
    assert not find_toolset(root, "data-lab").enabled

    set_enabled(root, "data-lab", enabled=True)

    state = find_toolset(root, "data-lab").state
    assert (state.enabled, state.imported, state.source_ref) == (True, True, "shop.zip")


@pytest.mark.parametrize("enabled", [True, False])
def test_other_decisions_about_the_toolset_stay(root: Path, *, enabled: bool) -> None:
    write_state(
        root, f"enabled: {str(not enabled).lower()}\noverrides: {{plot: {{enabled: false}}}}\n"
    )
    before = find_toolset(root, "data-lab").state

    set_enabled(root, "data-lab", enabled=enabled)

    after = find_toolset(root, "data-lab").state
    assert after.overrides == before.overrides
    assert find_toolset(root, "data-lab").enabled is enabled


def test_state_file_with_errors_is_left_as_it_is(root: Path) -> None:
    write_state(root, "enabeld: true\n")

    with pytest.raises(CovaltError) as caught:
        set_enabled(root, "data-lab", enabled=True)

    (problem,) = caught.value.problems
    shown = "toolsets/state/data-lab.yaml"
    assert caught.value.message == f"{shown} has errors, and is left as it is"
    assert caught.value.hint == f"mend it, or bring it back: git checkout HEAD -- {shown}"
    assert (problem.path, problem.line) == ("toolsets/state/data-lab.yaml", 1)
    assert state_file(root).read_text() == "enabeld: true\n"


def test_broken_toolset_can_be_switched_off(root: Path) -> None:
    (root / "toolsets" / "data-lab" / "toolset.yaml").write_text("id: [\n")

    assert set_enabled(root, "data-lab", enabled=False) is True
    assert not find_toolset(root, "data-lab").enabled


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("data-leb", "did you mean 'data-lab'? ", id="a-typo"),
        pytest.param("state", "", id="a-reserved-name"),
        pytest.param("../toolsets/data-lab", "", id="a-path"),
        pytest.param("", "", id="empty"),
    ],
)
def test_unknown_toolset_is_told_with_the_nearest(root: Path, name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        set_enabled(root, name, enabled=False)

    assert caught.value.message == f"no toolset {name!r}"
    assert caught.value.hint.startswith(hint)
    assert caught.value.hint.endswith("list them with `covalt-git toolset list`")
    assert not state_file(root).parent.exists()
