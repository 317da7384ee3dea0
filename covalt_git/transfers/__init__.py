"""Transfers of chats and commits: pushes, imports, exports and forks."""
