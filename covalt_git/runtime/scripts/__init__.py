"""Scripts of agents: the source of a script runs in a process of its own, which gives out the calls of tools.

This package knows nothing of access, records or chats: its caller makes the calls and passes the answers in.
"""
