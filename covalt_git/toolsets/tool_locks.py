"""Lock files of a toolset's MCP servers and documents: which has which lock, and the checks of a lock.

The author of a toolset cannot fix the definitions of a server or a service.  So problems in them are warnings and
do not affect the toolset's own tools.  Only problems that a manual edit must have caused are errors.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from pydantic import ValidationError

from covalt_git.checks.hidden_characters import hidden_characters
from covalt_git.checks.text_files import check_text, without
from covalt_git.errors import Problem
from covalt_git.json_values import json_schema
from covalt_git.json_values.shared_definitions import Definitions, Shared, Types
from covalt_git.manifests.override_keys import namespace_of
from covalt_git.manifests.reading import part_problems, shown_path
from covalt_git.manifests.skills import skill_uri
from covalt_git.manifests.state_files import LOCK_FOLDER, lock_file, parsed_lock, read_lock
from covalt_git.models.held_back import CORRECTS_SCHEMA
from covalt_git.models.http_placement import placement
from covalt_git.models.sources.skill_entry import SKILL, served_uri
from covalt_git.models.sources.source_digest import source_digest
from covalt_git.models.sources.tool_lock import LockedTool
from covalt_git.models.tool_properties import HttpRequest
from covalt_git.names import RESERVED_TOOLSET_IDS
from covalt_git.problems import codes
from covalt_git.templating.references import texts
from covalt_git.templating.url_templates import BadTemplateError
from covalt_git.toolsets.effective_tools import SourceLock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from covalt_git.json_values.pointer import Loc
    from covalt_git.manifests.reading import Reading
    from covalt_git.manifests.skills import Skill
    from covalt_git.models.sources.tool_lock import Locked, ToolLock
    from covalt_git.models.toolset_manifest import Source, ToolsetManifest
    from covalt_git.models.toolset_state import ToolsetState

_OF_DOCUMENTS = frozenset({"openapi", "graphql"})

_MAX_REPORTED = 20
"""The most hidden characters that are reported for one tool."""


def lock_namespaces(
    root: Path, toolset_id: str, manifest: ToolsetManifest, state: ToolsetState
) -> dict[str, str]:
    """Return the namespaces of a toolset's MCP servers and documents in this project, by their ids.

    Those with the namespace of another toolset or of the built-in tools are left out.
    """
    namespaces: dict[str, str] = {}
    for source in manifest.tool_sources:
        namespace = namespace_of(source.id, state)
        # The first one keeps the namespace: two servers with one namespace would share a lock, and an accepted
        # tool could be sent to the other server.
        if namespace not in namespaces.values() and not _is_of_another(root, toolset_id, namespace):
            namespaces[source.id] = namespace
    return namespaces


def _is_of_another(root: Path, toolset_id: str, namespace: str) -> bool:
    if namespace == toolset_id:
        return False
    if namespace in RESERVED_TOOLSET_IDS:  # two of these are folders of covalt-git, not toolsets
        return namespace not in {"state", LOCK_FOLDER}
    return (root / "toolsets" / namespace).is_dir()


def read_source_locks(
    root: Path, toolset_id: str, manifest: ToolsetManifest, state: ToolsetState
) -> dict[str, Reading[ToolLock]]:
    """Return the locks of a toolset's MCP servers and documents, by their ids."""
    locks = {}
    for source, namespace in lock_namespaces(root, toolset_id, manifest, state).items():
        file = lock_file(root, namespace)
        if not file.exists():
            continue
        lock = read_lock(file, shown_path(file, root))
        # A lock names its toolset, so that a new toolset with an old server's namespace does not get that server's
        # tools.
        if lock.value is None or lock.value.toolset_id == toolset_id:
            locks[source] = lock
    return locks


def locks_of_toolset(root: Path, toolset_id: str) -> list[Reading[ToolLock]]:
    """Return the locks with a toolset's id in the file or as the file name, also of removed servers."""
    files = sorted((root / "toolsets" / LOCK_FOLDER).glob("*.yaml"))
    locks = [read_lock(file, shown_path(file, root)) for file in files]
    return [
        lock
        for file, lock in zip(files, locks, strict=True)
        if file.stem == toolset_id
        or (lock.value is not None and lock.value.toolset_id == toolset_id)
    ]


def usable_locks(locks: dict[str, Reading[ToolLock]]) -> dict[str, SourceLock]:
    """Return the locks that are valid and contain the namespace of their file name."""
    checked = ((source, _checked(lock)[1]) for source, lock in locks.items())
    return {source: usable for source, usable in checked if usable is not None}


def _has_its_namespace(lock: Reading[ToolLock]) -> bool:
    return lock.value is not None and lock.path.endswith(f"/{lock.value.namespace}.yaml")


def check_lock(lock: Reading[ToolLock], manifest: ToolsetManifest | None) -> list[Problem]:
    """Return the problems of a lock of a toolset with that manifest."""
    problems = [*_checked(lock)[0]]
    if manifest is not None and lock.value is not None and lock.value.namespace == manifest.id:
        problems += _twice(lock, manifest)
    return problems


def check_skills(
    locks: Iterable[Reading[ToolLock]], toolset_id: str, skills: Iterable[Skill]
) -> Iterator[Problem]:
    """Find skills of servers that agents do not get, because a skill of the toolset itself has their URI."""
    own = {f"{skill_uri(toolset_id, skill.name)}/{SKILL}" for skill in skills}
    for lock in locks:
        offers = lock.value.offers if lock.value is not None else {}
        for name, offer in offers.items():
            if offer.kind == "skill" and served_uri(lock.valid.namespace, offer.upstream) in own:
                message = f"the toolset {toolset_id!r} has a skill {offer.short_name!r} itself, which is used instead"
                alias = f"aliases: {{{toolset_id}: {toolset_id}-server}}"
                hint = f"write in toolsets/state/{toolset_id}.yaml: {alias}"
                yield lock.warning(
                    codes.DUPLICATE_ID, ("offers", name), message, hint=hint, key=True
                )


def check_documents(
    toolset: Reading[ToolsetManifest],
    locks: Mapping[str, Reading[ToolLock]],
    namespaces: Mapping[str, str],
    hashes: Mapping[str, str],
    folder: str,
) -> Iterator[Problem]:
    """Find documents that a lock does not fit, and the faults of documents.

    Nothing is read but the locks: they have the faults, and the digests of the documents that they were made of.

    Args:
        toolset: The manifest.
        locks: The locks by source id.
        namespaces: The namespaces by source id.
        hashes: The hexadecimal SHA-256 of the toolset's files by path.
        folder: The folder of the toolset, for messages.
    """
    for source in toolset.valid.sources:
        reading = locks.get(source.id)
        lock = None if reading is None else reading.value
        if not source.is_document or reading is None or lock is None:
            continue
        yield from _check_document(reading, source, toolset.valid, namespaces[source.id], hashes)
        for fault in lock.faults:
            path = f"{folder}/{fault.path}"
            place = (fault.line, fault.column, fault.code)
            yield Problem(path, *place, fault.message, fault.hint, "warning")


def compiled_documents(
    locks: Iterable[Reading[ToolLock]], hashes: Mapping[str, str]
) -> frozenset[str]:
    """Return the paths of the documents that are as they were when the locks were made of them."""
    return frozenset(
        path
        for lock in locks
        if lock.value is not None
        for path, digest in lock.value.documents.items()
        if path in hashes and digest == f"sha256:{hashes[path]}"
    )


def _check_document(
    reading: Reading[ToolLock],
    source: Source,
    manifest: ToolsetManifest,
    namespace: str,
    hashes: Mapping[str, str],
) -> Iterator[Problem]:
    lock = reading.valid
    current = {path: f"sha256:{hashes[path]}" for path in lock.documents if path in hashes}
    hint = f"covalt-git source refresh {manifest.id}/{namespace}"
    changed = [path for path in lock.documents if current.get(path) != lock.documents[path]]
    for path in changed:
        what = "has changed" if path in current else "was removed"
        message = f"{path} {what} since its tools were compiled"
        yield reading.problem(codes.STALE_LOCK, ("documents", path), message, hint=hint)
    if not changed and source_digest(source, manifest, namespace, current) != lock.digest:
        message = "the declaration of the source has changed since its tools were compiled"
        yield reading.problem(codes.STALE_LOCK, ("digest",), message, hint=hint)


_Checked = tuple[tuple[Problem, ...], SourceLock | None]
"""The problems inside a lock file, and the lock if it is usable."""


def _checked(lock: Reading[ToolLock]) -> _Checked:
    return (lock.problems, None) if lock.document is None else _check(lock.document.text, lock.path)


@lru_cache(maxsize=32)
def _check(text: str, path: str) -> _Checked:
    """Check the tools of a lock; cached, so that a call does not check them again."""
    lock = parsed_lock(text.encode(), path)
    of_text, secret = check_text(text, path, document=lock.document)
    problems = [*lock.problems]
    problems += [problem for problem in of_text if problem.code != codes.HIDDEN_CHARACTER]
    if lock.value is None:
        return tuple(without(secret, problems)), None
    problems += _name_problems(lock)
    tools, definitions = lock.value.tools, Definitions(lock.value.definitions)
    shared = Shared(definitions, Types(lock.value.types))
    broken = broken_schemas(lock.value)
    for name, tool in tools.items():
        problems += _tool_problems(lock.below("tools", name), tool, broken.get(name, ()))
    for name, offer in lock.value.offers.items():
        problems += _definition_problems(lock.below("offers", name), offer)
    untrue = {name for name, tool in tools.items() if not _is_true(tool, shared)}
    of_source = None
    if _has_its_namespace(lock):
        is_document = lock.value.kind in _OF_DOCUMENTS
        requests, of_requests = _requests(lock) if is_document else ({}, ())
        problems += of_requests
        for name in untrue if is_document else ():
            problems += _false_definitions(lock.below("tools", name), tools[name])
        of_source = SourceLock(lock.value, requests, frozenset(untrue), frozenset(broken))
    return tuple(without(secret, problems)), of_source


def _is_true(tool: LockedTool, shared: Shared) -> bool:
    """Return whether the digest of an entry is that of its definition, and of the definitions that it reaches."""
    reached = shared.digest(tool.request, tool.input_schema, tool.output_schema)
    return tool.digest_matches and tool.definitions == reached


def _false_definitions(lock: Reading[ToolLock], tool: LockedTool) -> Iterator[Problem]:
    if tool.digest_matches:
        message = "the digest does not match the definitions that the tool refers to"
        yield lock.problem(
            codes.FALSE_DIGEST, ("definitions",), message, hint="covalt-git source refresh"
        )


def broken_schemas(lock: ToolLock) -> dict[str, list[tuple[Loc, str]]]:
    """Return the problems of the input schemas of a lock's tools, by name; only of those that have problems."""
    tools, definitions = lock.tools, Definitions(lock.definitions)
    # The tools of a document share its definitions, so all are checked at once, and each only if there is a problem.
    shared = [tool.input_schema for tool in tools.values() if tool.definitions is not None]
    every = {"properties": {str(at): schema for at, schema in enumerate(shared)}}
    is_sound = not json_schema.schema_problems(definitions.within(every))
    broken: dict[str, list[tuple[Loc, str]]] = {}
    for name, tool in tools.items():
        if tool.definitions is None or not is_sound:
            problems = json_schema.schema_problems(definitions.within(tool.input_schema))
            # Clients of the protocol refuse the whole list for one such tool.
            if not problems and lock.kind == "mcp" and tool.input_schema.get("type") != "object":
                problems = [((), "its input schema has no type: object")]
            broken |= {name: problems} if problems else {}
    return broken


def _requests(lock: Reading[ToolLock]) -> tuple[dict[str, HttpRequest], list[Problem]]:
    """Return the valid requests of a document's tools by name, and the problems of the others."""
    requests: dict[str, HttpRequest] = {}
    problems: list[Problem] = []
    for name, tool in lock.valid.tools.items():
        here = lock.below("tools", name, "request")
        try:
            request = HttpRequest.model_validate(tool.request)
            placement(request)
        except ValidationError:
            problems += part_problems(here, tool.request, HttpRequest)
        except BadTemplateError as error:
            at = ("url",)
            problems.append(here.problem(codes.BAD_REQUEST, at, error.message, hint=error.hint))
        else:
            requests[name] = request
    return requests, problems


def _name_problems(lock: Reading[ToolLock]) -> Iterator[Problem]:
    if not _has_its_namespace(lock):
        name = lock.path.rpartition("/")[2].removesuffix(".yaml")
        message = f"the namespace {lock.valid.namespace!r} must equal the file name"
        hint = f"write namespace: {name}, or rename the file"
        yield lock.problem(codes.BAD_ID, ("namespace",), message, hint=hint)


def _tool_problems(
    lock: Reading[ToolLock], tool: LockedTool, of_schema: Sequence[tuple[Loc, str]]
) -> Iterator[Problem]:
    """Find problems of a tool, which is at the place of ``lock``; ``of_schema`` are those of its input schema."""
    for place, reason in of_schema[:1]:
        at, message = ("input_schema", *place), f"{reason}; the tool stays disabled"
        yield lock.warning(codes.BAD_SCHEMA, at, message, hint=CORRECTS_SCHEMA)
    yield from _definition_problems(lock, tool)


def _definition_problems(lock: Reading[ToolLock], entry: Locked) -> Iterator[Problem]:
    """Find problems of a definition, which is at the place of ``lock``."""
    what = "tool" if isinstance(entry, LockedTool) else entry.kind
    if not entry.digest_matches:
        message = f"the digest does not match the definition of the {what}"
        hint = "covalt-git source refresh"
        yield lock.problem(codes.FALSE_DIGEST, ("digest",), message, hint=hint)
    hint = "read the definition with `covalt-git source diff` before you accept it"
    hidden = (
        f"the {what}'s {'.'.join(map(str, place))}: {character.message}"
        for place, text in texts(entry.definition)
        for character in islice(hidden_characters(text), 1)
    )
    for message in islice(hidden, _MAX_REPORTED):
        yield lock.warning(codes.HIDDEN_CHARACTER, (), message, hint=hint, key=True)


def _twice(lock: Reading[ToolLock], manifest: ToolsetManifest) -> Iterator[Problem]:
    """Find tools of a server or a document with the id of a tool that the toolset itself declares."""
    hint = f"write in toolsets/state/{manifest.id}.yaml: aliases: {{{manifest.id}: {manifest.id}-server}}"
    for name in lock.valid.tools.keys() & {tool.id for tool in manifest.tools}:
        message = (
            f"the toolset {manifest.id!r} declares a tool {name!r} itself, which is used instead"
        )
        yield lock.problem(codes.DUPLICATE_ID, ("tools", name), message, hint=hint, key=True)
