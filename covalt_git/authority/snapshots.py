"""Snapshots of a project: its current files, or the files of a commit.

Only this module of the package reads files.  It writes the files of a commit to a temporary folder and
reads them there, so the repository and its working tree do not change.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.authority.project_facts import project_facts
from covalt_git.authority.toolset_facts import tools_of, toolset_facts
from covalt_git.errors import Problem, in_order
from covalt_git.manifests.project_config import config_reading
from covalt_git.manifests.project_root import CONFIG
from covalt_git.manifests.reading import Reading, shown_path
from covalt_git.manifests.state_files import LOCK_FOLDER
from covalt_git.manifests.toolset_files import STATE_FOLDER, toolset_ids
from covalt_git.models.project_config import ProjectConfig
from covalt_git.problems import codes
from covalt_git.toolsets.project_files import CheckedToolset, read_around
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from covalt_git.authority.facts import Fact
    from covalt_git.models.tool import Tool
    from covalt_git.toolsets.toolset import Toolset

_MAX_KEYS = 1 << 20
"""Maximum number of bytes of a key file that are hashed."""


class SnapshotPart(NamedTuple):
    """``covalt.yaml`` or one toolset: the unit that can be unreadable because of errors.

    Attributes:
        name: its path in the project.
        facts: its facts, sorted; empty if it is unreadable.
        problems: its errors.
        digest: digest of its files, to recognize an unchanged part that is unreadable.
        readable: whether its facts could be read.
    """

    name: str
    facts: tuple[Fact, ...]
    problems: tuple[Problem, ...]
    digest: str
    readable: bool


@dataclass(frozen=True, slots=True)
class ProjectSnapshot:
    """A project at a commit; ``commit`` is None for the current files."""

    commit: str | None
    config: Reading[ProjectConfig]
    toolsets: tuple[Toolset, ...]
    problems: tuple[Problem, ...]
    digests: Mapping[str, str]
    """Digests of ``covalt.yaml``, of each toolset with its state and locks, and of key files."""

    outside: Mapping[str, str] = field(default_factory=dict)
    """Paths that lead out of the commit: links, and submodules with their commits."""

    @property
    def settings(self) -> ProjectConfig:
        """The settings of ``covalt.yaml``, which must be readable."""
        return self.config.valid

    def parts(self, config: ProjectConfig | None) -> dict[str, SnapshotPart]:
        """Return the parts with their facts.

        The approval rules and limits of tools come from ``config``.  Pass None, for the defaults, if
        ``covalt.yaml`` is unreadable in one of the two snapshots.
        """
        config = config or ProjectConfig(version=1)
        parts_of_project = [self._project()]
        parts_of_project += [self._toolset(toolset, config) for toolset in self.toolsets]
        parts_of_project += [
            SnapshotPart(path, (), self._errors(path), digest, readable=False)
            for path, digest in self.outside.items()
            if path != CONFIG
        ]
        return {part.name: part for part in parts_of_project}

    def tools(self) -> dict[str, Tool]:
        """Return the tools that can be called, by their ids."""
        readable = (toolset for toolset in self.toolsets if _is_readable(toolset))
        return {tool.tool_id: tool for toolset in readable for tool in tools_of(toolset)}

    def _project(self) -> SnapshotPart:
        readable = self.config.value is not None
        facts = tuple(project_facts(self.config, self.digests)) if readable else ()
        errors = self._errors(CONFIG)
        return SnapshotPart(CONFIG, _sorted(facts), errors, self.digests.get(CONFIG, ""), readable)

    def _toolset(self, toolset: Toolset, config: ProjectConfig) -> SnapshotPart:
        name = f"toolsets/{toolset.id}"
        readable = _is_readable(toolset)
        facts = tuple(toolset_facts(toolset, config)) if readable else ()
        errors = self._errors(name, *_other_files(toolset))
        return SnapshotPart(name, _sorted(facts), errors, self.digests[name], readable)

    def _errors(self, *paths: str) -> tuple[Problem, ...]:
        """Return the errors of files and of everything in folders."""
        within = tuple(f"{path}/" for path in paths)
        errors = (problem for problem in self.problems if problem.severity == "error")
        return tuple(problem for problem in errors if f"{problem.path}/".startswith(within))


def read_files(root: Path, others: Sequence[Toolset] = ()) -> ProjectSnapshot:
    """Return a snapshot of the current files of the project in ``root``.

    ``others`` are toolsets of the project whose files are not in ``root``, which is a copy for one toolset.
    """
    return _read(root, None, others=others)


def read_commit(root: Path, revision: str) -> ProjectSnapshot:
    """Return a snapshot of the project in ``root`` at a commit.

    Raises:
        UnknownRevisionError: if the commit does not exist.
    """
    from covalt_git.git_store.outer_repository import write_folder  # noqa: PLC0415 - it loads dulwich

    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        folder = Path(name)
        commit, outside = write_folder(root, revision, folder, only={CONFIG, "toolsets"})
        outside.pop(CONFIG, None)
        # Before anything is read: a link of the commit would lead to a file of this machine.
        outside |= _remove_links(folder, commit)
        config = config_reading(folder)
        keys = (
            {
                Path(issuer.jwks_file).parts[:1]
                for issuer in config.value.issuers
                if issuer.jwks_file
            }
            if config.value
            else set()
        )
        # A key file is anywhere in the project; `..` and absolute paths are not in the commit.
        more = {part for parts in keys for part in parts} - {CONFIG, "toolsets", "/", ".."}
        if more:
            write_folder(root, revision, folder, only=more)
        return _read(folder, commit, outside)


def _remove_links(root: Path, commit: str) -> dict[str, str]:
    """Remove symbolic links in place of the project's files, because their targets are not in the commit."""
    folders = [root / "toolsets" / name for name in (STATE_FOLDER, LOCK_FOLDER)]
    links = []
    for path in [root / CONFIG, root / "toolsets", *folders]:
        if path.is_symlink():
            links.append(path)
            path.unlink()
    for folder in folders:
        for file in sorted(folder.glob("*")) if folder.is_dir() else ():
            if file.is_symlink():
                links.append(file)
                file.unlink()
    return {shown_path(path, root): commit for path in links}


def _read(
    root: Path,
    commit: str | None,
    outside: Mapping[str, str] | None = None,
    others: Sequence[Toolset] = (),
) -> ProjectSnapshot:
    config = config_reading(root)
    own = [read_toolset(root, name) for name in toolset_ids(root / "toolsets")]
    toolsets = tuple(sorted([*own, *others], key=attrgetter("id")))
    around = read_around(root, tuple(map(CheckedToolset.of, toolsets)))
    digests = {CONFIG: _digest(root / CONFIG)}
    digests |= {f"toolsets/{toolset.id}": _toolset_digest(root, toolset) for toolset in toolsets}
    for issuer in config.value.issuers if config.value else ():
        if issuer.jwks_file is not None:
            digests[issuer.jwks_file] = _digest(root / issuer.jwks_file, within=root)
    outside = outside or {}
    message = "it leads out of the commit, so its content is unknown"
    more = {
        Problem(path, 0, 0, codes.FORBIDDEN_FILE, message, "commit the files themselves")
        for path in outside
    }
    problems = in_order({*around.problems, *more})
    return ProjectSnapshot(commit, config, toolsets, problems, digests, outside)


def _is_readable(toolset: Toolset) -> bool:
    manifest = toolset.manifest
    return (
        manifest is not None
        and manifest.id == toolset.id
        and toolset.state_reading.value is not None
        and all(lock.value is not None for lock in toolset.locks.values())
    )


def _other_files(toolset: Toolset) -> list[str]:
    """Return the paths of its state file and of its locks, which are not in its folder."""
    return [toolset.state_reading.path, *(lock.path for lock in toolset.locks.values())]


def _toolset_digest(root: Path, toolset: Toolset) -> str:
    texts = [toolset.digest, str(sorted(problem.message for problem in toolset.files.problems))]
    texts += [_digest(root / path) for path in _other_files(toolset)]
    return hashlib.sha256("\n".join(texts).encode("utf-8", "replace")).hexdigest()


def _digest(file: Path, within: Path | None = None) -> str:
    """Return the digest of a file, ``missing``, or ``outside`` if it is not within a folder."""
    # A link could lead to a file of the user, whose digest the report would print.
    if within is not None and not file.resolve().is_relative_to(within.resolve()):
        return "outside"
    try:
        with file.open("rb") as stream:
            # The commit decides what the file is; a huge one, or a device, must not be read to its end.
            return hashlib.sha256(stream.read(_MAX_KEYS)).hexdigest()
    except OSError:
        return "missing"


def _sorted(facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    return tuple(sorted(facts, key=lambda fact: (fact.key, fact.place)))
