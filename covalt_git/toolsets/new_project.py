"""Creation of a project: its configuration, sample toolsets, JSON Schemas and ``.gitignore``."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store.outer_repository import commit_files, create_work_repository
from covalt_git.manifests.machine_folders import check_links, check_no_link
from covalt_git.manifests.project_root import CONFIG
from covalt_git.manifests.published_schemas import NAMES, file_name, modeline, schema_text
from covalt_git.manifests.toolset_files import MANIFEST, PYCACHE
from covalt_git.names import RESERVED_TOOLSET_IDS, is_id, new_id
from covalt_git.system import atomic_write
from covalt_git.toolsets.update_lock import STAGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SAMPLES = ("app-builder", "data-lab", "text-kit")

SCHEMAS = ".covalt/schemas"
"""The folder of the JSON Schemas that the first line of each YAML file names.  They are checked in,
so that an editor needs neither covalt-git nor a network."""

_WRITTEN = {
    "toolsets": "in which each folder is a toolset",
    "data": "which has its chats and its index",
    ".covalt": "which has generated files",
}
"""What is in the folders of a project that commands write to."""

REPOSITORY = "a git repository"
"""The name of the new repository in the result of :func:`create_project`."""

CONFIG_TEXT = """\
# yaml-language-server: $schema=.covalt/schemas/covalt.schema.json
# The settings of this covalt-git project; this file marks its root.
# Only `version` is required.  To check this file: covalt-git validate
version: 1

# Who may call which tools.  Without roles, the user of this machine may do everything.
# A pattern matches the path of a tool: * is one part, ** any number of parts; deny wins.
#
# default_role: developer
# roles:
#   developer:
#     allow: ["app-builder.**", "data-lab.**"]
#     deny: ["app-builder.run_command"]
#     approve: ["app-builder.write_*"]
#   owner:
#     admin: true

# Which calls require approval.  The first rule that matches a call decides.  Without a rule, the
# toolset decides; only a rule here (or in toolsets/state/) can waive an approval that it requires.
# Texts are compared both as they are and as normalized paths: a/../.env/ is .env.
rules:
  - effect: ask
    pattern: "**"
    when: {args: {path: "*.env"}}

workspace:
  # File names that commits leave out; a name that ends with / matches folders only.
  ignore: [__pycache__/, node_modules/, .venv/]
  max_file_mb: 100
  # full: fsync before a command ends.  fast: no fsync, so a power failure can lose commits.
  durability: full

# Upper limits of a call; a tool can set lower ones.  The defaults are 60 s and 16 MiB of output.
limits:
  # timeout_s: 300
  # memory_mb: 2048
  approval_expires_s: 86400
"""

GITIGNORE_TEXT = """\
# chats and the index; the history of a chat is the git repository data/chats/<id>/store.git
/data/
# temporary folders of imports and removals
/toolsets/.*
__pycache__/
"""


def create_project(folder: Path) -> list[str]:
    """Create a project in ``folder`` with the sample toolsets; return the names of the created files and folders.

    Existing files are not changed.  ``git init`` runs only if the folder is not in a git repository.

    Raises:
        LinkedFolderError: if a folder or a file that it writes is a link.
        CovaltError: ``project_exists``, when the folder is already a project; ``invalid_folder``, when it is in a
            folder that commands of another project write to.
    """
    _check_place(folder)
    # A clone can have links in these places, which would make init write outside of the folder that the user named.
    check_no_link(folder, folder / CONFIG)
    if (folder / CONFIG).exists():
        raise CovaltError(
            f"{str(folder)!r} is a project already",
            hint=f"cd {shlex.quote(str(folder))} && covalt-git validate",
            code="project_exists",
            http_status=409,
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise CovaltError(f"{str(folder)!r} is not a folder", hint="choose another name") from None
    check_links(folder)
    for name in (CONFIG, ".gitignore", *(f"toolsets/{sample}" for sample in SAMPLES)):
        check_no_link(folder, folder / name)
    created = []
    for sample in SAMPLES:
        target = folder / "toolsets" / sample
        if not target.exists():
            copy_toolset(sample_toolset(sample), target)
            created.append(f"toolsets/{sample}")
    write_schemas(folder)
    created.append(SCHEMAS)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text(GITIGNORE_TEXT, encoding="utf-8")
        created.append(".gitignore")
    if _repository_above(folder) is None:
        create_work_repository(folder)
        created.append(REPOSITORY)
    # The file that marks a project is written last, so that an interrupted command can be repeated.
    (folder / CONFIG).write_text(CONFIG_TEXT, encoding="utf-8")
    return [CONFIG, *created]


def _check_place(folder: Path) -> None:
    """Check that no project has the folder in its toolsets or data, where it would be a broken toolset or chat."""
    place = folder.resolve()  # `..` and links lead to another place than the text says
    for root in place.parents:
        inner = place.relative_to(root).parts
        if inner[0] not in _WRITTEN or not (root / CONFIG).is_file():
            continue
        hint = "choose a folder outside of the project"
        if inner[0] == "toolsets":
            name = inner[1] if len(inner) == len(("toolsets", "NAME")) else ""
            is_free = is_id(name) and name not in RESERVED_TOOLSET_IDS and not folder.exists()
            hint = f"covalt-git toolset new {name if is_free else 'NAME'}, or {hint}"
        raise CovaltError(
            f"{str(folder)!r} is in the folder '{inner[0]}' of the project {str(root)!r}, {_WRITTEN[inner[0]]}",
            hint=hint,
            code="invalid_folder",
            http_status=409,
        )


def commit_project(folder: Path, created: Iterable[str]) -> None:
    """Commit the files that :func:`create_project` created in a new repository."""
    files = (file for name in created for file in [folder / name, *(folder / name).rglob("*")])
    commit_files(folder, [file for file in files if file.is_file()], "Create the project")


def write_schemas(folder: Path) -> None:
    """Write the JSON Schemas of this version into a project; replace schemas of another version."""
    for name in NAMES:
        file = folder / SCHEMAS / file_name(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        check_no_link(folder, file)
        file.write_text(schema_text(name), encoding="utf-8", newline="\n")


def sample_toolset(name: str) -> Path:
    package = Path(__file__).parents[1]
    installed = package / "sample_toolsets" / name
    return installed if installed.is_dir() else package.parent / "toolsets" / name


def copy_toolset(source: Path, target: Path, fill: Callable[[bytes], bytes] = bytes) -> list[Path]:
    """Copy a toolset, and return the copied files; ``fill`` changes their contents.

    The manifest gets the line for editors.  A killed process leaves no incomplete ``target``.
    """
    unfinished = target.with_name(f"{STAGED}{new_id()}")
    files = [file for file in source.rglob("*") if file.is_file() and PYCACHE not in file.parts]
    try:
        for file in files:
            content = fill(file.read_bytes())
            if file.name == MANIFEST:
                schema = f"../../{SCHEMAS}/{file_name('toolset')}"
                content = f"{modeline(schema)}\n".encode() + content
            copy = unfinished / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
        atomic_write.rename(unfinished, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return sorted(target / file.relative_to(source) for file in files)


def _repository_above(folder: Path) -> Path | None:
    places = (folder.absolute(), *folder.absolute().parents)
    return next((place for place in places if (place / ".git").exists()), None)
