"""Static reader for the Python files of toolsets: parses them, and never imports them."""
