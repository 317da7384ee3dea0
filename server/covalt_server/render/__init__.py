"""Results, files and code as HTML."""
