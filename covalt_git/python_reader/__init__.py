"""Static reader of the Python files of toolsets."""
