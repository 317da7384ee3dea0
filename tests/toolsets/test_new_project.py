"""New projects are valid and readable, and creating one overwrites nothing."""

import re
import shutil
from pathlib import Path

import pytest

from covalt_git.errors import CovaltError
from covalt_git.manifests.fixes import fix_text
from covalt_git.toolsets.new_project import (
    SAMPLES,
    create_project,
)
from covalt_git.toolsets.project_files import read_project


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git/" not in f"{path.relative_to(folder).as_posix()}/"
    }


def test_a_new_project_is_valid(tmp_path: Path) -> None:
    create_project(tmp_path / "demo")

    reading = read_project(tmp_path / "demo")
    assert reading.problems == ()
    assert [one.id for one in reading.toolsets] == list(SAMPLES)
    assert all(one.enabled for one in reading.toolsets)
    # `validate --fix` must not rewrite a file that `init` has just written.
    text = (tmp_path / "demo/covalt.yaml").read_text(encoding="utf-8")
    assert fix_text(text, "covalt.yaml") == (text, ())


def test_the_settings_in_comments_are_valid_too(tmp_path: Path) -> None:
    create_project(tmp_path)
    file = tmp_path / "covalt.yaml"
    text = file.read_text(encoding="utf-8")

    file.write_text(re.sub(r"(?m)^# (?=default_role:|roles:|  )", "", text), encoding="utf-8")

    reading = read_project(tmp_path)
    assert reading.problems == ()
    assert reading.config is not None
    assert reading.config.default_role == "developer"
    assert set(reading.config.roles) == {"developer", "owner"}


def test_existing_files_stay(tmp_path: Path) -> None:
    mine = {".gitignore": "mine\n", "toolsets/app-builder/notes.txt": "mine\n", "README.md": "me\n"}
    for path, text in mine.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    create_project(tmp_path)

    assert {path: (tmp_path / path).read_text() for path in mine} == mine
    assert not (tmp_path / "toolsets" / "app-builder" / "toolset.yaml").exists()


@pytest.mark.parametrize(
    "place",
    ["toolsets", "toolsets/new/deep", "data", "data/chats/c1", ".covalt/x", "x/../toolsets/a"],
)
def test_a_project_is_not_created_in_a_folder_that_commands_write_to(
    tmp_path: Path, place: str
) -> None:
    create_project(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "toolsets")

    for folder in (tmp_path / place, tmp_path / "link" / "new"):
        with pytest.raises(CovaltError) as refused:
            create_project(folder)

        assert refused.value.code == "invalid_folder"
        assert not (folder / "covalt.yaml").exists()
        assert not (tmp_path / "toolsets/new").exists()


@pytest.mark.parametrize(
    ("place", "name"),
    [
        *(("toolsets/notes", "notes"), ("toolsets", "NAME"), ("toolsets/.covalt/x", "NAME")),
        *(("toolsets/.covalt", "NAME"), ("toolsets/state", "NAME"), ("toolsets/Notes", "NAME")),
        *(("toolsets/app-builder", "NAME"), ("toolsets/app-builder/tools", "NAME")),
    ],
)
def test_the_hint_of_a_refused_folder_names_a_toolset_that_can_be_created(
    tmp_path: Path, place: str, name: str
) -> None:
    create_project(tmp_path)

    with pytest.raises(CovaltError) as refused:
        create_project(tmp_path / place)

    assert refused.value.hint.startswith(f"covalt-git toolset new {name}, ")


def test_a_project_can_be_in_another_folder_of_a_project(tmp_path: Path) -> None:
    create_project(tmp_path)

    assert "covalt.yaml" in create_project(tmp_path / "examples" / "toolsets")


def test_a_half_made_project_is_completed(tmp_path: Path) -> None:
    """As after a kill: covalt.yaml is written last."""
    create_project(tmp_path)
    whole = contents(tmp_path)
    (tmp_path / "covalt.yaml").unlink()
    (tmp_path / ".gitignore").unlink()
    shutil.rmtree(tmp_path / "toolsets" / "data-lab")

    create_project(tmp_path)

    assert contents(tmp_path) == whole
