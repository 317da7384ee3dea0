"""Stored failures of listings: how long they say why a source has no tools."""

from pathlib import Path

import pytest

from covalt_git.errors import CovaltError
from covalt_git.grants.grants import add_grant, add_grants
from covalt_git.grants.plans import WantedGrant
from covalt_git.sources import listing_failures
from covalt_git.sources.refresh import find_source

SERVERS = """\
id: gear
name: Gear
version: '1'
mcp_servers:
  - {id: clock, command: python3, args: [clock.py]}
  - {id: disk, command: python3, args: [disk.py]}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with two granted servers, whose last listings failed."""
    root = tmp_path / "project"
    (root / "toolsets/gear").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    declare(root, SERVERS)
    for server in ("clock", "disk"):
        add_grant(root, "gear", "process", server, by="me")
        source = find_source(root, "gear", server)
        listing_failures.record(root, source, CovaltError(f"{server} ended"))
    return root


def declare(root: Path, text: str) -> None:
    (root / "toolsets/gear/toolset.yaml").write_text(text, encoding="utf-8")


def failures(root: Path, *servers: str) -> list[str | None]:
    found = [listing_failures.failure_of(root, find_source(root, "gear", name)) for name in servers]
    return [error.message if error else None for error in found]


def test_a_failure_ends_with_a_change_of_its_server_and_not_with_that_of_another_one(
    root: Path,
) -> None:
    declare(root, SERVERS.replace("id: clock", "id: time"))
    assert failures(root, "time", "disk") == [None, "disk ended"]
    declare(root, SERVERS.replace("disk.py", "other.py"))
    assert failures(root, "clock", "disk") == ["clock ended", None]


def test_a_failure_ends_with_another_grant_of_its_server(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    grant = WantedGrant("server", "clock", folders=(str(folder),))
    add_grants(root, "gear", lambda _: [grant], by="me")
    assert failures(root, "clock", "disk") == [None, "disk ended"]
