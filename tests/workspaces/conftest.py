"""A chat to work in, and all chats of its project."""

from collections.abc import Iterator

import pytest

from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from tests.workspaces.stores import open_chats, scratch


@pytest.fixture
def chats() -> Iterator[Chats]:
    with scratch() as folder:
        yield open_chats(folder)


@pytest.fixture
def chat(chats: Chats) -> Iterator[ChatStore]:
    with chats.new("c1") as opened:
        yield opened
