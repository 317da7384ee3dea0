"""Refreshing the tool definitions of MCP servers and documents, and accepting them.

A refresh writes the definitions to the lock; accepting writes their digests to the toolset's state.  The
user accepts exactly the reviewed definitions, by their digests.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from covalt_git.access.grants import GrantNeededError
from covalt_git.errors import CovaltError, StaleError, UnknownNameError
from covalt_git.json_values.shared_definitions import Definitions, Shared, Types
from covalt_git.manifests.reading import shown_path
from covalt_git.manifests.state_files import lock_file, read_lock, write_lock
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.held_back import WHY_HELD_BACK
from covalt_git.models.sources.server_definition import command_line
from covalt_git.models.sources.skill_entry import parsed_entry
from covalt_git.models.sources.tool_lock import (
    PROGRAM,
    LockedOffer,
    LockedTool,
    ToolLock,
    shown_entry,
)
from covalt_git.models.toolset_manifest import Source
from covalt_git.names import host_name, local_names
from covalt_git.sources import listing_failures
from covalt_git.sources.document_files import replaced_files
from covalt_git.sources.documents import check_tools, compile_source, toolset_reader
from covalt_git.toolsets.permissions import trust_accepted
from covalt_git.toolsets.state_store import changeable, find_toolset, update_state
from covalt_git.toolsets.tool_locks import broken_schemas, lock_namespaces
from covalt_git.toolsets.toolset import FaultyToolsetError, read_toolset
from covalt_git.toolsets.update_lock import locks_toolsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.sources.tool_lock import Listed, Locked, LockedFile, LockedPackages
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import ToolsetState
    from covalt_git.toolsets.toolset import Toolset

    ListTools = Callable[[Toolset, McpServer], Sequence[Listed]]
    """Requests the tools of a server, and its resources, templates, prompts and skills."""

    Pin = Callable[[Toolset, McpServer], LockedPackages | LockedFile | None]
    """Resolves the packages or the program file that a server is started from; None for servers that need no pin."""

Kind = Literal["new", "changed", "gone"]


class NoLockError(CovaltError):
    """A source whose tools were never listed, or whose lock is unreadable."""

    code = "no_lock"
    http_status = 409


class UnreadSkillError(CovaltError):
    """A skill is accepted without the digest of its text, which a user has read."""

    code = "skill_not_read"
    http_status = 409

    def __init__(self, source: str, name: str) -> None:
        super().__init__(
            f"the skill {name} is accepted only with the digest of the text that was read",
            hint=f"covalt-git source skills {source} {name}",
        )


class TaskOnlyError(CovaltError):
    """A tool that can be called only as a task is accepted."""

    code = "task_only"
    http_status = 409

    def __init__(self, tool_id: str) -> None:
        super().__init__(f"{tool_id} is not accepted: {WHY_HELD_BACK['task']}")


class ToolDifference(NamedTuple):
    """Difference of a tool between the accepted or locked definition and the source's current one.

    Attributes:
        name: its name within its namespace.
        kind: whether it is new, changed or removed.
        before: the old definition; None if the tool is new, or the definition was not stored.
        after: the new definition; None if the tool is removed.
    """

    name: str
    kind: Kind
    before: Locked | None
    after: Locked | None

    @property
    def is_program(self) -> bool:
        """Whether it is what the server is started from."""
        return self.name == PROGRAM

    @property
    def is_skill(self) -> bool:
        """Whether it is a skill, whose text a user reads before it is accepted."""
        return isinstance(self.after, LockedOffer) and self.after.kind == "skill"

    @property
    def digest(self) -> str | None:
        """The digest to accept; None for a removed tool."""
        return self.after.computed_digest if self.after else None

    @property
    def fields(self) -> dict[str, tuple[object, object]]:
        """The old and the new value of each changed part of the definition."""
        old = self.before.definition if self.before else {}
        new = self.after.definition if self.after else {}
        names = dict.fromkeys((*old, *new))
        return {
            name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)
        }


class ToolSource(NamedTuple):
    """An MCP server or a document of a toolset, with its namespace and its lock."""

    toolset: Toolset
    declared: McpServer | Source
    namespace: str
    lock: ToolLock | None

    @property
    def shown_id(self) -> str:
        """Its name in commands, such as ``gear/disk``."""
        return f"{self.toolset.id}/{self.namespace}"

    @property
    def to_accept(self) -> tuple[ToolDifference, ...]:
        """Differences between the accepted definitions and the locked ones."""
        return _to_accept(self.lock, self.toolset.state) if self.lock else ()

    @property
    def accepted(self) -> int:
        """Number of tools whose locked definition is accepted."""
        tools = self.lock.tools if self.lock else {}
        waiting = sum(isinstance(difference.after, LockedTool) for difference in self.to_accept)
        return len(tools) - waiting - len(self.tasks)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tools that can be called only as tasks, which is not possible yet; they are not accepted."""
        tools = self.lock.tools if self.lock else {}
        return tuple(sorted(name for name, tool in tools.items() if tool.is_task))

    @property
    def unusable(self) -> dict[str, str]:
        """The tools that cannot be called because their input schemas are invalid, and why."""
        broken = broken_schemas(self.lock) if self.lock else {}
        return {name: problems[0][1] for name, problems in sorted(broken.items())}

    @property
    def program_waits(self) -> bool:
        """Whether what it is started from is not accepted, so that its tools cannot be listed."""
        return any(difference.name == PROGRAM for difference in self.to_accept)

    @property
    def enabled(self) -> bool:
        """Whether it and its toolset are enabled."""
        return self.toolset.enabled and self.declared.enabled

    @property
    def what(self) -> str:
        """Its kind and its id, for messages."""
        kind = "source" if isinstance(self.declared, Source) else "MCP server"
        return f"the {kind} {self.declared.id!r}"

    @property
    def changed_definitions(self) -> dict[str, tuple[object, object]]:
        """The old and the new value of each definition that differing tools of a document share."""
        if self.lock is None or not self.to_accept:
            return {}
        old, new = self.lock.replaced_definitions, self.lock.definitions
        after = [entry.after for entry in self.to_accept if isinstance(entry.after, LockedTool)]
        schemas = [schema for tool in after for schema in (tool.input_schema, tool.output_schema)]
        reached = Definitions(new).reached(*schemas)
        return {
            name: (old.get(name), schema)
            for name, schema in reached.items()
            if old.get(name) != schema
        }


class Refreshed(NamedTuple):
    """A refreshed source, with the differences from its previous lock."""

    source: ToolSource
    drift: tuple[ToolDifference, ...]


def sources(root: Path, toolset_id: str | None = None) -> list[ToolSource]:
    """Return the MCP servers and documents with a valid namespace, of one toolset or of all, in the order of the manifests.

    Raises:
        UnknownNameError: if the toolset does not exist; the hint has the most similar one.
        FaultyToolsetError: if the manifest of the toolset has errors.
    """
    if toolset_id is None:
        toolsets = [read_toolset(root, name) for name in toolset_ids(root / "toolsets")]
    else:
        toolset = find_toolset(root, toolset_id)
        if toolset.manifest is None:
            raise FaultyToolsetError(toolset.id, toolset.problems)
        toolsets = [toolset]
    return [source for toolset in toolsets for source in sources_of(root, toolset)]


def sources_of(root: Path, toolset: Toolset) -> list[ToolSource]:
    """Return the MCP servers and documents of a toolset with a valid namespace; none if its manifest has errors."""
    if toolset.manifest is None:
        return []
    declared_sources = []
    namespaces = lock_namespaces(root, toolset.id, toolset.manifest, toolset.state)
    for declared in toolset.manifest.tool_sources:
        if declared.id in namespaces:
            reading = toolset.locks.get(declared.id)
            lock = reading.value if reading else None
            declared_sources.append(ToolSource(toolset, declared, namespaces[declared.id], lock))
    return declared_sources


def faulty_toolsets(root: Path) -> list[FaultyToolsetError]:
    """Return an error for each enabled toolset whose sources are unknown, because its manifest has errors."""
    toolsets = [read_toolset(root, name) for name in toolset_ids(root / "toolsets")]
    return [
        FaultyToolsetError(toolset.id, toolset.problems)
        for toolset in toolsets
        if toolset.manifest is None and toolset.enabled
    ]


def find_sources(root: Path, name: str) -> list[ToolSource]:
    """Return the MCP servers and documents with the name ``TOOLSET``, ``TOOLSET/NAMESPACE`` or ``NAMESPACE``.

    Raises:
        UnknownNameError: with the nearest toolset or namespace.
        FaultyToolsetError: if the manifest of the toolset has errors.
    """
    toolset_id, slash, namespace = name.partition("/")
    if slash:
        return [find_source(root, toolset_id, namespace)]
    is_toolset = toolset_id in toolset_ids(root / "toolsets")
    of_namespace = (
        [] if is_toolset else [source for source in sources(root) if source.namespace == name]
    )
    return of_namespace or sources(root, toolset_id)


def find_source(root: Path, toolset_id: str, namespace: str) -> ToolSource:
    """Return an MCP server or a document of a toolset by the namespace of its tools.

    Raises:
        UnknownNameError: with the nearest toolset or namespace.
        FaultyToolsetError: if the manifest of the toolset has errors.
    """
    by_namespace = {source.namespace: source for source in sources(root, toolset_id)}
    if namespace not in by_namespace:
        raise UnknownNameError(
            "source", namespace, by_namespace, list_with=f"covalt-git source list {toolset_id}"
        )
    return by_namespace[namespace]


def reference_of(source: McpServer | Source) -> str:
    """Return the command of a server on one line, the server's URL, or the path of a document."""
    if isinstance(source, Source):
        return source.document or ""
    if source.command is None:
        return source.url or ""
    return command_line((source.command, *source.args))


class Listing(NamedTuple):
    """What a source lists now.

    Attributes:
        entries: its tools and offers; None if it is a server that was not started.
        lock_fields: the fields of the lock that only documents have.
        program: what a server is started from.
    """

    entries: dict[str, Listed] | None
    lock_fields: Mapping[str, Any] = {}
    program: LockedPackages | LockedFile | None = None


def refresh(
    root: Path,
    source: ToolSource,
    list_tools: ListTools,
    *,
    pin: Pin = lambda *_: None,
    write: bool = True,
    files: Mapping[str, bytes] | None = None,
) -> Refreshed:
    """List the tools of a server or a document and write them to its lock, without accepting them.

    What a server is started from is pinned first.  A program that is not accepted is not started, so the lock then has
    the tools as before.  Without ``write``, nothing is written.  The toolsets lock is not held during the request, which
    may take minutes the first time.  ``files`` replace files of the toolset, for a new version of a document.

    Raises:
        CovaltError: if the source is disabled or lists a name twice; and the errors of ``list_tools``.
        StaleError: if the declaration of the source changed during the request.
    """
    if not source.declared.enabled:
        key = "sources" if isinstance(source.declared, Source) else "mcp_servers"
        raise CovaltError(
            f"{source.what} is disabled",
            hint=f"set enabled: true for it under {key} in toolsets/{source.toolset.id}/toolset.yaml",
        )
    try:
        listing = _listed(source, list_tools, pin, files or {})
    except GrantNeededError:  # it was not asked
        raise
    except CovaltError as error:
        listing_failures.record(root, source, error)
        raise
    listing_failures.record(root, source, None)
    if not write:
        return _compare(source, listing)
    return _write_lock(root, source, listing, files or {})


def _listed(
    source: ToolSource, list_tools: ListTools, pin: Pin, files: Mapping[str, bytes]
) -> Listing:
    declared, toolset = source.declared, source.toolset
    if not isinstance(declared, Source):
        program = pin(toolset, declared)
        digest = toolset.state.accepted.get(f"{source.namespace}:{PROGRAM}")
        may_start = program is None or program.computed_digest == digest
        entries = _by_name(declared, list_tools(toolset, declared)) if may_start else None
        return Listing(entries, program=program)
    assert toolset.manifest is not None
    stored = toolset_reader(toolset.folder)
    compiled = compile_source(
        declared,
        toolset.manifest,
        source.namespace,
        lambda path: files[path] if path in files else stored(path),
        source.lock,
    )
    check_tools(declared, compiled)
    return Listing(dict(compiled.tools), compiled.lock_fields)


@locks_toolsets
def _write_lock(
    root: Path, source: ToolSource, listing: Listing, files: Mapping[str, bytes]
) -> Refreshed:
    changeable(root, source.toolset.id)
    file = lock_file(root, source.namespace)
    existing = read_lock(file, shown_path(file, root)).value if file.exists() else None
    # Two toolsets that wrote one lock would end the acceptance of each other.
    if existing is not None and existing.toolset_id != source.toolset.id:
        raise CovaltError(
            f"the toolset {existing.toolset_id!r} already uses the namespace {source.namespace!r}",
            hint=f"write in toolsets/state/{source.toolset.id}.yaml: "
            f"aliases: {{{source.declared.id}: {source.toolset.id}-{source.declared.id}}}",
        )
    # Read again under the lock: the request may have taken minutes, in which a pull or the user changed the
    # server.
    current = find_source(root, source.toolset.id, source.namespace)
    if current.declared != source.declared:
        raise StaleError(f"the declaration of {source.what} has changed")
    refreshed = _compare(current, listing)
    new_lock = refreshed.source.lock
    assert new_lock is not None
    with replaced_files(current.toolset.folder, files):
        # An equal lock is not written: watchers of the project would report a change.
        if new_lock != current.lock:
            write_lock(lock_file(root, current.namespace), new_lock)
    return refreshed


def _compare(source: ToolSource, listing: Listing) -> Refreshed:
    old_lock, state = source.lock, source.toolset.state
    old = old_lock.entries if old_lock else {}
    tools = listing.entries
    if tools is None:
        tools = {**old_lock.tools, **old_lock.offers} if old_lock else {}
    program = listing.program
    # The accepted one is started until another is accepted.
    accepted = old_lock.accepted_program(state.accepted) if old_lock else None
    replaced_program = accepted if accepted != program and program is not None else None
    previous = [*old_lock.replaced.items(), *old_lock.tools.items()] if old_lock else []
    # The accepted definition is kept until another is accepted, so that its difference can be reviewed
    # later.
    replaced = {
        name: tool
        for name, tool in previous
        if _is_accepted(state, source.namespace, name, tool)
        and not (name in tools and _is_accepted(state, source.namespace, name, tools[name]))
    }
    replaced, replaced_definitions = _with_definitions(replaced, old_lock)
    stored = {
        "replaced": replaced,
        "replaced_skills": _replaced_skills(old_lock, state, tools),
        "replaced_definitions": replaced_definitions,
        "program": program,
        "replaced_program": replaced_program,
    }
    lock = lock_of_listing(source, tools, {**listing.lock_fields, **stored})
    return Refreshed(source._replace(lock=lock), _differences(old, lock.entries))


def _replaced_skills(
    old_lock: ToolLock | None, state: ToolsetState, entries: Mapping[str, Locked]
) -> dict[str, LockedOffer]:
    """Return the accepted skills that are listed differently now, or not any more."""
    if old_lock is None:
        return {}
    return {
        name: skill
        for name, skill in (*old_lock.replaced_skills.items(), *old_lock.offers.items())
        if skill.kind == "skill"
        and _is_accepted(state, old_lock.namespace, name, skill)
        and not (name in entries and _is_accepted(state, old_lock.namespace, name, entries[name]))
    }


def lock_of_listing(
    source: ToolSource, entries: Mapping[str, Locked], more: Mapping[str, Any]
) -> ToolLock:
    """Return the lock of a source with these tools and offers, and ``more`` fields."""
    return ToolLock.model_validate(
        {
            "namespace": source.namespace,
            "toolset_id": source.toolset.id,
            "kind": source.declared.lock_kind,
            "reference": reference_of(source.declared),
            "tools": {name: tool for name, tool in entries.items() if isinstance(tool, LockedTool)},
            "offers": {
                name: tool for name, tool in entries.items() if isinstance(tool, LockedOffer)
            },
            **more,
        }
    )


def _with_definitions(
    replaced: dict[str, LockedTool], lock: ToolLock | None
) -> tuple[dict[str, LockedTool], dict[str, JsonObject]]:
    """Return replaced tools with the definitions that they share.

    A tool that was replaced before, and whose definitions have changed since, is left out: it would be shown with
    others than the user accepted.
    """
    if lock is None or not any(tool.definitions for tool in replaced.values()):
        return replaced, {}
    stored = Definitions(lock.replaced_definitions | lock.definitions)
    shared = Shared(stored, Types(lock.types))
    complete = {
        name: tool
        for name, tool in replaced.items()
        if shared.digest(tool.request, tool.input_schema, tool.output_schema) == tool.definitions
    }
    schemas = [
        schema for tool in complete.values() for schema in (tool.input_schema, tool.output_schema)
    ]
    return complete, stored.reached(*schemas)


@locks_toolsets
def accept(
    root: Path,
    toolset_id: str,
    namespace: str,
    reviewed: Mapping[str, str | None],
    *,
    texts: Mapping[str, str] = MappingProxyType({}),
    reason: str | None = None,
) -> ToolSource:
    """Accept definitions of a lock: for each tool the reviewed digest, or None for a removed tool.

    ``texts`` has the digest of the ``SKILL.md`` of each skill, whose text the user has read.  They are trusted on this
    machine, with the ``reason`` that a script stated.

    Raises:
        UnknownNameError: if the toolset, the namespace or a tool does not exist.
        NoLockError: if its tools were never listed, or the lock is unreadable.
        StaleError: if a definition has another digest; nothing is accepted.
        TaskOnlyError: if a tool can be called only as a task; nothing is accepted.
        UnreadSkillError: if ``texts`` does not have the text of a skill; nothing is accepted.
    """
    toolset = changeable(root, toolset_id)
    source = find_source(root, toolset_id, namespace)
    lock = _lock_of(source)
    accepted = dict(toolset.state.accepted)
    for name, digest in reviewed.items():
        tool, tool_id = lock.entries.get(name), f"{namespace}:{name}"
        if tool is None and tool_id not in accepted:
            raise UnknownNameError(
                "tool", name, lock.entries, list_with=f"covalt-git source diff {source.shown_id}"
            )
        # Exactly what the user has seen is accepted, not what a refresh wrote meanwhile.
        if (tool.computed_digest if tool else None) != digest:
            raise StaleError(
                f"{shown_entry(tool_id)} has changed since it was shown; nothing is accepted",
                hint=f"covalt-git source diff {source.shown_id}",
            )
        if tool is not None and tool.is_task:
            raise TaskOnlyError(tool_id)
        if isinstance(tool, LockedOffer) and tool.kind == "skill":
            _check_read(source, name, tool, texts.get(name))
        if digest is None:
            del accepted[tool_id]
        else:
            accepted[tool_id] = digest
    others = {f"{namespace}:{name}" for name in (*lock.offers, PROGRAM)}
    tools = {tool_id: digest for tool_id, digest in accepted.items() if tool_id not in others}
    first = _named_first(toolset.state, tools)
    update_state(root, toolset, {"accepted": accepted, "named_first": first})
    decided = {f"{namespace}:{name}": digest for name, digest in reviewed.items() if digest}
    # A clone brings the state file of its author; only this machine says what its user accepted.
    trust_accepted(read_toolset(root, toolset_id), decided, reason)
    replaced = {name: tool for name, tool in lock.replaced.items() if name not in reviewed}
    skills = {name: skill for name, skill in lock.replaced_skills.items() if name not in reviewed}
    program = None if PROGRAM in reviewed else lock.replaced_program
    stored = (lock.replaced, lock.replaced_skills, lock.replaced_program)
    if (replaced, skills, program) != stored:
        schemas = [
            schema
            for tool in replaced.values()
            for schema in (tool.input_schema, tool.output_schema)
        ]
        changed = {
            "replaced": replaced,
            "replaced_skills": skills,
            "replaced_definitions": Definitions(lock.replaced_definitions).reached(*schemas),
            "replaced_program": program,
        }
        write_lock(lock_file(root, namespace), lock.model_copy(update=changed))
    return find_source(root, toolset_id, namespace)


def _check_read(source: ToolSource, name: str, skill: LockedOffer, text: str | None) -> None:
    """Check that a text is that of a skill: a model follows it, so a user does not accept a list of digests."""
    entry = parsed_entry(skill.listed)  # BadSkillError: a lock can come from a pull
    file = entry.file(entry.uri)
    if file is None or file.digest != text:
        raise UnreadSkillError(source.shown_id, name)


def _named_first(state: ToolsetState, accepted: Mapping[str, str]) -> tuple[str, ...]:
    """Return the accepted tools that keep their name for MCP hosts, because others of the same name came later.

    A host has allow lists by name, so the name of a tool must not change because its server adds another one.
    """
    groups: dict[str, list[str]] = {}
    for tool_id in accepted:
        groups.setdefault(host_name(tool_id), []).append(tool_id)
    first = []
    for group in groups.values():
        earlier = [tool_id for tool_id in group if tool_id in state.accepted]
        named = [tool_id for tool_id in group if tool_id in state.named_first] or earlier
        # If several were accepted before, or are accepted at once, none had the name alone.
        if len(group) > 1 and len(named) == 1:
            first += named
    return tuple(sorted(first))


def _lock_of(source: ToolSource) -> ToolLock:
    if source.lock is not None:
        return source.lock
    reading = source.toolset.locks.get(source.declared.id)
    if reading is None:
        raise NoLockError(
            f"the tools of {source.what} have not been listed yet",
            hint=f"covalt-git source refresh {source.shown_id}",
        )
    raise NoLockError(
        f"{reading.path} has errors",
        hint=f"covalt-git source refresh {source.shown_id}",
        problems=reading.problems,
    )


def _by_name(server: McpServer, listed: Iterable[Listed]) -> dict[str, Listed]:
    """Return the tools and offers of a server by their local names."""
    by_name: dict[str, Listed] = {}
    for definition in listed:
        # No tool can have the local name of an offer, whose name has a character that is replaced.
        name = definition.upstream
        if isinstance(definition, LockedOffer):
            if definition.kind == "skill":
                # Users name a skill by its folder.
                name = name.removeprefix("skill://").removesuffix("/SKILL.md")
            name = f"{definition.kind}/{name}"
        if by_name.setdefault(name, definition) != definition:
            what = "tool" if isinstance(definition, LockedTool) else definition.kind
            raise CovaltError(
                f"the MCP server {server.id!r} lists the {what} {definition.upstream!r} twice"
            )
    names = local_names(by_name)
    return {names[name]: definition for name, definition in by_name.items()}


def _differences(
    old: Mapping[str, Locked], new: Mapping[str, Locked]
) -> tuple[ToolDifference, ...]:
    differences = []
    for name in sorted({*old, *new}):
        earlier, after = old.get(name), new.get(name)
        if earlier != after:
            kind: Kind = "new" if earlier is None else "gone" if after is None else "changed"
            differences.append(ToolDifference(name, kind, earlier, after))
    return tuple(differences)


def _to_accept(lock: ToolLock, state: ToolsetState) -> tuple[ToolDifference, ...]:
    prefix = f"{lock.namespace}:"
    ids = [tool_id for tool_id in state.accepted if tool_id.startswith(prefix)]
    digests = {tool_id.removeprefix(prefix): state.accepted[tool_id] for tool_id in ids}
    differences = []
    entries = lock.entries
    for name in sorted({*entries, *digests}):
        after, digest = entries.get(name), digests.get(name)
        if after is not None and (after.is_task or after.computed_digest == digest):
            continue
        earlier: Locked | None = lock.replaced.get(name) or lock.replaced_skills.get(name)
        if name == PROGRAM:
            earlier = lock.replaced_program
        # Not the accepted one: a difference to it would show the reviewer the wrong change.
        if earlier is not None and earlier.computed_digest != digest:
            earlier = None
        kind: Kind = "gone" if after is None else "new" if digest is None else "changed"
        differences.append(ToolDifference(name, kind, earlier, after))
    return tuple(differences)


def _is_accepted(state: ToolsetState, namespace: str, name: str, tool: Locked) -> bool:
    return state.accepted.get(f"{namespace}:{name}") == tool.computed_digest
