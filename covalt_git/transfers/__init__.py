"""Chats and their commits that come from elsewhere or go there: pushes, imports, exports and forks."""
