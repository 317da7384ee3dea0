"""Reading and fixing the YAML files of toolsets."""
