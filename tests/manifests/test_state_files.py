"""The files that the machine writes: stable, sorted, whole, and fit to be merged by git."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.manifests.state_files import HEADER, read_state, write_state
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.toolsets.state_store import set_enabled
from tests.examples import examples
from tests.tables import tables

FULL: dict[str, Any] = dict(
    tables(str(Path(__file__).parents[1] / "models/test_models_of_files.py"))["state"]
)


def state(**facts: Any) -> ToolsetState:
    return ToolsetState.model_validate(facts)


def test_no_file_is_the_default_state(tmp_path: Path) -> None:
    reading = read_state(tmp_path / "hello.yaml", "hello.yaml")

    assert reading.value == ToolsetState()
    assert reading.problems == ()


def test_full_state_is_written_sorted_one_fact_a_line_and_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "state" / "shop.yaml"

    write_state(file, state(**FULL))

    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[:2] == [f"# {line}" for line in HEADER.splitlines()]
    keys = [line.partition(":")[0] for line in lines[2:] if line and line[0] != " "]
    assert keys == sorted(FULL)
    assert not any("{" in line or "[" in line for line in lines)
    assert read_state(file, "shop.yaml").value == state(**FULL)


def test_default_state_removes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    write_state(file, state(enabled=False))
    assert file.exists()

    write_state(file, ToolsetState())
    write_state(file, ToolsetState())

    assert not file.exists()


overrides = st.fixed_dictionaries(
    {},
    optional={
        "name_override": st.text(min_size=1, max_size=20),
        "description_override": st.text(max_size=40),
        "renderer": st.sampled_from(["code", "html", "terminal"]),
        "renderer_config": st.dictionaries(st.text(max_size=9), st.text() | st.integers(-9, 9)),
        "requires_confirmation": st.booleans(),
        "enabled": st.booleans(),
    },
)
states = st.fixed_dictionaries(
    {},
    optional={
        "source_type": st.sampled_from(["zip", "local", "url"]),
        "source_ref": st.text(max_size=30),
        "version": st.text(max_size=9) | st.sampled_from(["1.0", "1", "yes", "null", "0x1", "~"]),
        "enabled": st.booleans(),
        "overrides": st.dictionaries(
            st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True), overrides
        ),
        "aliases": st.dictionaries(
            st.sampled_from(["a", "b-c", "yes", "null", "on"]), st.sampled_from(["d", "true", "no"])
        ),
    },
)


@given(facts=states)
@settings(max_examples=examples(100))
def test_every_state_comes_back_and_is_written_the_same(
    facts: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "state-of-any" / "shop.yaml"
    file.unlink(missing_ok=True)
    wanted = state(**facts)

    write_state(file, wanted)
    first = file.read_bytes() if file.exists() else None
    read = read_state(file, "shop.yaml").value
    assert read == wanted

    write_state(file, read)
    assert (file.read_bytes() if file.exists() else None) == first


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(root), *identity, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_branches_that_change_different_toolsets_and_tools_merge(root: Path) -> None:
    file = root / "toolsets" / "state" / "app-builder.yaml"

    def commit(tool: str, toolset: str) -> None:
        names = ("delete_file", "edit_file", "list_files", "read_file", "write_file")
        write_state(file, state(overrides={name: {"enabled": name != tool} for name in names}))
        if toolset:
            set_enabled(root, toolset, enabled=False)
        git(root, "add", ".")
        git(root, "commit", "-qm", f"{tool} off")

    commit("", "")
    start = git(root, "branch", "--show-current").strip()
    git(root, "checkout", "-qb", "idea")
    commit("delete_file", "data-lab")
    git(root, "checkout", "-q", start)
    commit("write_file", "text-kit")

    git(root, "merge", "-q", "--no-edit", "idea")

    assert git(root, "status", "--porcelain") == ""
    merged = read_state(file, "state").value
    assert merged is not None
    off = [name for name, override in merged.overrides.items() if override.enabled is False]
    assert off == ["delete_file", "write_file"]
    assert sorted(path.name for path in file.parent.iterdir()) == [
        *("app-builder.yaml", "data-lab.yaml", "text-kit.yaml")
    ]
