"""Compilers of API documents: OpenAPI and GraphQL documents become definitions of HTTP tools."""
