"""The project as a whole: where it is, what ``covalt.yaml`` says, and its toolsets together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, Problem
from covalt_git.files.reading import Reading, read_yaml, shown_path
from covalt_git.files.toolsets import STATE_FOLDER, Toolset, read_toolset, toolset_ids
from covalt_git.models import problems as codes
from covalt_git.models.project_config import ProjectConfig
from covalt_git.names import id_key

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "covalt.yaml"


class NotAProjectError(CovaltError):
    """There is no project here."""

    code = "not_a_project"
    exit_code = 2


class BrokenConfigError(CovaltError):
    """``covalt.yaml`` cannot be used: nothing is done on a guess at what it allows."""

    code = "broken_config"


@dataclass(frozen=True, slots=True)
class ProjectReading:
    """Everything that is checked in, read once."""

    root: Path
    config: ProjectConfig | None
    toolsets: tuple[Toolset, ...]
    problems: tuple[Problem, ...]


def find_root(start: Path) -> Path:
    """Return the project that ``start`` is in: the nearest folder above with a ``covalt.yaml``.

    Raises:
        NotAProjectError: when there is none.
    """
    for folder in (start.absolute(), *start.absolute().parents):
        if (folder / CONFIG).is_file():
            return folder
    raise NotAProjectError(
        f"there is no {CONFIG} in {str(start)!r} or above it",
        hint="covalt-git init demo && cd demo",
    )


def read_config(root: Path) -> ProjectConfig:
    """Return what ``covalt.yaml`` says.

    Raises:
        BrokenConfigError: with everything that is wrong with it.
    """
    reading = _read_config(root)
    if reading.value is None:
        raise BrokenConfigError(
            f"{CONFIG} cannot be used", hint="covalt-git validate", problems=reading.problems
        )
    return reading.value


def read_project(root: Path) -> ProjectReading:
    """Read and check everything that is checked in.  Never raises for what files hold."""
    config = _read_config(root)
    toolsets = tuple(read_toolset(root, name) for name in toolset_ids(root / "toolsets"))
    problems = [*config.problems, *(problem for one in toolsets for problem in one.problems)]
    problems += _namespace_problems(root, toolsets)
    problems += _orphan_problems(root, toolsets)
    return ProjectReading(root, config.value, toolsets, tuple(sorted(set(problems))))


def _read_config(root: Path) -> Reading[ProjectConfig]:
    return read_yaml(root / CONFIG, shown_path(root / CONFIG, root), ProjectConfig)


def _namespace_problems(root: Path, toolsets: tuple[Toolset, ...]) -> list[Problem]:
    """Find namespaces that two toolsets own; a toolset may share its name with its own servers."""
    owners: dict[str, str] = {}
    problems = []
    for toolset in toolsets:
        manifest = toolset.manifest
        own = [toolset.id]
        if manifest is not None:
            own += [server.id for server in manifest.mcp_servers]
            own += [source.id for source in manifest.sources]
        for namespace in own:
            named = toolset.state.aliases.get(namespace, namespace)
            owner = owners.setdefault(id_key(named), toolset.id)
            if owner != toolset.id:
                place = shown_path(toolset.folder / "toolset.yaml", root)
                message = f"the namespace {named!r} belongs to the toolset {owner!r}"
                hint = (
                    f"rename it, or give it an alias in toolsets/{STATE_FOLDER}/{toolset.id}.yaml"
                )
                problems.append(Problem(place, 0, 0, codes.NAMESPACE_TAKEN, message, hint))
    return problems


def _orphan_problems(root: Path, toolsets: tuple[Toolset, ...]) -> list[Problem]:
    known = {toolset.id for toolset in toolsets}
    folder = root / "toolsets" / STATE_FOLDER
    return [
        Problem(
            shown_path(file, root),
            0,
            0,
            codes.ORPHAN_STATE,
            f"there is no toolset {file.stem!r}",
            f"remove it: rm {shown_path(file, root)}",
            "warning",
        )
        for file in sorted(folder.glob("*.yaml"))
        if file.stem not in known
    ]
