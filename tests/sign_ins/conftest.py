"""A project whose toolset has a sign-in, with all its grants, and a provider on this machine."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import command
from tests.calls.conftest import World, make_world, world
from tests.sign_ins.accounts import CODE, Accounts, accounts
from tests.trusting import use_config

__all__ = ["world"]


@pytest.fixture(scope="module")
def provider() -> Iterator[Accounts]:
    with accounts() as running:
        yield running


@dataclass(frozen=True)
class Shop(World):
    """A project whose commands run in this process."""

    def cli(self, *args: str, role: str | None = None) -> subprocess.CompletedProcess[str]:
        roles = [] if role is None else ["--role", role]
        return command.run_here(*roles, *args, cwd=self.root)


@pytest.fixture
def shop(tmp_path: Path, provider: Accounts, monkeypatch: pytest.MonkeyPatch) -> World:
    """A project of a user who has granted everything and has not signed in."""
    use_config(monkeypatch, tmp_path / "config")
    provider.set()
    world = Shop(make_world(tmp_path / "project").root)
    world.write("shop/toolset.yaml", provider.manifest())
    world.write("shop/tools/items.py", CODE)
    grant(world)
    return world


def grant(world: World) -> None:
    """Grant all that the toolset requests."""
    answer = world.cli("grant", "add", "shop", "--requested", "--no-terminal", "test")
    assert answer.returncode == 0, answer.stderr
