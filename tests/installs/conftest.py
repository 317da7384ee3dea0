"""A project without toolsets, and its content for comparisons."""

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "toolsets").mkdir()
    return tmp_path


def contents(folder: Path) -> list[tuple[str, bytes]]:
    """Return every path below a folder with its content."""
    return sorted(
        (path.relative_to(folder).as_posix(), path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    )
