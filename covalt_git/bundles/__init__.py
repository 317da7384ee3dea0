"""Bundle archives."""
