"""Compilers by the kind of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from covalt_git.compilers.compilation import Compilation
    from covalt_git.models.toolset_manifest import Source


class NotCompiledError(CovaltError):
    """A source of a kind that has no compiler."""

    code = "bad_source"
    http_status = 422


def compile_document(
    source: Source,
    content: bytes,
    name: str,
    *,
    namespace: str,
    read_file: Callable[[str], bytes | None],
    held_names: Mapping[str, str],
    sign_ins: Collection[str],
) -> Compilation:
    """Compile the document of a source.

    Args:
        source: The declaration.
        content: The document.
        name: Its path in its folder.
        namespace: The namespace of its tools, after aliases.
        read_file: Returns the content of another file of the folder, or None.
        held_names: The names of tools that a lock has, by their names in the document.
        sign_ins: The ids of the entries of the toolset's ``auth`` that are sign-ins.
    """
    # Imported here, because only refreshing a source compiles it.
    if source.type == "openapi":
        from covalt_git.compilers.openapi import compile_openapi  # noqa: PLC0415

        return compile_openapi(
            content,
            path=name,
            read_file=read_file,
            namespace=namespace,
            held_names=held_names,
            include=source.include,
            exclude=source.exclude,
            base_url=source.base_url,
            address=source.url or "",
            sign_ins=sign_ins,
        )
    if source.type == "graphql":
        from covalt_git.compilers.graphql import compile_graphql  # noqa: PLC0415

        return compile_graphql(
            content,
            namespace=namespace,
            endpoint=source.endpoint or source.base_url or source.url,
            path=name,
            held_names=held_names,
            include=source.include,
            exclude=source.exclude,
        )
    raise NotCompiledError(f"sources of type {source.type!r} have no document")
