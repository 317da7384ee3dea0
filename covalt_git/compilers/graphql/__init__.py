"""Compiler of GraphQL schemas: each field of Query and Mutation becomes an HTTP tool.

Only this package imports graphql-core, which the extra ``graphql`` installs, and only when it reads a schema.
"""

from covalt_git.compilers.graphql.compiler import compile_graphql
from covalt_git.compilers.graphql.introspection import (
    introspection_request,
    schema_from_introspection,
)

__all__ = ["compile_graphql", "introspection_request", "schema_from_introspection"]
