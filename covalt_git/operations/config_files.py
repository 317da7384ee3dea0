"""Operations on ``covalt.yaml``: read it, fix its misspelt keys, change its text; also while it has errors.

The file decides what each role may do.  So only an admin with the server's own token may read or change it here.  A
change is shown before it is made: ``dry_run`` returns the difference, the problems and the change of authority.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from covalt_git.authority import compare, read_files
from covalt_git.authority.policy_problems import policy_problems
from covalt_git.errors import Problem, in_order
from covalt_git.git_store.objects import FILE
from covalt_git.git_store.patches import file_patch
from covalt_git.manifests.fixes import fix_text
from covalt_git.manifests.project_config import BrokenConfigError
from covalt_git.manifests.project_root import CONFIG
from covalt_git.operations.context import Context, ForbiddenError
from covalt_git.operations.registry import (
    EmptyRequest,
    Request,
    Result,
    any_of,
    invalid_field,
    operation,
)
from covalt_git.operations.toolset_files import BASE, HandWrittenChange, key_of, problems_in, solved
from covalt_git.system.node_folder import check_changeable
from covalt_git.toolsets import config_changes
from covalt_git.toolsets.config_changes import MISSING, committed_config, read_config_text
from covalt_git.toolsets.file_changes import MOST_EDITED, moved
from covalt_git.toolsets.project_files import read_around

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.authority import ProjectSnapshot

_ACTION = "read or change covalt.yaml"


class FixConfig(Request):
    """Request: fix the misspelt keys of ``covalt.yaml``."""

    model_config = any_of("base", dry_run=True)

    base: str | None = Field(
        None, max_length=64, description=f"{BASE}  Required unless ``dry_run`` is set."
    )
    dry_run: bool = Field(default=False, description="Return what would change; write nothing.")


class UpdateConfig(Request):
    """Request: the new text of ``covalt.yaml``."""

    content: str
    base: str = Field(max_length=64, description=f"{BASE}  With ``missing``, the file is created.")
    dry_run: bool = Field(default=False, description="Return what would change; write nothing.")


class ConfigFile(Result):
    """The text of ``covalt.yaml``, exactly as it is, with the ``base`` of a change."""

    text: str = Field(description="Empty if the file is missing.")
    base: str = Field(description=BASE)
    missing: bool = Field(description="Whether the file is missing.")
    broken: bool = Field(description="Whether it has errors, so that no tool can be called.")
    problems: tuple[Problem, ...]
    fixable: int = Field(description="Number of its problems that fix_config fixes.")
    committed: str | None = Field(
        description="The text in git's last commit; null without one, or if it is no text."
    )


class ConfigChange(HandWrittenChange):
    """A change of ``covalt.yaml``."""


class ConfigFixed(ConfigChange):
    """The fixed problems of ``covalt.yaml``, with their old places, and the change."""

    fixed: tuple[Problem, ...]


@operation(errors=(409,), admin=_ACTION, repairs=True)
def get_config(context: Context, _: EmptyRequest) -> ConfigFile:
    """Return the text of covalt.yaml with its problems, also while it has errors."""
    context.require(lambda: _check_holder(context))
    root = context.root
    current = read_config_text(root)
    reading = read_around(root, ())
    problems = [*reading.problems, *policy_problems(root)]
    committed = committed_config(root)
    return ConfigFile(
        text=current.text,
        base=current.sha256,
        missing=current.sha256 == MISSING,
        broken=reading.config is None,
        problems=in_order(problem for problem in problems if problem.path == CONFIG),
        fixable=len(fix_text(current.text, CONFIG).problems),
        committed=None if committed is None else _decoded(committed),
    )


@operation(changes=True, errors=(409,), admin=_ACTION, repairs=True)
def fix_config(context: Context, request: FixConfig) -> ConfigFixed:
    """Rename the misspelt keys of covalt.yaml, as ``covalt-git validate --fix`` does; comments and layout stay.

    With ``dry_run``, it returns the difference and writes nothing.  If the file no longer has the SHA-256 ``base``,
    nothing is written and the answer is 409 ``moved``.
    """
    context.require(lambda: _check_holder(context))
    if request.base is None and not request.dry_run:
        raise invalid_field("base", "required unless dry_run is true")
    fixed = fix_text(read_config_text(context.root).text, CONFIG)
    change = _change(context, fixed.text, request)
    # The checks report some misspelt keys only after others are fixed.
    solved_count = max(change.solved, len(fixed.problems))
    return ConfigFixed.of(change, fixed=fixed.problems, solved=solved_count)


@operation(changes=True, errors=(409,), admin=_ACTION, repairs=True)
def update_config(context: Context, request: UpdateConfig) -> ConfigChange:
    """Write covalt.yaml as UTF-8, exactly as it is sent, also while it has errors; its mode is kept.

    With ``dry_run``, it returns the problems and the change of authority, and writes nothing.  If the file no longer has
    the SHA-256 ``base``, nothing is written and the answer is 409 ``moved``.
    """
    context.require(lambda: _check_holder(context))
    if "\0" in request.content or len(request.content.encode()) > MOST_EDITED:
        raise invalid_field(
            "content",
            f"a text without null characters, of at most {MOST_EDITED >> 20} MiB, was expected",
        )
    return _change(context, request.content, request)


def _check_holder(context: Context) -> None:
    """Refuse the holder of an issuer's access token, whatever its role, as for files of toolsets."""
    # While the file has errors, the check of the admin has refused it.
    with suppress(BrokenConfigError):
        if context.project.principal.token is not None:
            raise ForbiddenError(
                f"the holder of an access token may not {_ACTION}",
                hint="use the server's own token, or an editor of the server's machine",
            )


def _decoded(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _change(context: Context, new_text: str, request: FixConfig | UpdateConfig) -> ConfigChange:
    """Compare ``covalt.yaml`` with its new text, and write it unless the request is a dry run."""
    root = context.root
    check_changeable(root)
    current = read_config_text(root)
    if request.base not in {None, current.sha256}:
        raise moved(CONFIG)
    old = None if current.sha256 == MISSING else current.text.encode()
    content = new_text.encode()
    changed = content != old
    compared = _compared(root, old, content)
    comparison = compare(compared.old, compared.new)
    old_keys = {key_of(problem) for problem in compared.old_problems}
    writes = changed and not request.dry_run
    undo = f"git checkout HEAD -- {CONFIG}" if old and committed_config(root) == old else ""
    if writes:
        config_changes.replace_config(root, content, base=current.sha256)
    return ConfigChange(
        base=current.sha256,
        sha256=hashlib.sha256(content).hexdigest(),
        changed=changed,
        written=writes,
        diff=file_patch(CONFIG, None if old is None else (FILE, old), (FILE, content)).decode()
        if changed
        else "",
        problems=tuple(
            problem
            for problem in compared.problems
            if problem.path == CONFIG or key_of(problem) not in old_keys
        ),
        solved=solved(
            (problem for problem in compared.old_problems if problem.path == CONFIG),
            compared.problems,
        ),
        compared_with=compared.compared_with,
        grown=comparison.grown,
        authority=tuple(change for change in comparison.changes if change.verdict != "neutral"),
        undo=undo,
    )


class _Compared(NamedTuple):
    """A project before and after a change of ``covalt.yaml``, with the problems of both."""

    old: ProjectSnapshot
    new: ProjectSnapshot
    old_problems: tuple[Problem, ...]
    problems: tuple[Problem, ...]
    compared_with: Literal["files", "commit"]


def _compared(root: Path, old_content: bytes | None, content: bytes) -> _Compared:
    compared_with: Literal["files", "commit"] = "files"
    with config_changes.copied_project(root) as copy:
        config_changes.use_config(root, copy, old_content)
        authority = old = read_files(copy)
        old_problems = problems_in(copy, old)
        committed = committed_config(root) if old.config.value is None else None
        # What a broken file permits is not known, so a fix would seem to permit all that it does.
        if committed is not None:
            config_changes.use_config(root, copy, committed)
            authority, compared_with = read_files(copy), "commit"
        config_changes.use_config(root, copy, content)
        new = read_files(copy)
        problems = problems_in(copy, new)
    return _Compared(authority, new, old_problems, problems, compared_with)
