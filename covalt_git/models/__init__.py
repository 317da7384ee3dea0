"""What things are: frozen pydantic models and the names of their parts, without any I/O."""
