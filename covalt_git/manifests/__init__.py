"""Readers and fixes of the YAML files of a project and its toolsets."""
