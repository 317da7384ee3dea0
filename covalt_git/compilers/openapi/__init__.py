"""Compiler of OpenAPI documents of the versions 2.0, 3.0, 3.1 and 3.2."""

from covalt_git.compilers.openapi.compiler import compile_openapi
from covalt_git.compilers.openapi.documents import MAX_BYTES, BadDocumentError

__all__ = ["MAX_BYTES", "BadDocumentError", "compile_openapi"]
