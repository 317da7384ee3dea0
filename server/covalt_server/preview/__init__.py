"""Previews: the files of a commit as a web app, in a sandboxed frame."""
