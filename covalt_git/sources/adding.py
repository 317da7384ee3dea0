"""Adding a document to a toolset as a source, and removing a source.

Everything is compiled before the first file is written, and all files are restored if one cannot be written.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from covalt_git.errors import CovaltError, Problem, StaleError, WrongCallError
from covalt_git.hosts import origin_of
from covalt_git.http_client.public_download import public_answer, status_error
from covalt_git.manifests.override_keys import namespace_of
from covalt_git.manifests.source_entries import with_entry, without_entry
from covalt_git.manifests.state_files import lock_text
from covalt_git.manifests.toolset_files import MANIFEST, toolset_ids
from covalt_git.models.auth_entries import Auth
from covalt_git.models.toolset_manifest import Source
from covalt_git.names import RESERVED_TOOLSET_IDS, check_id, id_key, suggest_id
from covalt_git.sources.document_files import replaced_files
from covalt_git.sources.documents import (
    MAX_DOCUMENT,
    SPECS,
    BadSourceError,
    CompiledSource,
    check_tools,
    compile_source,
    toolset_reader,
)
from covalt_git.sources.refresh import ToolSource, find_source, lock_of_listing
from covalt_git.toolsets.project_files import declared_namespaces
from covalt_git.toolsets.state_store import changeable, find_toolset, update_state
from covalt_git.toolsets.update_lock import locks_toolsets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.sources.tool_lock import ToolLock
    from covalt_git.models.toolset_manifest import ToolsetManifest
    from covalt_git.toolsets.toolset import Toolset

_ACCEPT = "application/json, application/yaml, text/yaml, */*"
_SUCCESS = 200
_REFERENCE = re.compile(r"""\$ref["']?\s*:\s*["']?([^#"'\s,}][^#"'\s,}]*)""")
_GRAPHQL_NAMES = (".graphql", ".graphqls", ".gql")
# A type in SDL; in YAML, a key has a colon before a brace.
_SDL = re.compile(
    rb"^(?:extend +)?(?:schema|(?:type|interface|input|enum) +\w+)[^:\n]*\{", re.MULTILINE
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME = 100
_MAX_FILES = 500


class OpenedDocument(NamedTuple):
    """A document that the user named, with the files in its folder that it refers to.

    Attributes:
        name: its name among ``files``.
        kind: ``openapi`` or ``graphql``.
        files: contents by paths that are relative to the document's folder.
        url: where it was fetched from; None for a file.
    """

    name: str
    kind: str
    files: Mapping[str, bytes]
    url: str | None = None


class SourceOptions(NamedTuple):
    """The declaration of a new source, except for its document."""

    source_id: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    fields: Mapping[str, Sequence[str]] = {}
    base_url: str | None = None
    endpoint: str | None = None


class PlannedSource(NamedTuple):
    """A source that can be added: its declaration, its compiled tools and the files to write."""

    toolset: Toolset
    source: Source
    namespace: str
    compiled: CompiledSource
    files: Mapping[str, bytes]

    @property
    def lock(self) -> ToolLock:
        """The lock of the new source."""
        planned = ToolSource(self.toolset, self.source, self.namespace, None)
        return lock_of_listing(planned, dict(self.compiled.tools), self.compiled.lock_fields)


def open_file(file: Path) -> OpenedDocument:
    """Return a document of this machine, with the files in its folder that it refers to.

    Raises:
        BadSourceError: if it cannot be read, or is too large.
    """
    folder = file.parent.resolve()
    files = {file.name: _content(file)}
    waiting = [file.name]
    size = len(files[file.name])
    while waiting:
        name = waiting.pop()
        for other in _references(name, files[name]):
            path = file.parent / other
            if other in files or len(files) >= _MAX_FILES:
                continue
            # A file that does not exist is a broken reference, which the compiler reports with its place.  A link in
            # someone else's folder could lead to a private key, which would be copied and committed.
            if not path.is_file() or not path.resolve().is_relative_to(folder):
                continue
            files[other] = _content(path)
            size += len(files[other])
            if size > MAX_DOCUMENT:
                raise _too_large(file.name)
            waiting.append(other)
    return OpenedDocument(file.name, kind_of(file.name, files[file.name]), files)


def open_url(url: str) -> OpenedDocument:
    """Fetch a document once; files that it refers to are not fetched.

    Raises:
        CovaltError: if the URL is not public, or the server does not answer with a document.
    """
    origin_of(url)
    answer = public_answer(url, MAX_DOCUMENT, _ACCEPT)
    if answer.status != _SUCCESS:
        raise status_error(url, answer)
    name = _NAME.sub("-", unquote(posixpath.basename(urlsplit(url).path)))[-_MAX_NAME:].lstrip(".-")
    kind = kind_of(name, answer.content)
    if "." not in name:
        is_json = answer.content.lstrip()[:1] == b"{"
        extension = ".json" if is_json else ".graphql" if kind == "graphql" else ".yaml"
        name = (name or "document") + extension
    return OpenedDocument(name, kind, {name: answer.content}, url)


def introspect(url: str) -> OpenedDocument:
    """Ask a GraphQL API for its schema.

    Raises:
        CovaltError: if the URL is not public, or the API does not answer with its schema.
    """
    # Only this needs the compiler.
    from covalt_git.compilers import graphql  # noqa: PLC0415

    try:
        schema = graphql.schema_from_introspection(_introspected(url, is_plain=False))
    except CovaltError:
        # An older API refuses a query with fields that it does not know.
        schema = graphql.schema_from_introspection(_introspected(url, is_plain=True))
    name = f"{suggest_id(origin_of(url)[0].host) or 'schema'}.json"
    return OpenedDocument(name, "graphql", {name: schema.encode()}, url)


def _introspected(url: str, *, is_plain: bool) -> bytes:
    from covalt_git.compilers import graphql  # noqa: PLC0415 - as above

    request = graphql.introspection_request(url, is_plain=is_plain)
    return public_answer(url, MAX_DOCUMENT, _ACCEPT, request).content


def is_url(text: str) -> bool:
    """Return whether the location of a document is a URL."""
    return text.startswith(("https://", "http://"))


def fields_of(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the parts of answers that texts such as ``issues.list=items[].id,next`` name, by tool.

    Raises:
        WrongCallError: if a text has another form.
    """
    fields = {}
    for text in texts:
        tool, equals, paths = text.partition("=")
        if not (tool and equals and paths):
            raise WrongCallError(f"fields {text!r} is not TOOL=PATH,...: issues.list=items[].id")
        fields[tool] = tuple(paths.split(","))
    return fields


def kind_of(name: str, content: bytes) -> str:
    """Return the kind of a document: ``graphql`` for SDL and introspection, else ``openapi``.

    A document that was pasted or fetched has no name that ends with the kind.
    """
    if name.lower().endswith(_GRAPHQL_NAMES):
        return "graphql"
    if content.lstrip()[:1] == b"{":
        return "graphql" if b'"__schema"' in content[:4096] else "openapi"
    return "graphql" if _SDL.search(content) else "openapi"


def plan(
    root: Path, toolset_id: str, document: OpenedDocument, options: SourceOptions
) -> PlannedSource:
    """Return what adding a document to a toolset would write; nothing is written.

    Raises:
        CovaltError: if the toolset has errors, the id is not available, or the document is invalid.
    """
    toolset = find_toolset(root, toolset_id)
    manifest = toolset.manifest
    if manifest is None:
        raise CovaltError(
            f"toolsets/{toolset_id}/{MANIFEST} has errors and was not changed",
            hint=f"covalt-git validate toolsets/{toolset_id}",
            problems=toolset.manifest_reading.problems,
            http_status=409,
        )
    if document.name not in document.files:
        raise BadSourceError(f"the files of the document have no {document.name!r}")
    if sum(map(len, document.files.values())) > MAX_DOCUMENT:
        raise _too_large(document.name)
    stem = re.sub(r"(\.(ya?ml|json|graphqls?|gql))+$", "", document.name, flags=re.IGNORECASE)
    source_id = options.source_id or suggest_id(stem) or document.kind
    check_id(source_id, "source")
    _check_available(root, toolset, source_id)
    stored = toolset_reader(toolset.folder)
    folder = SPECS
    if any(
        stored(f"{SPECS}/{name}") not in (None, content) for name, content in document.files.items()
    ):
        folder = f"{SPECS}/{source_id}"  # of another document with the same name
    files = {_path(folder, name): content for name, content in document.files.items()}
    entry = _entry(source_id, document.kind, f"{folder}/{document.name}", document.url, options)
    source = declared_source(entry)
    manifest = manifest.model_copy(update={"sources": (*manifest.sources, source)})

    def read(path: str) -> bytes | None:
        return files[path] if path in files else stored(path)

    compiled = compile_source(source, manifest, source_id, read)
    check_tools(source, compiled)
    content = (toolset.folder / MANIFEST).read_bytes()
    sign_ins = _new_sign_ins(manifest, compiled)
    for sign_in in sign_ins:
        content = with_entry(content, f"toolsets/{toolset_id}/{MANIFEST}", "auth", sign_in)
    if sign_ins:
        entries = tuple(Auth.model_validate(sign_in) for sign_in in sign_ins)
        manifest = manifest.model_copy(update={"auth": (*manifest.auth, *entries)})
        compiled = compile_source(source, manifest, source_id, read)
    text = with_entry(content, f"toolsets/{toolset_id}/{MANIFEST}", "sources", entry)
    # Only what the document really refers to becomes a file of the toolset.
    used = {path: content for path, content in files.items() if path in compiled.documents}
    return PlannedSource(toolset, source, source_id, compiled, {**used, MANIFEST: text})


def _new_sign_ins(manifest: ToolsetManifest, compiled: CompiledSource) -> list[JsonObject]:
    """Return the entries of ``auth`` that a document's security schemes need, and the toolset does not have."""
    hosts = sorted({host for tool in compiled.compilation.tools.values() for host in tool.hosts})
    known = {entry.id for entry in manifest.auth}
    return [
        {**entry, "hosts": hosts}
        for name, entry in compiled.compilation.sign_ins.items()
        if name not in known and hosts
    ]


@locks_toolsets
def add(root: Path, planned: PlannedSource) -> ToolSource:
    """Write a planned source: its documents, its declaration and its lock; no tool is accepted.

    Raises:
        StaleError: if the toolset has changed since it was planned; nothing is written.
    """
    toolset_id = planned.toolset.id
    if changeable(root, toolset_id).digest != planned.toolset.digest:
        raise StaleError(f"the toolset {toolset_id!r} has changed; nothing was added")
    _check_available(root, planned.toolset, planned.namespace)
    files = {f"{toolset_id}/{path}": content for path, content in planned.files.items()}
    files[f"locks/{planned.namespace}.yaml"] = lock_text(planned.lock).encode()
    with replaced_files(root / "toolsets", files):
        return find_source(root, toolset_id, planned.namespace)


@locks_toolsets
def remove(root: Path, source: ToolSource) -> tuple[str, ...]:
    """Remove a source with its lock, its acceptances and overrides, and the documents that no other source uses.

    Returns:
        The removed files, relative to the project.

    Raises:
        CovaltError: if the manifest has to be edited by hand; nothing is removed then.
    """
    toolset = changeable(root, source.toolset.id)
    file = toolset.folder / MANIFEST
    content = file.read_bytes()
    key = "sources" if isinstance(source.declared, Source) else "mcp_servers"
    display_path = f"toolsets/{toolset.id}/{MANIFEST}"
    text = without_entry(content, display_path, key, source.declared.id)
    lock = root / "toolsets" / "locks" / f"{source.namespace}.yaml"
    others = {
        path
        for name, reading in toolset.locks.items()
        if name != source.declared.id and reading.value is not None
        for path in reading.value.documents
    }
    documents = [
        path for path in (source.lock.documents if source.lock else ()) if path not in others
    ]
    prefix = f"{source.namespace}:"
    state = toolset.state
    facts: dict[str, Any] = {
        "accepted": {
            name: value for name, value in state.accepted.items() if not name.startswith(prefix)
        },
        "overrides": {
            name: value for name, value in state.overrides.items() if not name.startswith(prefix)
        },
        "named_first": tuple(name for name in state.named_first if not name.startswith(prefix)),
        "aliases": {
            name: value for name, value in state.aliases.items() if name != source.declared.id
        },
    }
    with replaced_files(root / "toolsets", {f"{toolset.id}/{MANIFEST}": text}):
        update_state(root, toolset, facts)
    removed = []
    # The declaration is gone, so what a crash leaves of these is reported by validate and used by nothing.
    for path in (lock, *(toolset.folder / name for name in documents)):
        if path.is_file() and not path.is_symlink():
            path.unlink()
            removed.append(path.relative_to(root).as_posix())
    specs = toolset.folder / SPECS
    if specs.is_dir() and not any(specs.iterdir()):
        specs.rmdir()
    return tuple(removed)


def new_files(source: ToolSource, document: OpenedDocument) -> dict[str, bytes]:
    """Return the files of the toolset that a new version of a source's document replaces.

    Raises:
        BadSourceError: if the source has no document, or the new one is of another kind.
    """
    declared = source.declared
    path = declared.document if isinstance(declared, Source) else None
    if not isinstance(declared, Source) or path is None:
        raise BadSourceError(f"{source.what} has no document", hint="leave out --from")
    if document.name not in document.files:
        raise BadSourceError(f"the files of the document have no {document.name!r}")
    if document.kind != declared.type:
        raise BadSourceError(f"{document.name} is of the kind {document.kind}, not {declared.type}")
    folder = posixpath.dirname(path)
    return {
        path if name == document.name else _path(folder, name): content
        for name, content in document.files.items()
    }


def blame_document(error: CovaltError, source: ToolSource, document: OpenedDocument) -> None:
    """Let an error of a new version name the document that was given, and not the file that it would replace."""
    declared = source.declared
    path = (declared.document if isinstance(declared, Source) else None) or ""
    name, given = posixpath.basename(path), document.url or document.name
    error.message = re.sub(
        rf"(?<![\w./-]){re.escape(name)}(?![\w-])", lambda _: given, error.message
    )
    error.problems = tuple(
        replace(problem, path=given) if problem.path in {name, path} else problem
        for problem in error.problems
    )


def _entry(
    source_id: str, kind: str, path: str, url: str | None, options: SourceOptions
) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": source_id, "type": kind}
    entry["spec" if kind == "openapi" else "schema"] = path
    more: JsonObject = {
        "url": url,
        "endpoint": options.endpoint,
        "base_url": options.base_url,
        "include": list(options.include),
        "exclude": list(options.exclude),
        "fields": {name: list(paths) for name, paths in options.fields.items()},
    }
    return entry | {name: value for name, value in more.items() if value}


def declared_source(entry: JsonObject) -> Source:
    """Return the source that an entry of a manifest, with values of a request, declares.

    Raises:
        BadSourceError: if a value is invalid; it names the keys.
    """
    try:
        return Source.model_validate(entry)
    except ValidationError as error:
        problems = [
            Problem(".".join(map(str, detail["loc"])), 0, 0, BadSourceError.code, detail["msg"])
            for detail in error.errors(include_url=False, include_input=False)
        ]
        names = ", ".join(repr(problem.path) for problem in problems)
        raise BadSourceError(f"invalid values of the source: {names}", problems=problems) from None


def _check_available(root: Path, toolset: Toolset, source_id: str) -> None:
    owners = {id_key(name): owner for name, owner in declared_namespaces(root).items()}
    existing = {id_key(name) for name in toolset_ids(root / "toolsets")} - {id_key(toolset.id)}
    owner = owners.get(id_key(source_id))
    hint = "choose another with --id"
    if owner is not None:
        reason = f"the toolset {owner!r} declares it"
        declared = toolset.manifest.sources if toolset.manifest else ()
        if any(namespace_of(source.id, toolset.state) == source_id for source in declared):
            name = f"{owner}/{source_id}"
            hint = (
                f"for a new version of its document: covalt-git source refresh {name} --from FILE; "
                f"to accept its tools: covalt-git source accept {name}; "
                "to add another source, choose its namespace with --id"
            )
    elif id_key(source_id) in existing:
        reason = "it is the id of a toolset"
    elif source_id in RESERVED_TOOLSET_IDS:
        reason = "covalt-git uses it itself"
    elif (root / "toolsets" / "locks" / f"{source_id}.yaml").exists():
        reason = f"there is toolsets/locks/{source_id}.yaml"
    else:
        return
    raise CovaltError(
        f"the namespace {source_id!r} is not available: {reason}",
        hint=hint,
        code="namespace_taken",
        http_status=409,
    )


def _path(folder: str, name: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, name))
    if not path.startswith(f"{folder}/") or "\\" in name:
        raise BadSourceError(f"{name!r} is outside of the folder of the document")
    return path


def _references(name: str, content: bytes) -> list[str]:
    """Return the files in the folder of a document that a file of it refers to; some may not exist."""
    folder = posixpath.dirname(name)
    paths = []
    for reference in _REFERENCE.findall(content.decode("utf-8", "replace")):
        if not _SCHEME.match(reference):
            path = posixpath.normpath(posixpath.join(folder, unquote(reference)))
            if not path.startswith(("../", "/")) and path != ".." and "\\" not in path:
                paths.append(path)
    return list(dict.fromkeys(paths))


def _content(file: Path) -> bytes:
    try:
        if file.stat().st_size > MAX_DOCUMENT:
            raise _too_large(file.name)
        return file.read_bytes()
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise BadSourceError(f"the file {str(file)!r} cannot be read: {reason}") from None


def _too_large(name: str) -> BadSourceError:
    return BadSourceError(f"{name!r} is larger than {MAX_DOCUMENT // 1_000_000} MB")
