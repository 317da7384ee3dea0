"""Conversation of a chat: its messages and retries, the graph of its history, and names of commits."""
