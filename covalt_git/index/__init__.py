"""The SQLite index: a cache of the toolset files and the chat stores, and all SQL there is."""
