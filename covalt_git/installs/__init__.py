"""Importing, updating, verifying and removing toolsets."""
