"""Tools, prompts and resources of a project that a principal may see, by the access check."""
