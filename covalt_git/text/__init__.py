"""Text functions: display of hidden characters, line diffs, HTML tags, media types."""
