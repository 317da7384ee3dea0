"""Changes of a chat's files by a user: edits, uploads, restores of earlier files, and undo."""
