"""HTML forms made from JSON Schemas."""
