"""Who did what: the log of decisions, the export of all events, and the check of the history of chats."""
