"""Opening a project: found from anywhere inside, refused with words where it cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from covalt_git.calls.engine import Request
from covalt_git.manifests.project_config import BrokenConfigError
from covalt_git.manifests.project_root import NotAProjectError
from covalt_git.project import Project
from covalt_git.toolsets.new_project import create_project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("start", [".", "toolsets", "toolsets/app-builder/tools", "not/there/yet"])
def test_project_is_found_from_anywhere_inside_it(root: Path, start: str) -> None:
    assert Project.open(root / start).root == root


def test_nearest_project_above_is_opened(root: Path) -> None:
    inner = root / "inner"
    create_project(inner)

    assert Project.open(inner / "toolsets").root == inner


def test_folder_without_a_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAProjectError) as caught:
        Project.open(tmp_path)

    assert caught.value.message == f"there is no covalt.yaml in {str(tmp_path)!r} or above it"
    assert caught.value.hint == "covalt-git init demo && cd demo"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("version: 2\n", id="another-version"),
        pytest.param("version: 1\nroels: {}\n", id="unknown-key"),
        pytest.param("version: 1\ndefault_role: nobody\n", id="role-that-is-not-there"),
        pytest.param("", id="empty"),
        pytest.param("version: [\n", id="not-yaml"),
    ],
)
def test_broken_configuration_is_refused(root: Path, text: str) -> None:
    (root / "covalt.yaml").write_text(text)

    with pytest.raises(BrokenConfigError) as caught:
        Project.open(root)

    assert caught.value.problems
    assert {problem.path for problem in caught.value.problems} == {"covalt.yaml"}


def test_opening_writes_nothing(root: Path) -> None:
    project = Project.open(root)

    assert project.chats.ids() == []
    assert project.catalog.find("app-builder:write_file").tool.enabled
    assert not (root / "data").exists()


def test_parts_belong_to_one_project_and_one_principal(root: Path) -> None:
    (root / "covalt.yaml").write_text("version: 1\nroles: {dev: {allow: ['**']}}\n")
    project = Project.open(root, role="dev")

    assert (project.principal.id, project.principal.role) == ("local", "dev")
    assert project.engine().principal == project.catalog.principal == project.principal
    assert project.approvals().engine == project.engine()
    assert project.chats.folder == root / "data" / "chats"
    assert project.chats.config == project.config.workspace


def test_changed_configuration_takes_effect_at_the_next_opening(root: Path) -> None:
    before = Project.open(root)
    (root / "covalt.yaml").write_text("version: 1\nroles: {dev: {}}\n")
    after = Project.open(root, role="dev")
    tools = [before.catalog.find("app-builder:write_file").tool]

    assert before.catalog.visible(tools) == tools
    assert after.catalog.visible(tools) == []


def test_index_is_in_data_and_can_be_rebuilt(root: Path) -> None:
    project = Project.open(root)
    with project.chats.new("c1") as chat:
        project.engine().call(chat, Request("app-builder:list_files", {}))
    with project.index() as index:
        index.sync()
        before = index.counts()

    (root / "data" / "index.db").unlink()
    with project.index() as index:
        index.sync()
        after = index.counts()

    assert after == before
    assert after["tool_calls"] == 1
