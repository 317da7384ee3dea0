"""Terminal output of commands: texts, tables, progress and prompts."""
