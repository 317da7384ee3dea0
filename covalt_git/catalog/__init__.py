"""What a principal may see and call of the project's tools, every time asked of the one door."""
