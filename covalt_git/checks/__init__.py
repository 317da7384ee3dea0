"""Checks of a toolset that validate runs."""
