"""New toolsets are valid and complete, and creating one overwrites nothing."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.errors import CovaltError
from covalt_git.names import BadNameError
from covalt_git.toolsets.new_project import create_project
from covalt_git.toolsets.new_toolset import (
    TEMPLATES,
    Template,
    ToolsetExistsError,
    create_toolset,
)
from covalt_git.toolsets.project_files import read_project
from covalt_git.toolsets.toolset import read_toolset
from tests.examples import examples
from tests.toolsets.projects import put
from tests.unicode_texts import TEXTS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    return tmp_path


def entries(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in (root / "toolsets").rglob("*"))


def name_of(root: Path, toolset_id: str) -> str:
    manifest = read_toolset(root, toolset_id).manifest
    assert manifest is not None
    return manifest.name


def test_every_template_is_valid_next_to_the_samples_and_the_others(tmp_path: Path) -> None:
    create_project(tmp_path)
    made = {
        one: create_toolset(tmp_path, f"{one}-tools", template=one, name=f"The {one}: #1")
        for one in TEMPLATES
    }

    assert read_project(tmp_path).problems == ()
    for template, paths in made.items():
        assert name_of(tmp_path, f"{template}-tools") == f"The {template}: #1"
        assert b"my-toolset" not in b"".join((tmp_path / path).read_bytes() for path in paths)


@given((TEXTS | st.text(min_size=1, max_size=200)).filter(str.strip), st.sampled_from(TEMPLATES))
@settings(max_examples=examples(100))
def test_a_name_is_stored_as_given_and_valid_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, template: Template
) -> None:
    root = tmp_path_factory.mktemp("named")
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    try:
        create_toolset(root, "notes", template=template, name=name)
    except CovaltError:
        assert entries(root) == []
        return
    assert name_of(root, "notes") == name.strip()
    assert [one for one in read_project(root).problems if one.severity == "error"] == []


@pytest.mark.parametrize(
    ("toolset_id", "error", "suggested"),
    [
        ("notes", ToolsetExistsError, "notes-2"),
        ("old_tools", ToolsetExistsError, "old_tools-2"),  # but for the hyphen
        ("clock", ToolsetExistsError, "clock-2"),  # a namespace of another toolset
        ("gone", ToolsetExistsError, "gone-2"),  # a state file without a toolset
        ("state", BadNameError, "my-state"),
        ("Notes", BadNameError, "notes-2"),
        ("../Evil Tools", BadNameError, "evil-tools"),
        ("7", BadNameError, ""),
    ],
)
def test_an_id_that_is_taken_or_invalid_is_refused_with_an_available_one(
    root: Path, toolset_id: str, error: type[CovaltError], suggested: str
) -> None:
    servers = "mcp_servers: [{id: clock, command: clock}]\n"
    put(root, "notes/toolset.yaml", f'id: notes\nname: Notes\nversion: "1"\n{servers}')
    put(root, "old-tools/keep.txt", "mine")
    put(root, "state/gone.yaml", "enabled: false\n")
    before = entries(root)

    with pytest.raises(error) as refused:
        create_toolset(root, toolset_id, template="python")

    assert refused.value.hint.startswith(f"try {suggested!r}" if suggested else "ids are ")
    assert entries(root) == before
