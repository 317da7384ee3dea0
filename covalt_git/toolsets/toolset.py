"""A toolset read from its folder: manifest, state, files, tools and problems.

Reading runs no code of the toolset.  A toolset with errors has all parts that could be read, so that
its problems can be shown in place.  It is not ``sound``, so none of its tools can be called.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git import __version__
from covalt_git.checks.effects import check_effects, check_locked_effects
from covalt_git.checks.module_names import check_names
from covalt_git.checks.overrides import check_aliases, check_local_overrides
from covalt_git.checks.pages import check_artifacts
from covalt_git.checks.program_code import check_program_code
from covalt_git.checks.program_grants import check_program_grants
from covalt_git.checks.stored_schemas import current_schema
from covalt_git.checks.text_files import (
    check_docstrings,
    check_hidden_escapes,
    check_text,
    check_texts,
    once_for_each_cause,
    without,
)
from covalt_git.checks.toolset_checks import Sources, check_manifest, read_sources
from covalt_git.errors import CovaltError, Problem, few_suggestions, in_order
from covalt_git.manifests.override_keys import namespace_of
from covalt_git.manifests.reading import Reading, read_text, read_yaml, shown_path
from covalt_git.manifests.skills import read_skills, skill_resources
from covalt_git.manifests.state_files import LOCK_FOLDER, read_state
from covalt_git.manifests.stored_schemas import (
    read_stored_schemas,
    undeclared_keys,
    with_stored_schemas,
)
from covalt_git.manifests.toolset_files import (
    MANIFEST,
    REGISTRY_FOLDER,
    STATE_FOLDER,
    BundleFiles,
    Contents,
    read_bundle,
    toolset_folder,
)
from covalt_git.models.http_placement import secrets_of
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.names import BUILTIN_NAMESPACE, REGISTRY_NAMESPACE, is_id, suggest_id
from covalt_git.problems import codes
from covalt_git.system.file_cache import FileCache
from covalt_git.toolsets.builtin_tools import BUILTINS, NAME
from covalt_git.toolsets.effective_tools import effective_locked_tools, effective_tools, is_on
from covalt_git.toolsets.icons import check_icons
from covalt_git.toolsets.registered_tools import read_registry
from covalt_git.toolsets.tool_locks import (
    check_documents,
    check_lock,
    check_skills,
    compiled_documents,
    lock_namespaces,
    read_source_locks,
    usable_locks,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.manifests.skills import Skill
    from covalt_git.models.prompts import Resource
    from covalt_git.models.sources.tool_lock import ToolLock
    from covalt_git.models.stored_schemas import StoredSchemas
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_state import Grant

_LOCKS = f"toolsets/{LOCK_FOLDER}/"
_ENTRIES = f"toolsets/{REGISTRY_FOLDER}/"


class FaultyToolsetError(CovaltError):
    """A toolset whose errors leave unknown what it declares; ``problems`` has those errors."""

    def __init__(self, toolset_id: str, problems: Iterable[Problem]) -> None:
        errors = [problem for problem in problems if problem.severity == "error"]
        self.toolset_id = toolset_id
        super().__init__(
            f"the toolset {toolset_id!r} has errors",
            hint="covalt-git validate",
            problems=errors,
        )


@dataclass(frozen=True)
class Toolset:
    """One toolset of the project, read once.

    Attributes:
        id: the name of its folder.
        root: the folder of its project; empty for the built-in tools.
        manifest_reading: its manifest with its stored schemas, the document and the places of its parts.
        state_reading: its state file, in the same way.
        files: its files and their digests.
        sources: the Python functions of its tools, by the tools' ids in the manifest.
        skills: its valid skills.
        locks: the locks of its MCP servers and documents, by their ids.
        stored_schemas: the file with the schemas of its Python tools as they ran.
        server_tools: the tools of its MCP servers and documents, including those that are not accepted; for the toolset
            ``registered``, the registered tools.
        problems: all problems of the files above.
    """

    id: str
    folder: Path
    manifest_reading: Reading[ToolsetManifest]
    state_reading: Reading[ToolsetState]
    files: BundleFiles
    server_tools: tuple[Tool, ...]
    problems: tuple[Problem, ...] = ()
    sources: Sources = field(default_factory=dict)
    skills: tuple[Skill, ...] = ()
    root: Path = Path()
    locks: Mapping[str, Reading[ToolLock]] = field(default_factory=dict)
    stored_schemas: Reading[StoredSchemas] = Reading("", None, None)  # noqa: RUF009 - it is frozen

    @property
    def manifest(self) -> ToolsetManifest | None:
        """The content of its manifest; None if it is invalid."""
        return self.manifest_reading.value

    @cached_property
    def state(self) -> ToolsetState:
        """The content of its state file; disabled if the file is invalid."""
        return _effective_state(self.state_reading)

    @property
    def sound(self) -> bool:
        """Whether it has no errors.

        Errors of a lock only affect the tools of that lock, errors of an entry only its registered tool.
        """
        return not self.error_codes

    @property
    def error_codes(self) -> frozenset[str]:
        """The codes of the errors with which none of its tools can be called."""
        return frozenset(
            problem.code
            for problem in self.own_problems
            if problem.severity == "error" and not problem.path.startswith(_ENTRIES)
        )

    @property
    def own_problems(self) -> tuple[Problem, ...]:
        """The problems of its own files and its state file."""
        return tuple(problem for problem in self.problems if not problem.path.startswith(_LOCKS))

    @property
    def enabled(self) -> bool:
        return is_on(self.state)

    @property
    def related_files(self) -> tuple[str, ...]:
        """The paths below ``toolsets/`` that also affect its tools: locks, and folders with the names of namespaces."""
        paths: list[str] = []
        for source in self.manifest.tool_sources if self.manifest else ():
            namespace = namespace_of(source.id, self.state)
            paths += [f"{LOCK_FOLDER}/{namespace}.yaml"] + [namespace] * (namespace != self.id)
        return tuple(paths)

    @property
    def digest(self) -> str:
        """The digest of all its files."""
        return self.files.digest

    @property
    def tool_ids(self) -> list[str] | None:
        """The ids of its tools and of its servers' tools, or None if its manifest is invalid.

        The ids of its prompts and resources come last, because the patterns of roles apply to them too.
        """
        if self.manifest is None:
            return None
        own = [f"{self.id}:{tool.id}" for tool in self.manifest.tools]
        of_servers = [tool.tool_id for tool in self.server_tools]
        prompts = [f"{self.id}:{prompt.id}" for prompt in self.manifest.prompts]
        resources = [f"{self.id}:{resource.id}" for resource in self.resources]
        return [*own, *of_servers, *prompts, *resources]

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Its declared resources, and those of its skills."""
        declared = self.manifest.resources if self.manifest is not None else ()
        return declared + skill_resources(self.id, self.skills)

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The effective tools: first the tools that it declares, then the tools of its servers."""
        if self.manifest is None or self.manifest.id != self.id:
            return ()
        own = effective_tools(self.manifest, self.state, self.sources, self.digest)
        return own + self.server_tools

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it can use.

        They are those that it declares, those of accepted requests of documents, and those of its sign-ins, whose tokens
        have the names of their entries of ``auth``.
        """
        declared = self.manifest.secrets if self.manifest else ()
        sent = {
            secret.name
            for tool in self.server_tools
            if tool.source is not None and tool.held_back is None and tool.http is not None
            for secret in secrets_of(tool.http)
        }
        for entry in self.manifest.auth if self.manifest else ():
            if entry.is_sign_in:
                sent |= {entry.reference_name, *filter(None, [entry.client_secret_name])}
        return (*declared, *sorted(sent - set(declared)))

    @property
    def has_python_tools(self) -> bool:
        return any(tool.kind == "python" for tool in self.tools)

    @property
    def tool_count(self) -> int:
        """The number of its tools, without merging their overrides."""
        if self.manifest is None or self.manifest.id != self.id:
            return 0
        return len(self.manifest.tools) + len(self.server_tools)

    def with_grants(self, grants: Mapping[str, Grant]) -> Toolset:
        """Return the same reading of its files, with more grants in its state."""
        state = self.state.model_copy(update={"grants": self.state.grants | dict(grants)})
        return replace(self, state_reading=replace(self.state_reading, value=state))

    def tool(self, tool_id: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.tool_id == tool_id), None)

    def stored_keys(self, tool: Tool) -> list[str]:
        """Return which schemas of a tool are from ``toolset.schemas.yaml``: ``input_schema``, ``output_schema``."""
        name = tool.id.name
        source = self.sources.get(name) if tool.toolset_id == self.id else None
        entry = current_schema(self.stored_schemas, name, source, self.files)
        if entry is None:
            return []
        undeclared = undeclared_keys(self.manifest_reading, name)
        return [key for key in undeclared if getattr(entry, key) is not None]


@few_suggestions()
def read_toolset(
    root: Path,
    toolset_id: str,
    *,
    state: Reading[ToolsetState] | None = None,
    stored: Reading[StoredSchemas] | None = None,
) -> Toolset:
    """Read a toolset of the project at ``root``.  The content of a file never raises an error.

    ``state`` replaces the state file of the project, and ``stored`` its stored schemas.
    """
    folder = root / "toolsets" / toolset_folder(toolset_id)
    display_path = shown_path(folder, root)
    files, contents = read_bundle(folder, display_path)
    if state is None:
        state_file = root / "toolsets" / STATE_FOLDER / f"{toolset_id}.yaml"
        state = read_state(state_file, shown_path(state_file, root))
    if toolset_id == REGISTRY_NAMESPACE:
        return _read_registered(root, folder, display_path, state, files, contents)
    own = _own_files(folder, toolset_id, display_path, files, contents, stored)
    manifest, sources = own.manifest, own.sources
    problems = [*own.problems, *state.problems]
    effective_state = _effective_state(state)
    locks: dict[str, Reading[ToolLock]] = {}
    server_tools: tuple[Tool, ...] = ()
    if manifest.value is not None:
        problems += check_effects(manifest, effective_state, sources)
        declared = manifest.valid
        if declared.id == toolset_id:
            locks = read_source_locks(root, toolset_id, declared, effective_state)
            server_tools = effective_locked_tools(
                declared, effective_state, usable_locks(locks), files.hashes
            )
            problems += check_locked_effects(manifest, server_tools)
            for lock in locks.values():
                problems += check_lock(lock, declared)
            namespaces = lock_namespaces(root, toolset_id, declared, effective_state)
            problems += check_documents(manifest, locks, namespaces, files.hashes, display_path)
        problems += check_program_code(manifest, effective_state, root, folder, files.hashes)
        problems += check_aliases(state)
        problems += check_program_grants(state, declared, root, folder)
        offers = {
            lock.value.offer_id(name)
            for lock in locks.values()
            if lock.value is not None
            for name in lock.value.offers
        }
        problems += check_local_overrides(state, declared, files, sources, server_tools, offers)
    problems += check_skills(locks.values(), toolset_id, own.skills)
    compiled = compiled_documents(locks.values(), files.hashes)
    of_texts, credentials = check_texts(display_path, files, contents, compiled)
    of_state, in_state = _check_state_text(state)
    problems += [*of_texts, *of_state]
    return Toolset(
        id=toolset_id,
        folder=folder,
        root=root,
        manifest_reading=manifest,
        state_reading=state,
        files=files,
        sources=sources,
        skills=own.skills,
        locks=locks,
        stored_schemas=own.stored_schemas,
        server_tools=server_tools,
        problems=in_order(without(credentials | in_state, once_for_each_cause(problems))),
    )


class _OwnFiles(NamedTuple):
    """What the files of a toolset say, whatever its state, its locks and the project around it; not to be changed.

    Attributes:
        manifest: the manifest with its stored schemas.
        stored_schemas: the file with the stored schemas.
        sources: the Python functions of its tools, by the tools' ids.
        skills: its valid skills.
        problems: the problems of these files, except for the credentials in their texts.
    """

    manifest: Reading[ToolsetManifest]
    stored_schemas: Reading[StoredSchemas]
    sources: Sources
    skills: tuple[Skill, ...]
    problems: tuple[Problem, ...]


_OWN_FILES = FileCache(most=32)


def _own_files(
    folder: Path,
    toolset_id: str,
    display_path: str,
    files: BundleFiles,
    contents: Contents,
    stored: Reading[StoredSchemas] | None,
) -> _OwnFiles:
    """Return what the files of a toolset say, from memory if they were read before.

    Each decision of the user changes only the state of a toolset, and each call of an MCP server reads its toolset again.
    """
    read = partial(_read_own_files, folder, toolset_id, display_path, files, contents, stored)
    # The digests in ``files`` must decide the result alone.  They do not if the manifest is missing, which may be a link,
    # or if a large file is read again after its digest: a program could exchange it in between.
    if stored is not None or files.get(MANIFEST) is None or not contents.has_all(files):
        return read()
    return _OWN_FILES.get_by((toolset_id, display_path, files), "", read)


# With a limit of its own: what it suggests may not depend on what was read before.
@few_suggestions()
def _read_own_files(
    folder: Path,
    toolset_id: str,
    display_path: str,
    files: BundleFiles,
    contents: Contents,
    stored: Reading[StoredSchemas] | None,
) -> _OwnFiles:
    stored = stored or read_stored_schemas(display_path, files, contents)
    manifest = _read_manifest(folder, display_path, contents)
    problems = [
        *files.problems,
        *manifest.problems,
        *stored.problems,
        *_name_problems(toolset_id, display_path),
    ]
    sources: Sources = {}
    if manifest.value is not None:
        sources, of_sources = read_sources(manifest, stored, files, contents)
        problems += of_sources
        current = {
            name: entry
            for name, source in sources.items()
            if (entry := current_schema(stored, name, source, files))
        }
        # Before the checks: examples and renderers are checked against the schema that calls use.
        manifest = with_stored_schemas(manifest, current)
        problems += check_manifest(manifest, stored, toolset_id, files, sources)
        problems += check_icons(manifest, files, contents)
        problems += check_docstrings(manifest, sources)
    problems += check_artifacts(manifest, files, contents)
    skills, of_skills = read_skills(display_path, files, contents)
    problems += of_skills
    problems += check_hidden_escapes(manifest)
    problems += check_names(display_path, files)
    return _OwnFiles(manifest, stored, sources, skills, tuple(problems))


@cache
def builtin_toolset() -> Toolset:
    """Return the owner of the built-in tools, which has no files."""
    version = {"id": BUILTIN_NAMESPACE, "name": NAME, "version": __version__}
    return Toolset(
        id=BUILTIN_NAMESPACE,
        folder=Path(),
        manifest_reading=Reading("", ToolsetManifest.model_validate(version), None),
        state_reading=Reading("", ToolsetState(enabled=True), None),
        files=BundleFiles(()),
        server_tools=tuple(BUILTINS.values()),
    )


def _read_registered(
    root: Path,
    folder: Path,
    display_path: str,
    state: Reading[ToolsetState],
    files: BundleFiles,
    contents: Contents,
) -> Toolset:
    registry = read_registry(files, contents, display_path, _effective_state(state))
    of_state, in_state = _check_state_text(state)
    problems = [*files.problems, *registry.problems, *state.problems, *of_state]
    return Toolset(
        id=REGISTRY_NAMESPACE,
        folder=folder,
        root=root,
        manifest_reading=Reading(display_path, registry.manifest, None),
        state_reading=state,
        files=files,
        server_tools=registry.tools,
        problems=in_order(without(in_state, problems)),
    )


def _effective_state(state: Reading[ToolsetState]) -> ToolsetState:
    # Disabled, because the file cannot say that the toolset was imported, or that an approval is required
    # (test_a_toolset_with_a_broken_state_file_is_disabled).
    return state.value or ToolsetState(enabled=False)


def _read_manifest(folder: Path, display_path: str, contents: Contents) -> Reading[ToolsetManifest]:
    content = contents.cached(MANIFEST)
    if content is not None:
        return read_text(content, f"{display_path}/{MANIFEST}", ToolsetManifest)
    file = folder / MANIFEST
    # Without a message of its own: the link is reported for the folder, and what is behind it is not read.
    if folder.is_symlink():
        return Reading(f"{display_path}/{MANIFEST}", None, None)
    if file.is_symlink() or not file.exists():
        other = "rename toolset.yml to toolset.yaml" if (folder / "toolset.yml").exists() else ""
        hint = other or f"write {display_path}/{MANIFEST}, or remove the folder"
        problem = Problem(
            f"{display_path}/{MANIFEST}", 0, 0, codes.NO_FILE, "a toolset needs this file", hint
        )
        return Reading(f"{display_path}/{MANIFEST}", None, None, (problem,))
    return read_yaml(file, f"{display_path}/{MANIFEST}", ToolsetManifest)


def _name_problems(toolset_id: str, display_path: str) -> list[Problem]:
    if is_id(toolset_id):
        return []
    near = suggest_id(toolset_id)
    hint = f"rename the folder to {near}" if near else "use lower-case words joined by - or _"
    message = f"the folder's name {toolset_id!r} is not a toolset id"
    return [Problem(display_path, 0, 0, codes.BAD_ID, message, hint)]


def _check_state_text(state: Reading[ToolsetState]) -> tuple[list[Problem], set[str]]:
    """Return the problems of the text of a state file, and the credentials in it."""
    if state.document is None:
        return [], set()
    of_text, values = check_text(state.document.text, state.path)
    return [*of_text, *check_hidden_escapes(state)], values
