"""A real server of the first era, and the connections of one test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from covalt_git.connections.definition import Definition, Name
from covalt_git.connections.pool import Connections

FIRST_ERA = Path(__file__).parent.parent.parent / "fixtures" / "servers" / "first_era.py"


@pytest.fixture
def connections() -> Iterator[Connections]:
    """Connections that end with the test."""
    made = Connections()
    yield made
    made.close()


@pytest.fixture
def first_era(tmp_path: Path) -> Definition:
    """A program that speaks the protocol with a handshake, for the chat c1."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return Definition(
        Name(tmp_path, "demo", "first-era", "c1"),
        "stdio",
        argv=(sys.executable, str(FIRST_ERA)),
        env={"SAID": str(tmp_path / "said.txt")},
        workspace=workspace,
    )
