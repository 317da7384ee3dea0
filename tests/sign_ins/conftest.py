"""A project whose toolset has a sign-in, with all its grants, and a provider on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.calls.conftest import World, make_world, world
from tests.sign_ins.accounts import CODE, Accounts, accounts
from tests.trusting import use_config

__all__ = ["world"]


@pytest.fixture(scope="module")
def provider() -> Iterator[Accounts]:
    with accounts() as running:
        yield running


@pytest.fixture
def shop(tmp_path: Path, provider: Accounts, monkeypatch: pytest.MonkeyPatch) -> World:
    """A project of a user who has granted everything and has not signed in."""
    use_config(monkeypatch, tmp_path / "config")
    provider.set()
    world = make_world(tmp_path / "project")
    world.write("shop/toolset.yaml", provider.manifest())
    world.write("shop/tools/items.py", CODE)
    grant(world)
    return world


def grant(world: World) -> None:
    """Grant all that the toolset requests."""
    answer = world.cli("grant", "add", "shop", "--requested", "--no-terminal", "test")
    assert answer.returncode == 0, answer.stderr
