"""Conversations of a chat: messages and their lanes, retries, the history of commits, names of commits."""
