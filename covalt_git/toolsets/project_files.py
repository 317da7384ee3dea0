"""All checked-in files of a project: ``covalt.yaml``, its toolsets, and conflicts between them."""

from __future__ import annotations

import shlex
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from covalt_git.access.approval_required import is_about
from covalt_git.access.argument_conditions import patterns_of
from covalt_git.access.shell_arguments import is_shell_argument, is_shell_argument_of
from covalt_git.checks.text_files import check_text, without
from covalt_git.errors import Problem, in_order
from covalt_git.manifests.data_folder import data_problems
from covalt_git.manifests.machine_folders import link_problems
from covalt_git.manifests.override_keys import Claimant, declared_with_aliases
from covalt_git.manifests.project_config import config_reading
from covalt_git.manifests.reading import Reading, read_yaml, shown_path
from covalt_git.manifests.state_files import LOCK_FOLDER, lock_file, read_lock
from covalt_git.manifests.toolset_files import MANIFEST, STATE_FOLDER, readable, toolset_ids
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.names import (
    BUILTIN_NAMESPACE,
    REGISTRY_NAMESPACE,
    RESERVED_TOOLSET_IDS,
    SCRIPT_NAMES,
    id_key,
    matches,
)
from covalt_git.problems import codes
from covalt_git.system.fork_pool import each, ignore_progress
from covalt_git.toolsets.tool_locks import check_lock
from covalt_git.toolsets.toolset import Toolset, read_toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from covalt_git.manifests.model_errors import Loc
    from covalt_git.manifests.override_keys import Namespace
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.rules import PolicyRule
    from covalt_git.models.sources.tool_lock import ToolLock


class CheckedToolset(NamedTuple):
    """The parts of a toolset that checks across toolsets need.

    ``tool_ids`` are as in :class:`Toolset`.  ``requests_grants`` is true if it may lack a grant.
    ``namespaces`` are those of its servers and sources.  ``installed_at`` is when it was imported.  ``locks`` are the
    paths of its servers' lock files.
    """

    id: str
    sound: bool
    enabled: bool
    tool_count: int
    tool_ids: list[str] | None
    requests_grants: bool
    namespaces: tuple[Namespace, ...]
    installed_at: str | None
    locks: tuple[str, ...]
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, toolset: Toolset) -> Self:
        """Return the summary of a toolset."""
        return cls(
            toolset.id,
            toolset.sound,
            toolset.enabled,
            toolset.tool_count,
            toolset.tool_ids,
            toolset.id == REGISTRY_NAMESPACE or _requests_grants(toolset.manifest),
            declared_with_aliases(toolset.manifest, toolset.state),
            toolset.state.installed_at,
            tuple(lock.path for lock in toolset.locks.values()),
            toolset.problems,
        )

    @property
    def claimant(self) -> Claimant:
        """The part of it that decides about namespaces."""
        return Claimant(self.id, self.enabled, self.installed_at, self.namespaces)


def _requests_grants(manifest: ToolsetManifest | None) -> bool:
    if manifest is None:
        return False
    sends = any(tool.http is not None for tool in manifest.tools)
    return sends or bool(manifest.secrets or manifest.tool_sources)


_PARTS = attrgetter(*(one.name for one in fields(Problem)))


class ProjectReading(NamedTuple):
    """The checked-in files of a project, read once."""

    root: Path
    config: ProjectConfig | None
    toolsets: tuple[CheckedToolset, ...]
    problems: tuple[Problem, ...]


def read_project(
    root: Path, report: Callable[[int, int], None] = ignore_progress
) -> ProjectReading:
    """Read and check all checked-in files, on every core.  The content of a file never raises an error.

    ``report`` is called with the number of toolsets read so far, and the number of all toolsets.
    """
    names = toolset_ids(root / "toolsets")
    toolsets: list[CheckedToolset] = []
    for facts, problems in each(lambda name: _checked(root, name), names):
        of_toolset = tuple(Problem(*problem) for problem in problems)
        toolsets.append(CheckedToolset(*(*facts, of_toolset)))
        report(len(toolsets), len(names))
    return read_around(root, tuple(toolsets))


def _checked(root: Path, name: str) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Return the summary of a toolset in plain values, which are fast to send between processes."""
    *facts, problems = CheckedToolset.of(read_toolset(root, name))
    return tuple(facts), [_PARTS(problem) for problem in problems]


def read_around(root: Path, toolsets: tuple[CheckedToolset, ...]) -> ProjectReading:
    """Read and check everything except the toolsets themselves, which the caller has read."""
    config = config_reading(root)
    problems = [
        *_config_problems(config),
        *(problem for toolset in toolsets for problem in toolset.problems),
    ]
    problems += _wide_waivers(config, root, toolsets)
    claimants = [toolset.claimant for toolset in toolsets]
    problems += (conflict.problem for conflict in namespace_conflicts(root, claimants))
    problems += _orphan_problems(root, toolsets)
    problems += _stray_problems(root, toolsets)
    problems += _lock_problems(root, toolsets)
    problems += data_problems(root)
    problems += link_problems(root)
    return ProjectReading(root, config.value, toolsets, in_order(problems))


def _config_problems(config: Reading[ProjectConfig]) -> list[Problem]:
    """Return the problems of ``covalt.yaml``, in its structure and in its text."""
    if config.document is None:
        return list(config.problems)
    of_text, values = check_text(config.document.text, config.path)
    lines = config.value.lines_of_default_role if config.value else None
    if lines is not None:
        message = "without default_role, the user of this machine may call no tool unless --role names a role"
        hint = f"add the line {lines}"
        of_text.append(config.warning(codes.MISSING_KEY, ("roles",), message, hint=hint, key=True))
    of_text += _missing_keys(config)
    return without(values, [*config.problems, *of_text])


def _missing_keys(config: Reading[ProjectConfig]) -> Iterator[Problem]:
    """Yield an error for each issuer whose key file cannot be read, so that all of its tokens are refused."""
    for position, issuer in enumerate(config.value.issuers if config.value else ()):
        if issuer.jwks_file is None or issuer.jwks_file in config.valid.key_digests:
            continue
        message = f"there is no readable file {issuer.jwks_file!r} in the project"
        hint = "add the JWKS with the issuer's public keys, or write jwks_url"
        yield config.problem(codes.NO_FILE, ("issuers", position, "jwks_file"), message, hint=hint)


def _wide_waivers(
    config: Reading[ProjectConfig], root: Path, toolsets: tuple[CheckedToolset, ...]
) -> Iterator[Problem]:
    """Yield a warning for each pattern that waives approval of commands by parts of them, or of all commands."""
    for position, rule in enumerate(config.value.rules if config.value else ()):
        for path, value in (
            (path, value)
            for path, condition in rule.when.args.items()
            for value in patterns_of(condition)
        ):
            is_pattern = not rule.requires and isinstance(value, str) and "*" in value
            if not is_pattern or not _is_for_shell(rule, path, root, toolsets):
                continue
            message = (
                "waives approval of every command"
                if not value.strip("*")
                else f"{value!r} waives approval by parts of a command: options and files can make it run others"
            )
            hint = "write the whole command, such as git status, one rule for each"
            assert config.value is not None
            at: Loc = (*config.value.rule_place(position), "when", "args", path)
            yield config.warning(codes.WIDE_WAIVER, at, message, hint=hint)


def _is_for_shell(
    rule: PolicyRule, path: str, root: Path, toolsets: tuple[CheckedToolset, ...]
) -> bool:
    """Return whether a shell reads an argument of a rule: by its name, or by the schema of a tool of the rule."""
    if is_shell_argument({}, path):
        return True
    matching = (
        toolset.id
        for toolset in toolsets
        if any(
            matches(rule.pattern, tool_id.replace(":", ".")) for tool_id in toolset.tool_ids or ()
        )
    )
    return any(
        is_about(rule, tool) and is_shell_argument_of(tool, path)
        for toolset_id in matching
        for tool in read_toolset(root, toolset_id).tools
    )


class NamespaceConflict(NamedTuple):
    """A namespace that a toolset declares at a place of its manifest, and that the toolset ``owner`` has already."""

    owner: str
    namespace: str
    problem: Problem


class Declaration(NamedTuple):
    """A namespace that a toolset declares: the place in its manifest, the id there, and the namespace in this project."""

    toolset_id: str
    place: Loc
    name: str
    namespace: str

    @property
    def is_own_id(self) -> bool:
        """Whether the namespace is the id of the toolset itself."""
        return self.place == _OWN_ID


_OWN_ID: Loc = ("id",)


def contested_claims(
    root: Path, claimants: Iterable[Claimant]
) -> Iterator[tuple[Declaration, str]]:
    """Yield each declaration of a namespace that another one has already, and the toolset that has it.

    The toolset with this id has a namespace; then an enabled toolset; then the one whose tools are listed under it, so
    that accepted tools keep their owner; then the one that is older in this project, and at last the first by name.  A
    server may have the id of the toolset that contains it.
    """
    toolsets = {claimant.id: claimant for claimant in claimants}
    # An alias renames a server or source only: the tools of a toolset always have its id.
    claims = [Declaration(name, _OWN_ID, name, name) for name in toolsets]
    claims += [
        Declaration(toolset.id, *declared)
        for toolset in toolsets.values()
        for declared in toolset.namespaces
    ]
    groups: dict[str, list[Declaration]] = {}
    for claim in claims:
        if claim.namespace != BUILTIN_NAMESPACE:  # the checks of the toolset report it
            groups.setdefault(id_key(claim.namespace), []).append(claim)

    def precedence(claim: Declaration) -> tuple[bool, bool, bool, str]:
        disabled, since = toolsets[claim.toolset_id].precedence
        is_listed = listed_owner(root, claim.namespace) == claim.toolset_id
        return not claim.is_own_id, disabled, not is_listed, since

    for group in groups.values():
        # Few projects have a conflict, and a lock can have thousands of tools.
        first = group[0] if len(group) == 1 else min(group, key=precedence)
        for claim in group:
            # An alias created the conflict.  Equal ids in a manifest are reported as such.
            twice = claim.namespace != claim.name and first.place not in {_OWN_ID, claim.place}
            if first.toolset_id != claim.toolset_id or twice:
                yield claim, first.toolset_id


def listed_owner(root: Path, namespace: str) -> str | None:
    """Return the toolset whose tools are listed under a namespace; None if none are."""
    file = lock_file(root, namespace)
    lock = read_lock(file, shown_path(file, root)).value if file.exists() else None
    return None if lock is None else lock.toolset_id


def namespace_conflicts(root: Path, claimants: Iterable[Claimant]) -> list[NamespaceConflict]:
    """Return the conflict of each claim of :func:`contested_claims`, in the order of the toolsets."""
    return [conflict_of(root, claim, owner) for claim, owner in contested_claims(root, claimants)]


def conflict_of(root: Path, claim: Declaration, owner: str) -> NamespaceConflict:
    """Return the conflict of a claim of :func:`contested_claims`, in the toolset's file below ``root``."""
    toolset_id = claim.toolset_id
    if claim.is_own_id:
        # The names of folders are not checked here, so they are quoted for the shell.
        paths = [(f"toolsets/{toolset_id}", "toolsets/NEW")]
        if (root / "toolsets" / STATE_FOLDER / f"{toolset_id}.yaml").exists():
            states = f"toolsets/{STATE_FOLDER}"
            paths.append((f"{states}/{toolset_id}.yaml", f"{states}/NEW.yaml"))
        moves = [shlex.join(["git", "mv", *pair]) for pair in paths]
        hint = (
            f"rename one of them: {' && '.join(moves)}, and write id: NEW in its {MANIFEST}; on the pages, export it,"
            " import the file under another name, and uninstall it"
        )
    else:
        alias = f"aliases: {{{claim.name}: {toolset_id}-{claim.name}}}"
        hint = f"rename it, or write in toolsets/{STATE_FOLDER}/{toolset_id}.yaml: {alias}"
    message = f"the toolset {owner!r} already has the namespace {claim.namespace!r}"
    file = root / "toolsets" / toolset_id / MANIFEST
    manifest = read_yaml(file, shown_path(file, root), ToolsetManifest)
    problem = manifest.problem(codes.NAMESPACE_TAKEN, claim.place, message, hint=hint)
    return NamespaceConflict(owner, claim.namespace, problem)


def declared_namespaces(root: Path) -> dict[str, str]:
    """Return the namespaces of all servers and sources, after aliases, with their toolsets."""
    owners = {}
    for name in toolset_ids(root / "toolsets"):
        toolset = read_toolset(root, name)
        for _, _, named in declared_with_aliases(toolset.manifest, toolset.state):
            owners[named] = toolset.id
    return owners


def _lock_problems(root: Path, toolsets: tuple[CheckedToolset, ...]) -> list[Problem]:
    """Check the lock files that no toolset has read: their structure, and that a toolset declares their server."""
    owned = {
        id_key(named): toolset.id for toolset in toolsets for _, _, named in toolset.namespaces
    }
    checked = {path for toolset in toolsets for path in toolset.locks}
    unread = {toolset.id for toolset in toolsets if toolset.tool_ids is None}
    problems: list[Problem] = []
    folder = root / "toolsets" / LOCK_FOLDER
    for file in _generated(folder):
        if file.name == MANIFEST and "toolset" not in owned:
            continue  # a toolset in the wrong place, which _stray_problems reports
        lock = read_lock(file, shown_path(file, root))
        if lock.path in checked:
            continue
        problems += check_lock(lock, None)
        if lock.value is None or lock.value.namespace != file.stem:
            continue
        owner = owned.get(id_key(lock.value.namespace))
        # What a toolset with an unreadable manifest declares is not known.
        if owner != lock.value.toolset_id and lock.value.toolset_id not in unread:
            problems.append(_undeclared(lock, lock.value, owner))
    return problems


def _undeclared(lock: Reading[ToolLock], value: ToolLock, owner: str | None = None) -> Problem:
    message = f"the toolset {value.toolset_id!r} declares no such server or source"
    # The command removes no lock of a namespace that a toolset declares, also of another one than the lock names.
    command = f"rm {lock.path}" if owner else f"covalt-git source remove --lock {value.namespace}"
    return lock.warning(codes.ORPHAN_STATE, ("namespace",), message, hint=f"remove it: {command}")


class LeftOverLock(NamedTuple):
    """The lock of a namespace that no toolset declares, and its problem."""

    lock: ToolLock
    problem: Problem


def left_over_locks(
    root: Path, toolsets: Iterable[tuple[str, Iterable[Namespace]]]
) -> Iterator[LeftOverLock]:
    """Yield the locks of namespaces that no toolset has.

    Other locks are not read: they can have thousands of tools.  ``toolsets`` are the ids of all toolsets with the namespaces of their servers and sources.
    """
    every = list(toolsets)
    ids = {toolset_id for toolset_id, _ in every}
    declared = {id_key(named) for _, names in every for _, _, named in names}
    for file in _generated(root / "toolsets" / LOCK_FOLDER):
        if id_key(file.stem) in declared or file.name == MANIFEST:
            continue
        reading = read_lock(file, shown_path(file, root))
        lock = reading.value
        if lock is None or lock.namespace != file.stem:
            continue
        # As in _lock_problems.
        if lock.toolset_id in ids and read_toolset(root, lock.toolset_id).manifest is None:
            continue
        yield LeftOverLock(lock, _undeclared(reading, lock))


def _stray_problems(root: Path, toolsets: tuple[CheckedToolset, ...]) -> list[Problem]:
    """Find toolsets that are ignored because of the name of their folder."""
    folder = root / "toolsets"
    display_path = shown_path(folder, root)
    strays = []
    own_state = any(toolset.id == "toolset" for toolset in toolsets)  # state/toolset.yaml
    for name in sorted(RESERVED_TOOLSET_IDS):
        if (folder / name / "tools").is_dir() or (
            (folder / name / MANIFEST).is_file() and not own_state
        ):
            message = f"a toolset cannot be named {name!r}: covalt-git writes that folder"
            if name == BUILTIN_NAMESPACE:
                message = f"a toolset cannot be named {name!r}, as the built-in tools are"
            if name in SCRIPT_NAMES:
                message = f"a toolset cannot be named {name!r}: it describes tools in scripts"
            hint = f"rename it: mv {display_path}/{name} {display_path}/my-{name}"
            strays.append(Problem(f"{display_path}/{name}", 0, 0, codes.BAD_ID, message, hint))
    for entry in sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else ():
        if readable(entry.name) != entry.name:
            place = f"{display_path}/{readable(entry.name)}"
            message = "the file name is not UTF-8; covalt-git ignores the file"
            strays.append(Problem(place, 0, 0, codes.FORBIDDEN_FILE, message, "rename it"))
    return strays


def _generated(folder: Path) -> list[Path]:
    """Return the YAML files of a folder of ``toolsets/``; none behind a link, where they are another project's."""
    if folder.is_symlink() or folder.parent.is_symlink():
        return []
    return sorted(file for file in folder.glob("*.yaml") if not file.is_symlink())


def _orphan_problems(root: Path, toolsets: tuple[CheckedToolset, ...]) -> Iterator[Problem]:
    existing = {toolset.id for toolset in toolsets}
    folder = root / "toolsets" / STATE_FOLDER
    for file in _generated(folder):
        if file.stem not in existing and file.name != MANIFEST:
            path, message = shown_path(file, root), f"there is no toolset {file.stem!r}"
            hint = f"remove it: rm {path}"
            yield Problem(path, 0, 0, codes.ORPHAN_STATE, message, hint, "warning")
