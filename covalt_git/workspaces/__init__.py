"""Chats on disk: each has a bare git store with its commits, and a working folder, the workspace."""
