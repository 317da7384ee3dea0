"""Running one tool once, in a process of its own: never inside the server or the command line."""
