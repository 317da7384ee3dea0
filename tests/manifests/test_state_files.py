"""The files that the machine writes: stable, sorted, whole, and fit to be merged by git."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.manifests.state_files import HEADER, read_state, write_state
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.toolsets.new_project import create_project
from covalt_git.toolsets.state_store import set_enabled

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = "sha256:" + "ab" * 32
GRANTED = {"digest": DIGEST, "granted_at": "2026-11-20T17:24:00.123Z", "granted_by": "local"}
FULL: dict[str, Any] = {
    "source_type": "url",
    "source_ref": "https://example.com/shop.zip",
    "version": "1.0",
    "installed_at": "2026-11-20T17:24:00Z",
    "digest": DIGEST,
    "enabled": True,
    "overrides": {
        "write_file": {"enabled": False, "renderer": "code", "renderer_config": {"file": "no"}},
        "read.file": {"name_override": "yes", "requires_confirmation": True},
    },
    "grants": {
        "network:api.example.com": {**GRANTED, "kind": "network", "hosts": ["api.example.com"]},
        "process:web": {**GRANTED, "kind": "process", "server": "web", "argv": ["npx", "-y", "#x"]},
        "secret:KEY": {**GRANTED, "kind": "secret", "name": "KEY", "hosts": ["a.b"]},
        "server:web": {**GRANTED, "kind": "server", "server": "web", "url": "https://a.b/"},
        "unsandboxed": {**GRANTED, "kind": "unsandboxed"},
    },
    "accepted": {"web-search:search": DIGEST},
    "aliases": {"search": "web-search"},
}


def state(**facts: Any) -> ToolsetState:
    return ToolsetState.model_validate(facts)


def test_no_file_is_the_state_of_a_toolset_of_our_own(tmp_path: Path) -> None:
    reading = read_state(tmp_path / "hello.yaml", "hello.yaml")

    assert reading.value == ToolsetState()
    assert reading.problems == ()


def test_a_full_state_is_written_sorted_one_fact_a_line(tmp_path: Path) -> None:
    file = tmp_path / "state" / "shop.yaml"

    write_state(file, state(**FULL))

    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[:2] == [f"# {line}" for line in HEADER.splitlines()]
    keys = [line.partition(":")[0] for line in lines[2:] if line and line[0] != " "]
    assert keys == sorted(FULL)
    assert '  - "#x"' in "\n".join(lines)
    assert not any("{" in line or "[" in line for line in lines)
    assert read_state(file, "shop.yaml").value == state(**FULL)


def test_writing_what_was_read_changes_no_byte(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    write_state(file, state(**FULL))
    before = file.read_bytes()
    value = read_state(file, "shop.yaml").value
    assert value is not None

    write_state(file, value)

    assert file.read_bytes() == before


def test_a_state_that_says_nothing_is_no_file(tmp_path: Path) -> None:
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
@settings(max_examples=150, deadline=None)
def test_every_state_comes_back_and_is_written_the_same_again(
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


# --- git ------------------------------------------------------------------------------------------


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(root), *identity, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_branches_that_switch_different_toolsets_merge_without_conflict(tmp_path: Path) -> None:
    create_project(tmp_path)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "start")
    start = git(tmp_path, "branch", "--show-current").strip()
    git(tmp_path, "checkout", "-qb", "idea")
    set_enabled(tmp_path, "data-lab", enabled=False)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "data-lab off")
    git(tmp_path, "checkout", "-q", start)
    set_enabled(tmp_path, "app-builder", enabled=False)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "app-builder off")

    git(tmp_path, "merge", "-q", "--no-edit", "idea")

    assert git(tmp_path, "status", "--porcelain") == ""
    folder = tmp_path / "toolsets" / "state"
    assert sorted(path.name for path in folder.iterdir()) == ["app-builder.yaml", "data-lab.yaml"]


def test_branches_that_decide_about_different_tools_of_one_toolset_merge(tmp_path: Path) -> None:
    create_project(tmp_path)
    file = tmp_path / "toolsets" / "state" / "app-builder.yaml"

    def decide(*off: str) -> None:
        names = ("delete_file", "edit_file", "list_files", "read_file", "write_file")
        write_state(file, state(overrides={name: {"enabled": name not in off} for name in names}))
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", f"off: {off}")

    decide()
    start = git(tmp_path, "branch", "--show-current").strip()
    git(tmp_path, "checkout", "-qb", "idea")
    decide("delete_file")
    git(tmp_path, "checkout", "-q", start)
    decide("write_file")

    git(tmp_path, "merge", "-q", "--no-edit", "idea")

    merged = read_state(file, "state").value
    assert merged is not None
    off = [name for name, override in merged.overrides.items() if override.enabled is False]
    assert off == ["delete_file", "write_file"]
