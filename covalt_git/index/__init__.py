"""SQLite index: a cache of the files of toolsets and the stores of chats; no other package has SQL."""
