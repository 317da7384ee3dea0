"""Validation of a project: reading all of its files, without running any of their code."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.errors import CovaltError, Problem, in_order
from covalt_git.manifests.machine_folders import check_output
from covalt_git.manifests.project_root import CONFIG, POLICY_TESTS
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.operations.context import Context
from covalt_git.operations.registry import InvalidRequestError, Request, Result, operation
from covalt_git.problems.baseline import ProblemKey, baseline_text, compare, read_baseline, update
from covalt_git.system import atomic_write
from covalt_git.system.node_folder import check_changeable
from covalt_git.text import line_diff
from covalt_git.toolsets.permissions import permissions_of
from covalt_git.toolsets.project_files import read_project
from covalt_git.toolsets.state_store import state_file
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust import Consents, config_permissions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from covalt_git.grants.status import MissingGrant
    from covalt_git.manifests.fixes import Fixed
    from covalt_git.toolsets.project_files import CheckedToolset, ProjectReading
    from covalt_git.toolsets.toolset import Toolset

    PathFilter = Callable[[str], bool]


class Validate(Request):
    """Request: the files to check, and a baseline of known problems."""

    paths: tuple[Path, ...] = Field((), description="Files and folders; empty: all.")
    baseline: Path | None = Field(
        None, description="A file of known problems, which are not reported."
    )
    staged: bool = Field(
        default=False, description="Check the files in git's index, not those in the folder."
    )


class WriteBaseline(Request):
    """Request: the baseline file to write, for the current problems."""

    paths: tuple[Path, ...] = ()
    baseline: Path


class FixFiles(Request):
    """Request: the files to fix."""

    paths: tuple[Path, ...] = ()
    write: bool = Field(default=True, description="If false, return the diff and change nothing.")


class KnownProblem(Result):
    """A line of a baseline."""

    path: str
    code: str
    item: str
    message: str


class GrantLacking(Result):
    """A missing grant of a host, a secret or an MCP server: the reason, and the command that adds it."""

    server: str = Field(description="The MCP server; empty for a host or a secret.")
    why: str
    command: str


class Validation(Result):
    """The problems of a project's files."""

    problems: tuple[Problem, ...]
    toolsets: int
    tools: int
    unchecked: tuple[str, ...] = Field(
        description="Files with errors, for which later checks did not run."
    )
    lacking: tuple[GrantLacking, ...] = Field(description="Of enabled toolsets.")
    not_trusted: tuple[str, ...] = Field(
        description="Permissions that do not act on this machine, because its user has not trusted them."
    )
    in_baseline: int = Field(description="Number of problems that the baseline hides.")
    stale: tuple[KnownProblem, ...] = Field(description="Lines of the baseline without a problem.")
    fixable: int = Field(description="Number of problems that fix_files would fix.")
    without_problems: tuple[str, ...] = Field(description="Manifests without problems.")


class BaselineWritten(Result):
    """A baseline that was written."""

    problems: int


class FilesFixed(Result):
    """Fixed problems; ``diff`` is a unified diff of the files."""

    fixed: tuple[Problem, ...]
    diff: str


@operation(local=True)
def validate(context: Context, request: Validate) -> Validation:
    """Check covalt.yaml, all toolsets and the state files, without running any of their code."""
    path_filter = _path_filter(context.root, request.paths)
    if not request.staged:
        return _validation(context, context.root, request, path_filter)
    from covalt_git.git_store.outer_repository import write_staged  # noqa: PLC0415 - only hooks need it

    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        # Only what is read here: a repository may have many other files.
        write_staged(context.root, Path(name), only={CONFIG, POLICY_TESTS, "toolsets"})
        return _validation(context, Path(name), request, path_filter)


def _validation(
    context: Context, root: Path, request: Validate, path_filter: PathFilter
) -> Validation:
    """Check the project whose files are in ``root``."""
    reading = read_project(root, context.progress)
    problems = _problems(reading, path_filter)
    toolsets = [
        toolset
        for toolset in reading.toolsets
        if path_filter(_manifest(toolset)) or path_filter(f"toolsets/state/{toolset.id}.yaml")
    ]
    baseline: Counter[ProblemKey] = Counter()
    if request.baseline is not None:
        entries = read_baseline(request.baseline)
        baseline = Counter({entry: entries[entry] for entry in entries if path_filter(entry.path)})
    compared = compare(problems, baseline)
    broken = {problem.path for problem in compared.new}
    manifests = [CONFIG, *(_manifest(toolset) for toolset in reading.toolsets)]
    return Validation(
        problems=tuple(compared.new),
        toolsets=len(toolsets),
        tools=sum(toolset.tool_count for toolset in toolsets),
        unchecked=tuple(path for path in _unreadable(reading) if path_filter(path)),
        lacking=_lacking(context, reading.root, toolsets),
        # Trust is for the project's own folder, also while staged files are checked in another one.
        not_trusted=_not_trusted(context.root, reading),
        in_baseline=compared.hidden,
        stale=compared.stale,
        fixable=_fixable(root, compared.new),
        without_problems=tuple(
            path for path in manifests if path_filter(path) and path not in broken
        ),
    )


@operation(changes=True, local=True)
def write_baseline(context: Context, request: WriteBaseline) -> BaselineWritten:
    """Write the problems of a project to a baseline; entries of other files are kept."""
    path_filter = _path_filter(context.root, request.paths)
    problems = _problems(read_project(context.root, context.progress), path_filter)
    old_entries = (
        read_baseline(request.baseline) if request.baseline.exists() else Counter[ProblemKey]()
    )
    entries = update(problems, old_entries, path_filter)
    # A clone may have a link here, which leads outside of the project (tests/security/test_links_of_a_clone.py).
    check_output(request.baseline)
    atomic_write.replace(request.baseline, baseline_text(entries))
    return BaselineWritten(problems=entries.total())


@operation(changes=True, local=True)
def fix_files(context: Context, request: FixFiles) -> FilesFixed:
    """Rename misspelt keys in the files, and write the approvals of covalt.yaml as rules."""
    root, path_filter = context.root, _path_filter(context.root, request.paths)
    if request.write:
        check_changeable(root)
    reading = read_project(root, context.progress)
    problems = _problems(reading, path_filter)
    has_approvals = reading.config is not None and bool(reading.config.approvals)
    also = [CONFIG] if has_approvals and path_filter(CONFIG) else []
    fixed: list[Problem] = []
    diffs: list[str] = []
    for path, old_text, after in _fixes(root, problems, also=also):
        fixed += after.problems
        diffs.append(line_diff.unified(old_text, after.text, (f"a/{path}", f"b/{path}")))
        if not request.write:
            continue
        if (root / path).read_bytes() != old_text.encode():
            raise CovaltError(
                f"another program changed {path!r} meanwhile, so it was not fixed",
                hint="covalt-git validate --fix",
            )
        atomic_write.replace(root / path, after.text)
    return FilesFixed(fixed=tuple(fixed), diff="".join(diffs))


def project_problems(root: Path) -> list[Problem]:
    """Return all problems of the project in a folder, as :func:`validate` finds them."""
    return _problems(read_project(root), lambda _path: True)


def _path_filter(root: Path, paths: Sequence[Path]) -> PathFilter:
    """Return a predicate: whether to report on a file, by its path in the project."""
    if not paths:
        return lambda _path: True
    within = []
    for path in paths:
        if not path.exists():
            raise InvalidRequestError(f"no file or folder {str(path)!r}")
        if not path.resolve().is_relative_to(root.resolve()):
            raise InvalidRequestError(f"{str(path)!r} is not part of the project in {str(root)!r}")
        parts = path.resolve().relative_to(root.resolve()).parts
        within.append("/".join(parts))
        if parts[:1] == ("toolsets",) and len(parts) > 2:  # noqa: PLR2004 - toolsets, its id, a file
            # A change of this file, such as a renamed function, may be an error of the manifest.
            within.append(f"toolsets/{parts[1]}/toolset.yaml")
    return lambda path: any(
        not prefix or path == prefix or path.startswith(f"{prefix}/") for prefix in within
    )


def _problems(reading: ProjectReading, path_filter: PathFilter) -> list[Problem]:
    problems, config = reading.problems, reading.config
    if config is not None and (config.rules or (reading.root / POLICY_TESTS).exists()):
        from covalt_git.authority.policy_problems import policy_problems  # noqa: PLC0415 - not all need it

        problems = in_order([*problems, *policy_problems(reading.root)])
    return [problem for problem in problems if path_filter(problem.path)]


def _manifest(toolset: CheckedToolset) -> str:
    return f"toolsets/{toolset.id}/{MANIFEST}"


def _unreadable(reading: ProjectReading) -> list[str]:
    """Return the files that do not match their models, so that only their structure is checked."""
    config = [CONFIG] if reading.config is None else []
    return config + [_manifest(toolset) for toolset in reading.toolsets if toolset.tool_ids is None]


def _not_trusted(root: Path, reading: ProjectReading) -> tuple[str, ...]:
    """Return the permissions that are not trusted on this machine; these are not errors of a file."""
    if reading.config is None:
        return ()
    permissions = config_permissions(reading.config)
    for toolset in reading.toolsets:
        # Without a state file a toolset has no permissions, and need not be read again.
        if state_file(root, toolset.id).exists():
            permissions += permissions_of(read_toolset(root, toolset.id), reading.config)
    return tuple(permission.text for permission in Consents.of(root).lacking(permissions))


def _lacking(
    context: Context, root: Path, toolsets: Sequence[CheckedToolset]
) -> tuple[GrantLacking, ...]:
    """Return the grants that toolsets lack; these are not errors of a file.

    A registered tool is left out if the role may not see it, or the tool to which it forwards its calls.
    """
    used = [
        toolset
        for toolset in toolsets
        if toolset.sound and toolset.enabled and toolset.requests_grants
    ]
    if not used:
        return ()
    from covalt_git.grants.status import missing_grants  # noqa: PLC0415 - few toolsets need a grant

    return tuple(
        GrantLacking.of(grant)
        for toolset in [read_toolset(root, toolset.id) for toolset in used]
        for grant in missing_grants(toolset)
        if grant.kind != "tool" or _shows_target(context, toolset, grant)
    )


def _shows_target(context: Context, toolset: Toolset, grant: MissingGrant) -> bool:
    """Return whether the role may see a registered tool and the tool to which it forwards its calls."""
    tool = toolset.tool(f"{toolset.id}:{grant.name}")
    ids = (tool.tool_id, tool.alias_of) if tool is not None else ()
    try:
        visibility = context.visibility
    except CovaltError:  # the project cannot be opened, so the rights of the role are unknown
        return False
    return all(visibility.sees(tool_id) for tool_id in ids if tool_id is not None)


def _fixable(root: Path, problems: Sequence[Problem]) -> int:
    places = {(problem.path, problem.line, problem.col, problem.code) for problem in problems}
    return sum(
        (problem.path, problem.line, problem.col, problem.code) in places
        for _, _, fixed in _fixes(root, problems)
        for problem in fixed.problems
    )


def _fixes(
    root: Path, problems: Sequence[Problem], *, also: Collection[str] = ()
) -> Iterator[tuple[str, str, Fixed]]:
    """Yield the path of each fixable file, its text, and the fixed text; ``also`` are files without a problem."""
    if not problems and not also:
        return
    from covalt_git.manifests.fixes import fix_text, fixable_files  # noqa: PLC0415 - few have any

    for path in sorted({*fixable_files(problems), *also}):
        file = root / path
        if file.is_symlink():
            # The target of a link is not part of this project
            # (test_fixes_keep_to_the_given_paths_and_leave_links_alone).
            continue
        # Not read_text, which converts line ends: then `fix_files` would find the file changed meanwhile.
        old_text = file.read_bytes().decode("utf-8")
        fixed = fix_text(old_text, path)
        if fixed.problems:
            yield path, old_text, fixed
