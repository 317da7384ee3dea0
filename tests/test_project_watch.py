"""Watching a project: the results of scans, and that every change causes one."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.project_watch import Changes, WatchedProject
from covalt_git.toolsets.project_files import read_project
from tests.examples import examples

SOUND = 'id: {0}\nname: Some\nversion: "1"\n'
BROKEN = "id: {0}\n"


def write(root: Path, toolset_id: str, text: str) -> Path:
    file = root / "toolsets" / toolset_id / "toolset.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text.format(toolset_id), encoding="utf-8")
    return file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    write(tmp_path, "one", SOUND)
    write(tmp_path, "two", SOUND)
    return tmp_path


@pytest.fixture
def changes(root: Path) -> Iterator[Changes]:
    made = Changes(root)
    assert made.why_polling == ""
    yield made
    made.close()


def test_scan_reports_what_changed_since_the_last(root: Path) -> None:
    followed = WatchedProject(root)
    first = followed.last

    assert followed.scan() is None
    write(root, "two", BROKEN)
    broken = followed.scan()
    assert followed.scan() is None
    write(root, "two", SOUND)
    shutil.rmtree(root / "toolsets/one")
    fixed = followed.scan()

    assert first.broken == {}
    assert broken is not None
    assert (broken.changed, broken.fixed) == (("two",), ())
    assert broken.broken["two"].path == "toolsets/two/toolset.yaml"
    assert fixed is not None
    assert (fixed.changed, fixed.fixed, fixed.broken) == (("one", "two"), ("two",), {})
    assert len({first.version, broken.version, fixed.version}) == 3
    assert followed.last is fixed


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["one", "two", "three"]),
        st.sampled_from([SOUND, BROKEN, SOUND + "mcp_servers: [{{id: two, command: x}}]\n", None]),
    ),
    max_size=8,
)


@given(STEPS)
@settings(max_examples=examples(40))
def test_watched_project_equals_a_project_read_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str | None]]
) -> None:
    root = tmp_path_factory.mktemp("project")
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    followed = WatchedProject(root)
    for toolset_id, text in steps:
        if text is None:
            shutil.rmtree(root / "toolsets" / toolset_id, ignore_errors=True)
        else:
            write(root, toolset_id, text)
        followed.scan()

        assert followed.last.reading == read_project(root)


def save_by_renaming(one: Path) -> None:
    (one / ".toolset.yaml.swp").write_text(BROKEN, encoding="utf-8")
    (one / ".toolset.yaml.swp").rename(one / "toolset.yaml")


def write_state(one: Path) -> None:
    (one.parent / "state").mkdir()
    (one.parent / "state/one.yaml").write_text("enabled: false\n", encoding="utf-8")


CHANGES: dict[str, Callable[[Path], object]] = {
    "new-file": lambda one: (one / "more.py").touch(),
    "new-deep-folder": lambda one: (one / "a/b/c").mkdir(parents=True),
    "saved-by-renaming": save_by_renaming,
    "removed": shutil.rmtree,
    "moved-away": lambda one: one.rename(one.parents[1] / "elsewhere"),
    "other-mode": lambda one: (one / "toolset.yaml").chmod(0o755),
    "configuration": lambda one: (one.parents[1] / "covalt.yaml").write_text("version: 2\n"),
    "state": write_state,
}
"""Changes of a project, given the folder of its toolset ``one``."""


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_kind_of_change_ends_the_wait(
    root: Path, changes: Changes, change: Callable[[Path], object]
) -> None:
    change(root / "toolsets/one")

    assert changes.wait() is True


def test_new_folder_is_watched_with_all_below_it(root: Path, changes: Changes) -> None:
    write(root, "three", SOUND)
    (root / "toolsets/three/deep/er").mkdir(parents=True)
    assert changes.wait() is True

    (root / "toolsets/three/deep/er/x.txt").write_text("x", encoding="utf-8")

    assert changes.wait() is True
