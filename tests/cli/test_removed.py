"""Removed options end with exit status 2 and name what replaces them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from covalt_git.cli.removed import REPLACEMENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder without a project: usage errors come first."""
    return tmp_path


@pytest.mark.parametrize(("command", "spelling"), REPLACEMENTS)
def test_a_removed_spelling_names_its_replacement(
    cli: Callable[..., tuple[int, str]], command: str, spelling: str
) -> None:
    status, printed = cli(*command.split(), *spelling.split())

    assert status == 2
    assert f"Error: {spelling} was removed: {REPLACEMENTS[command, spelling]}" in printed


def test_an_option_that_never_existed_is_not_reported_as_removed(
    cli: Callable[..., tuple[int, str]],
) -> None:
    status, printed = cli("tool", "schema", "--exactly")

    assert status == 2
    assert "No such option '--exactly'" in printed
    assert "was removed" not in printed
