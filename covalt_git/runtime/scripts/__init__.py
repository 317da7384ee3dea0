"""Scripts of agents: the source of a script runs in a process of its own, which gives out the calls of tools.

Access, records and chats are its caller's subject, who makes the calls and passes the answers in.
"""
