"""Frozen pydantic models and enumerations, without I/O."""
