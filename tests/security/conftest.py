"""The project that attacks are tried in, and its commands."""

from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.cli import main
from tests.calls.conftest import new_world, served, world

__all__ = ["new_world", "served", "world"]


@pytest.fixture
def cli_in(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run a command in a folder as its owner; return its exit code and all that it printed."""

    def run(root: Path, *args: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["-C", str(root), "--role", "owner", *args])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return run
