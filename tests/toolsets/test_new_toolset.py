"""What ``toolset new`` makes: sound toolsets, whole or not at all, and nothing overwritten."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.errors import CovaltError
from covalt_git.names import BadNameError
from covalt_git.toolsets.new_project import create_project
from covalt_git.toolsets.new_toolset import TEMPLATES, Template, ToolsetExistsError, create_toolset
from covalt_git.toolsets.project_files import read_project
from covalt_git.toolsets.toolset import read_toolset
from tests.examples import examples


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    return tmp_path


def entries(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in (root / "toolsets").rglob("*"))


def add(root: Path, path: str, text: str) -> None:
    file = root / "toolsets" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def name_of(root: Path, toolset_id: str) -> str:
    manifest = read_toolset(root, toolset_id).manifest
    assert manifest is not None
    return manifest.name


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_is_sound_beside_the_samples_and_the_others(
    tmp_path: Path, template: Template
) -> None:
    create_project(tmp_path)
    for other in TEMPLATES:
        create_toolset(tmp_path, f"{other}-tools", template=other)

    made = create_toolset(tmp_path, "a", template=template, name="An A: #1")

    reading = read_project(tmp_path)
    assert reading.problems == ()
    assert name_of(tmp_path, "a") == "An A: #1"
    assert all((tmp_path / path).is_file() for path in made)
    assert b"my-toolset" not in b"".join((tmp_path / path).read_bytes() for path in made)


def test_without_a_name_it_is_called_after_its_id(root: Path) -> None:
    create_toolset(root, "look-things_up", template="http")

    assert name_of(root, "look-things_up") == "Look Things Up"


@given(st.text(min_size=1, max_size=200).filter(str.strip))
@settings(max_examples=examples(60), deadline=None)
def test_any_name_is_kept_as_it_is_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    root = tmp_path_factory.mktemp("named")
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    try:
        create_toolset(root, "notes", template="python", name=name)
    except CovaltError:
        assert entries(root) == []
        return
    assert name_of(root, "notes") == name.strip()


@pytest.mark.parametrize(
    ("toolset_id", "message", "hint"),
    [
        pytest.param(
            "notes",
            "the id 'notes' is taken: there is toolsets/notes",
            "try 'notes-2'",
            id="taken",
        ),
        pytest.param(
            "old_tools",
            "the id 'old_tools' is taken: there is toolsets/old-tools",
            "try 'old_tools-2'",
            id="taken-but-for-the-hyphen",
        ),
        pytest.param(
            "clock",
            "the id 'clock' is taken: toolset 'notes' declares it as a namespace",
            "try 'clock-2'",
            id="namespace",
        ),
        pytest.param(
            "gone",
            "the id 'gone' is taken: there is toolsets/state/gone.yaml",
            "try 'gone-2'",
            id="state-that-was-left",
        ),
        pytest.param(
            "state",
            "'state' cannot be a toolset id: the machine writes that folder",
            "try 'my-state'",
            id="reserved",
        ),
        pytest.param(
            "Notes",
            "'Notes' cannot be a toolset id",
            "try 'notes-2'; ids are lower-case words joined by - or _, at most 64 characters",
            id="nearest-is-taken",
        ),
        pytest.param(
            "../Evil Tools",
            "'../Evil Tools' cannot be a toolset id",
            "try 'evil-tools'; ids are lower-case words joined by - or _, at most 64 characters",
            id="path",
        ),
        pytest.param(
            "7",
            "'7' cannot be a toolset id",
            "ids are lower-case words joined by - or _, at most 64 characters",
            id="nothing-left-of-it",
        ),
    ],
)
def test_an_id_that_is_taken_or_none_is_refused_with_the_nearest_free_one(
    root: Path, toolset_id: str, message: str, hint: str
) -> None:
    servers = "mcp_servers: [{id: clock, command: clock}]\n"
    add(root, "notes/toolset.yaml", f'id: notes\nname: Notes\nversion: "1"\n{servers}')
    add(root, "old-tools/keep.txt", "mine")
    add(root, "state/gone.yaml", "enabled: false\n")
    before = entries(root)

    with pytest.raises((BadNameError, ToolsetExistsError)) as refused:
        create_toolset(root, toolset_id, template="python")

    assert (refused.value.message, refused.value.hint) == (message, hint)
    assert entries(root) == before


def make(root: Path, template: Template, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    try:
        create_toolset(root, "raced", template=template)
    except ToolsetExistsError:
        return


def test_of_two_who_make_the_same_one_wins_and_its_toolset_is_whole(root: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(TEMPLATES))
    racers = [context.Process(target=make, args=(root, one, barrier)) for one in TEMPLATES]
    for one in racers:
        one.start()
    for one in racers:
        one.join(60)

    assert [one.exitcode for one in racers] == [0] * len(TEMPLATES)
    reading = read_project(root)
    assert [one.id for one in reading.toolsets] == ["raced"]
    assert reading.problems == ()
    assert not [path for path in entries(root) if ".new" in path]
