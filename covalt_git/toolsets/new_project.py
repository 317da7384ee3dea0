"""Making a project: the few files of one, written for people to read and change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store import commit_files, create_work_repository
from covalt_git.manifests.project_root import CONFIG
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.published_schemas import NAMES, file_name, modeline, schema_text
from covalt_git.system import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterable

SAMPLES = ("app-builder", "data-lab", "text-kit")

SCHEMAS = ".covalt/schemas"
"""Where a project keeps the JSON Schemas that the first lines of its YAML files name: checked in, so
that an editor needs neither covalt-git nor a network."""

REPOSITORY = "a git repository"
"""What a project in no repository gets."""

CONFIG_TEXT = """\
# yaml-language-server: $schema=.covalt/schemas/covalt.schema.json
# The settings of this covalt-git project; this file marks its root.
# Everything but `version` may be left out.  Check it with: covalt-git validate
version: 1

# Who may call which tools.  Without roles, the person at this machine may do everything.
# A pattern is a tool's path: * stands for one part, ** for any number of parts; deny wins.
#
# default_role: developer
# roles:
#   developer:
#     allow: ["app-builder.**", "data-lab.**"]
#     deny: ["app-builder.run_command"]
#     approve: ["app-builder.write_*"]
#   owner:
#     admin: true

# Which calls wait for a person.  Tools may ask for it themselves; the first rule that applies to a
# call decides, and only a rule here (or in toolsets/state/) can say that nobody has to be asked.
# A text is compared as it is written and as a normal path: a/../.env/ is .env.
approvals:
  - pattern: "**"
    when: {args: {path: "*.env"}}
    require: true

workspace:
  # Names that are never stored in a chat's history; a trailing / means folders only.
  ignore: [__pycache__/, node_modules/, .venv/]
  max_file_mb: 100
  # full: on the disk before a command says it is done.  fast: the system writes when it likes.
  durability: full

# The most that a call may take; a tool may say less, and never more.  Where neither says, it has
# 60 s and 16 MiB of output.
limits:
  # timeout_s: 300
  # memory_mb: 2048
  approval_expires_s: 86400
"""

GITIGNORE_TEXT = """\
# chats and the index: a chat's history is the git store data/chats/<id>/store.git
/data/
# toolsets on their way in or out, for moments
/toolsets/.*
__pycache__/
"""


class ProjectExistsError(CovaltError):
    """There is a project already."""

    code = "project_exists"
    http_status = 409


def create_project(folder: Path) -> list[str]:
    """Make a project in ``folder`` with the sample toolsets; return what was made, in words.

    Files that are there already are kept.  A folder that lies in a git repository stays part of it.

    Raises:
        ProjectExistsError: when it is one already.
    """
    if (folder / CONFIG).exists():
        raise ProjectExistsError(
            f"{str(folder)!r} is a project already", hint=f"cd {folder} && covalt-git validate"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise CovaltError(f"{str(folder)!r} is not a folder", hint="choose another name") from None
    made = []
    for sample in SAMPLES:
        target = folder / "toolsets" / sample
        if not target.exists():
            _copy_whole(sample_toolset(sample), target)
            made.append(f"toolsets/{sample}")
    write_schemas(folder)
    made.append(SCHEMAS)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text(GITIGNORE_TEXT, encoding="utf-8")
        made.append(".gitignore")
    if _repository_above(folder) is None:
        create_work_repository(folder)
        made.append(REPOSITORY)
    # Last, because this file is what makes it a project: a half made one can be made again.
    (folder / CONFIG).write_text(CONFIG_TEXT, encoding="utf-8")
    return [CONFIG, *made]


def commit_project(folder: Path, made: Iterable[str]) -> None:
    """Commit the files that :func:`create_project` made in a new repository."""
    files = (file for name in made for file in [folder / name, *(folder / name).rglob("*")])
    commit_files(folder, [file for file in files if file.is_file()], "Create the project")


def write_schemas(folder: Path) -> None:
    """Write the JSON Schemas of this version into a project, over those of another one."""
    for name in NAMES:
        file = folder / SCHEMAS / file_name(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(schema_text(name), encoding="utf-8", newline="\n")


def toolset_modeline() -> str:
    """Return the first line of a ``toolset.yaml``: the schema that an editor follows, relative to it."""
    return modeline(f"../../{SCHEMAS}/{file_name('toolset')}")


def sample_toolset(name: str) -> Path:
    """Return the folder of a toolset that comes with covalt-git."""
    package = Path(__file__).parents[1]
    installed = package / "sample_toolsets" / name
    return installed if installed.is_dir() else package.parent / "toolsets" / name


def _copy_whole(source: Path, target: Path) -> None:
    """Copy a toolset so that it is there whole or not at all, even after a kill."""
    unfinished = target.with_name(f".{target.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    # The bytes only: an installed package may be read-only, what it gives to people is not.
    shutil.copytree(source, unfinished, ignore=_leftovers, copy_function=shutil.copyfile)
    manifest = unfinished / MANIFEST
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(f"{toolset_modeline()}\n{text}", encoding="utf-8", newline="\n")
    for path in (unfinished, *unfinished.rglob("*")):
        path.chmod(path.stat().st_mode | 0o600 | (0o100 if path.is_dir() else 0))
    atomic_write.rename(unfinished, target)


def _leftovers(_folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name == "__pycache__" or name.endswith(".pyc")}


def _repository_above(folder: Path) -> Path | None:
    places = (folder.absolute(), *folder.absolute().parents)
    return next((place for place in places if (place / ".git").exists()), None)
