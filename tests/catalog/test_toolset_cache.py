"""A toolset is read once until one of its files changes."""

from __future__ import annotations

from pathlib import Path

from covalt_git.catalog import toolset_cache
from covalt_git.toolsets.new_project import create_project
from tests.settling import settle


def test_a_toolset_is_read_again_when_a_file_its_state_or_a_lock_changes(tmp_path: Path) -> None:
    create_project(tmp_path)
    toolsets = tmp_path / "toolsets"
    settle(toolsets)

    first = toolset_cache.toolset(tmp_path, "app-builder")
    assert toolset_cache.toolset(tmp_path, "app-builder") is first

    for path, text in {
        "app-builder/assets/new.txt": "new",
        "state/app-builder.yaml": "enabled: false\n",
        "locks/other.yaml": "version: 1\nnamespace: other\ntoolset_id: app-builder\nkind: mcp\n",
    }.items():
        file = toolsets / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        again = toolset_cache.toolset(tmp_path, "app-builder")
        assert again is not first
        settle(toolsets)
        first = toolset_cache.toolset(tmp_path, "app-builder")
        assert toolset_cache.toolset(tmp_path, "app-builder") is first
    assert not first.enabled
