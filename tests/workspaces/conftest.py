"""A chat to work in, and all chats of its project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.workspaces.stores import open_chats, scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats


@pytest.fixture
def chats() -> Iterator[Chats]:
    with scratch() as folder:
        yield open_chats(folder)


@pytest.fixture
def chat(chats: Chats) -> Iterator[ChatStore]:
    with chats.new("c1") as opened:
        yield opened
