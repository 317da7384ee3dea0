"""Compiling the document of a source: its tools, and everything else that its lock has.

A compiler reads no file itself.  It gets the document and a reader of the files in the document's folder.
"""

from __future__ import annotations

import hashlib
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.checks.text_files import announced_problems
from covalt_git.compilers.compiling import compile_document
from covalt_git.errors import CovaltError, Problem
from covalt_git.json_values import canonical_json, field_projection
from covalt_git.json_values.shared_definitions import Shared
from covalt_git.models.sources.source_digest import source_digest
from covalt_git.models.sources.tool_lock import DocumentFault, LeftOutPart, LockedTool
from covalt_git.models.tool_properties import Annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from covalt_git.compilers.compilation import Compilation, CompiledTool
    from covalt_git.json_values import JsonObject
    from covalt_git.models.sources.tool_lock import ToolLock
    from covalt_git.models.toolset_manifest import Source, ToolsetManifest

    ReadFile = Callable[[str], bytes | None]
    """Returns the content of a file of the toolset by its path, or None."""

SPECS = "specs"
"""The folder of documents in a toolset."""

MAX_DOCUMENT = 20_000_000
"""The most bytes of a document, with the files that it refers to."""


class BadSourceError(CovaltError):
    """A source whose document cannot become tools."""

    code = "bad_source"
    http_status = 422


class CompiledSource(NamedTuple):
    """The tools of a source, and what its lock has besides.

    Attributes:
        documents: the files that the compiler read, by their paths in the toolset.
    """

    compilation: Compilation
    tools: Mapping[str, LockedTool]
    documents: Mapping[str, bytes]
    digest: str

    @property
    def lock_fields(self) -> JsonObject:
        """The fields of a lock that only sources of documents have."""
        compilation = self.compilation
        return {
            "digest": self.digest,
            "documents": {path: _digest(content) for path, content in self.documents.items()},
            "title": compilation.title,
            "definitions": dict(compilation.definitions),
            "types": dict(compilation.types),
            "left_out": tuple(
                LeftOutPart(upstream=part.upstream, reason=part.reason, line=part.place[0])
                for part in compilation.left_out
            ),
            "faults": tuple(
                DocumentFault(
                    path=problem.path,
                    line=problem.line,
                    column=problem.col,
                    code=problem.code,
                    message=problem.message,
                    hint=problem.hint,
                )
                for problem in compilation.problems
            ),
        }


def toolset_reader(folder: Path) -> ReadFile:
    """Return the reader of the files of a toolset's folder; links are not followed."""

    def read(path: str) -> bytes | None:
        file = folder
        for part in path.split("/"):
            file /= part
            if part in {"", ".", ".."} or file.is_symlink():
                return None
        try:
            return file.read_bytes() if file.is_file() else None
        except OSError:
            return None

    return read


def compile_source(
    source: Source,
    manifest: ToolsetManifest,
    namespace: str,
    read: ReadFile,
    lock: ToolLock | None = None,
) -> CompiledSource:
    """Compile the document of a source; tools that ``lock`` has keep their names.

    Raises:
        BadSourceError: if the document does not exist, or the declaration does not fit it.
        CovaltError: if the document is invalid.
    """
    path = source.document
    if path is None:
        key = "spec" if source.type == "openapi" else "schema"
        raise BadSourceError(
            f"the source {source.id!r} has no document", hint=f"add {key}: {SPECS}/FILE"
        )
    documents: dict[str, bytes] = {}
    folder = posixpath.dirname(path)

    def recorded(name: str) -> bytes | None:
        full = posixpath.join(folder, name)
        content = read(full)
        if content is not None:
            documents[full] = content
        return content

    content = recorded(posixpath.basename(path))
    if content is None:
        raise BadSourceError(f"the toolset has no file {path!r}", hint="correct its path")
    compilation = compile_document(
        source,
        content,
        posixpath.basename(path),
        namespace=namespace,
        read_file=recorded,
        sign_ins={entry.id for entry in manifest.auth if entry.is_sign_in},
        held_names={tool.upstream: name for name, tool in lock.tools.items()} if lock else {},
    )
    # Compilers see the folder of the document only, and users the toolset.
    problems = tuple(
        Problem(
            posixpath.join(folder, problem.path),
            problem.line,
            problem.col,
            problem.code,
            problem.message,
            problem.hint,
            problem.severity,
        )
        for problem in compilation.problems
    )
    # Recorded in the lock, so that nothing parses an unchanged document again.
    for name, document in documents.items():
        if b"\0" not in document:
            problems += tuple(announced_problems(document.decode("utf-8", "replace"), name))
    compilation = compilation._replace(problems=problems)
    digests = {name: _digest(document) for name, document in documents.items()}
    digest = source_digest(source, manifest, namespace, digests)
    return CompiledSource(
        compilation, _locked_tools(source, manifest, compilation), documents, digest
    )


def check_tools(source: Source, compiled: CompiledSource) -> None:
    """Check that a source has a tool: one without tools is declared by mistake, or has the wrong document.

    Raises:
        BadSourceError: if it has none.
    """
    if not compiled.tools:
        of_patterns = (
            problem.message
            for problem in compiled.compilation.problems
            if problem.message.startswith("include: ")
        )
        hint = "check include and exclude" if source.include or source.exclude else ""
        raise BadSourceError(
            f"{posixpath.basename(source.document or source.id)} has no operation that can be a tool",
            hint="\n".join(of_patterns) or hint,
        )


def _locked_tools(
    source: Source, manifest: ToolsetManifest, compilation: Compilation
) -> dict[str, LockedTool]:
    shared = Shared.of(compilation.definitions, compilation.types)
    fields = _fields(source, compilation)
    added = _added_request(source, manifest)
    return {
        name: _locked_tool(tool, shared, added, fields.get(name, ()))
        for name, tool in compilation.tools.items()
    }


def _locked_tool(
    tool: CompiledTool,
    shared: Shared,
    added: JsonObject,
    fields: tuple[str, ...],
) -> LockedTool:
    request = dict(tool.request)
    for part, values in added.items():
        request[part] = {**request.get(part, {}), **values}
    locked = LockedTool(
        upstream=tool.upstream,
        digest=canonical_json.digest({}),  # of the model, which does not exist yet
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        output_schema=tool.output_schema,
        annotations=Annotations(
            read_only=tool.read_only,
            destructive=not tool.read_only,
            idempotent=tool.idempotent,
            open_world=True,
        ),
        request=request,
        fields=fields,
        definitions=shared.digest(request, tool.input_schema, tool.output_schema),
    )
    return locked.model_copy(update={"digest": locked.computed_digest})


def _fields(source: Source, compilation: Compilation) -> dict[str, tuple[str, ...]]:
    """Return the projections of a source after they were checked against the output schemas.

    Raises:
        BadSourceError: if a tool does not exist, or its answers do not have a part.
    """
    for name, paths in source.fields.items():
        tool = compilation.tools.get(name)
        if tool is None:
            raise BadSourceError(
                f"fields: the source {source.id!r} has no tool {name!r}",
                hint="the names are those of `covalt-git source show`, without the namespace",
            )
        for path in paths:
            problem = field_projection.path_problem(path)
            if problem is None and tool.output_schema is not None:
                problem = field_projection.schema_problem(
                    path, tool.output_schema, compilation.definitions
                )
            if problem is not None:
                raise BadSourceError(f"fields of {name}: {problem}")
    return dict(source.fields)


def _added_request(source: Source, manifest: ToolsetManifest) -> JsonObject:
    """Return what the declaration of a source adds to each request: headers, and its authentication."""
    headers, query = dict(source.headers), {}
    auth = source.auth
    if auth is not None:
        entry = next((entry for entry in manifest.auth if entry.id == auth.use), None)
        value = auth.value if entry is None else entry.reference
        token = auth.bearer
        if entry is not None and auth.header is None and auth.query is None:
            scheme = "Basic" if entry.type == "basic" else "Bearer"
            headers["Authorization"] = f"{scheme} {value}"
        elif token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if value is not None and auth.header is not None:
            headers[auth.header] = value
        if value is not None and auth.query is not None:
            query[auth.query] = value
    added = {"headers": headers, "query": query}
    return {part: values for part, values in added.items() if values}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
