"""Folders of scripts: which of them an import offers, and why it does not offer the others."""

from pathlib import Path

import pytest

from covalt_git.runtime.script_folders import NamedFile, hidden_files
from covalt_git.toolsets.toolset import read_toolset


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


def files_of(tmp_path: Path, *args: str | Path, command: str = "python3") -> list[NamedFile]:
    folder = tmp_path / "project/toolsets/mcp"
    folder.mkdir(parents=True)
    names = ", ".join(f"'{arg}'" for arg in args)
    (folder / "toolset.yaml").write_text(
        'id: mcp\nname: M\nversion: "1"\nmcp_servers:\n'
        f"  - {{id: weather, command: {command}, args: [{names}]}}\n"
    )
    toolset = read_toolset(tmp_path / "project", "mcp")
    assert toolset.manifest is not None
    return [*hidden_files(toolset, toolset.manifest.mcp_servers[0])]


def script(folder: Path, name: str = "weather.py") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.touch()
    return file


def test_the_folder_of_each_file_that_a_command_names_is_offered(
    tmp_path: Path, home: Path
) -> None:
    file, data = script(home / "tools"), home / "data"
    data.mkdir()
    assert files_of(tmp_path, file, "--fast", home / "missing.py", data) == [
        NamedFile(file, file.parent, ""),
        NamedFile(data, data, ""),
    ]


def test_nothing_is_offered_for_a_command_without_a_program(tmp_path: Path, home: Path) -> None:
    assert files_of(tmp_path, script(home / "tools"), command="no-such-program") == []


def test_nothing_is_offered_for_a_script_in_the_project(tmp_path: Path) -> None:
    assert files_of(tmp_path, script(tmp_path / "project/scripts")) == []


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("home", "a grant is for a whole folder"),
        ("home/.ssh", "keys of SSH"),
        ("home/tools:rw", "ends with :rw"),
        ("home/link", "write that path in its command"),
        ("home/tools/../tools", "write that path in its command"),
    ],
)
def test_a_folder_that_has_more_or_can_become_another_one_is_not_offered(
    tmp_path: Path, home: Path, place: str, why: str
) -> None:
    script(home / "tools")
    (home / "link").symlink_to(home / "tools")
    (file,) = files_of(tmp_path, script(tmp_path / place))
    assert why in file.refusal


def test_the_root_folder_is_not_offered(tmp_path: Path) -> None:
    (file,) = files_of(tmp_path, "/")
    assert "a grant is for a whole folder" in file.refusal


def test_a_script_that_is_a_link_out_of_its_folder_is_not_offered(
    tmp_path: Path, home: Path
) -> None:
    link = home / "bin/weather.py"
    link.parent.mkdir()
    link.symlink_to(script(home / "tools"))
    (file,) = files_of(tmp_path, link)
    assert str(home / "tools/weather.py") in file.refusal
