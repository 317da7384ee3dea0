"""Changes of single files of a chat by a person: edits, uploads and restores of earlier content."""
