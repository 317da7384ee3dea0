"""Checks of a toolset by ``validate``."""
