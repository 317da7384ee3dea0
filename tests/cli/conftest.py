"""What the tests of commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from covalt_git.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def covalt(root: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run a command in the test's project, in this process; return its exit status and all it said."""

    def run(*args: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["-C", str(root), *args])
        assert isinstance(ended.value.code, int)
        said = capsys.readouterr()
        return ended.value.code, said.out + said.err

    return run
