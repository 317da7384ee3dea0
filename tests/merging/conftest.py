"""A chat to work in, as the tests of workspaces have it."""

from tests.workspaces.conftest import chat, chats

__all__ = ["chat", "chats"]
