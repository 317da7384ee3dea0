"""Skills of a toolset: folders ``skills/NAME`` with instructions for agents in ``SKILL.md``.

The file begins with YAML between two lines ``---`` (Agent Skills specification).  Agents read the files as MCP
resources with the scheme ``skill:``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import quote

from pydantic import ConfigDict, Field

from covalt_git.errors import Problem
from covalt_git.manifests.reading import Reading, read_text
from covalt_git.models.base import StrictModel
from covalt_git.models.prompts import Resource
from covalt_git.models.sources.skill_entry import (
    NAME,
    SCHEME,
    SKILL,
    SkillEntry,
    SkillFile,
    excess,
)
from covalt_git.names import local_names
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.toolset_files import BundleFile, BundleFiles, Contents

SKILLS = "skills"

# A text that re compiles at its first use: few commands read skills, and patterns of modules cost a call 15 ms.
_HEADER = rb"(?m)---[ \t]*(\r?\n(?s:.*?)^)---[ \t]*(?:\r?\n|\Z)"


class SkillHeader(StrictModel):
    """The header of a skill; programs that use skills define other keys, which are not checked."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(max_length=64)]
    description: Annotated[str, Field(min_length=1, max_length=1024)]


class Skill(NamedTuple):
    """A valid skill of a toolset: its header, all keys of its front matter, and its files.

    ``excess`` says how it exceeds the limits of the MCP extension; it is then no skill for agents, but still a resource.
    """

    header: SkillHeader
    frontmatter: JsonObject
    files: tuple[BundleFile, ...]
    excess: str

    @property
    def name(self) -> str:
        return self.header.name

    def entry(self, toolset_id: str) -> SkillEntry:
        """Return its entry in the MCP extension, below the id of its toolset."""
        folder = skill_path(self.name, "")
        root = skill_uri(toolset_id, self.name)
        files = (
            SkillFile(
                f"{root}/{quote(file.path.removeprefix(folder))}",
                f"sha256:{file.sha256}",
                file.size,
            )
            for file in self.files
        )
        return SkillEntry(f"{root}/{SKILL}", self.frontmatter, tuple(files))


def skill_uri(toolset_id: str, name: str) -> str:
    """Return the URI of the folder of a toolset's skill."""
    return f"{SCHEME}://{toolset_id}/{name}"


def skill_path(name: str, file: str = SKILL) -> str:
    return f"{SKILLS}/{name}/{file}"


def names_of_skills(paths: Iterable[str]) -> list[str]:
    """Return the names of the folders below ``skills/`` that have files, sorted."""
    every = (path.split("/") for path in paths)
    return sorted({parts[1] for parts in every if parts[0] == SKILLS and len(parts) > 2})  # noqa: PLR2004


def read_skills(
    display_path: str, files: BundleFiles, contents: Contents
) -> tuple[tuple[Skill, ...], list[Problem]]:
    """Return the valid skills of a toolset, and the problems of all."""
    skills: list[Skill] = []
    problems: list[Problem] = []
    for name in names_of_skills(files.hashes):
        path = skill_path(name)
        skill_file = f"{display_path}/{path}"
        try:
            content = contents.read(path)
        except OSError:
            hint = f"write {skill_file}, or move the other files out of skills/"
            problems.append(
                Problem(skill_file, 0, 0, codes.NO_FILE, "a skill needs this file", hint)
            )
            continue
        reading = read_skill(content, skill_file, name)
        problems += reading.problems
        if reading.value is None or reading.document is None:
            continue
        folder = skill_path(name, "")
        own = tuple(file for file in files.files if file.path.startswith(folder))
        too_much = excess(file.size for file in own)
        skills.append(Skill(reading.value, reading.document.data, own, too_much))
        if too_much:
            message = f"{too_much}; agents do not get it as a skill"
            hint = "move files of the skill to assets/ of the toolset, or split the skill"
            problems.append(Problem(skill_file, 0, 0, codes.TOO_LARGE, message, hint, "warning"))
    return tuple(skills), problems


def frontmatter_of(content: bytes) -> JsonObject | None:
    """Return the front matter of a ``SKILL.md``; None if it has none that is valid."""
    reading = read_skill(content, SKILL)
    return None if reading.value is None or reading.document is None else reading.document.data


def read_skill(content: bytes, display_path: str, name: str = "") -> Reading[SkillHeader]:
    """Read the header of a skill in the folder ``name``; without a name, the folder is not checked."""
    header = re.match(_HEADER, content)
    if header is None:
        message, hint = "a skill begins with YAML between two lines ---", "add name and description"
        missing = Problem(display_path, 1, 1, codes.SYNTAX, message, hint)
        return Reading(display_path, None, None, (missing,))
    reading = read_text(header[1], display_path, SkillHeader)  # its first line is the rest of ---
    skill = reading.value
    if skill is None:
        return reading
    problem = None
    if not re.fullmatch(NAME, skill.name):
        message = "must be lower-case letters and digits, joined by single hyphens"
        problem = reading.problem(codes.BAD_ID, ("name",), message)
    elif name and skill.name != name:
        message = f"must be the name of the folder, {name!r}"
        problem = reading.problem(codes.BAD_VALUE, ("name",), message, hint=f"name: {name}")
    if problem is not None:
        return Reading(display_path, None, reading.document, (problem,))
    return reading


def skill_ids(name: str) -> tuple[str, str]:
    """Return the ids of a skill's resources, which roles permit: of its ``SKILL.md``, and of its other files."""
    own, others = (
        next(iter(local_names([f"{word}.{name}"]).values())) for word in ("skill", "skill-files")
    )
    return own, others


def skill_resources(toolset_id: str, skills: Iterable[Skill]) -> tuple[Resource, ...]:
    """Return the resources of skills: ``SKILL.md`` of each, and a template for its other files."""
    resources: list[Resource] = []
    for skill in skills:
        root = skill_uri(toolset_id, skill.name)
        own, others = skill_ids(skill.name)
        file = Resource(
            id=own,
            uri=f"{root}/{SKILL}",
            name=skill.name,
            description=skill.header.description,
            mime_type="text/markdown",
            file=skill_path(skill.name),
        )
        template = Resource(
            id=others,
            uri_template=f"{root}/{{+path}}",
            name=f"files of {skill.name}",
            file=skill_path(skill.name, "${args.path}"),
        )
        resources += [file, template]
    return tuple(resources)
