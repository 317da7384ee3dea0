"""Shared functions for files, locks and processes."""
