"""Bundles: toolsets as ZIP files, and the strict reader of third-party ones."""
