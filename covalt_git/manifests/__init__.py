"""Readers, fixes and JSON Schemas of the YAML files of a project and its toolsets."""
