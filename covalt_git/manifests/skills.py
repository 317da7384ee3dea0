"""Skills of a toolset: folders ``skills/NAME`` with instructions for agents in ``SKILL.md``.

The file begins with YAML between two lines ``---`` (Agent Skills specification).  Agents read the files as MCP
resources with the scheme ``skill:``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import ConfigDict, Field

from covalt_git.errors import Problem
from covalt_git.manifests.reading import Reading, read_text
from covalt_git.models.base import StrictModel
from covalt_git.models.prompts import Resource
from covalt_git.names import local_names
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.manifests.toolset_files import BundleFiles, Contents

SKILL = "SKILL.md"
SKILLS = "skills"
SCHEME = "skill"
"""The scheme of skills' URIs, as in the MCP extension for skills (SEP-2640)."""

# A text that re compiles at its first use: few commands read skills, and patterns of modules cost a call 15 ms.
_HEADER = rb"(?m)---[ \t]*(\r?\n(?s:.*?)^)---[ \t]*(?:\r?\n|\Z)"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class SkillHeader(StrictModel):
    """The header of a skill; programs that use skills define other keys, which are not checked."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(max_length=64)]
    description: Annotated[str, Field(min_length=1, max_length=1024)]


def skill_path(name: str, file: str = SKILL) -> str:
    return f"{SKILLS}/{name}/{file}"


def names_of_skills(paths: Iterable[str]) -> list[str]:
    """Return the names of the folders below ``skills/`` that have files, sorted."""
    every = (path.split("/") for path in paths)
    return sorted({parts[1] for parts in every if parts[0] == SKILLS and len(parts) > 2})  # noqa: PLR2004


def read_skills(
    display_path: str, files: BundleFiles, contents: Contents
) -> tuple[tuple[SkillHeader, ...], list[Problem]]:
    """Return the valid skills of a toolset, and the problems of the others."""
    skills: list[SkillHeader] = []
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
        skills += [reading.value] if reading.value is not None else []
    return tuple(skills), problems


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
    if not _NAME.fullmatch(skill.name):
        message = "must be lower-case letters and digits, joined by single hyphens"
        problem = reading.problem(codes.BAD_ID, ("name",), message)
    elif name and skill.name != name:
        message = f"must be the name of the folder, {name!r}"
        problem = reading.problem(codes.BAD_VALUE, ("name",), message, hint=f"name: {name}")
    if problem is not None:
        return Reading(display_path, None, reading.document, (problem,))
    return reading


def skill_resources(toolset_id: str, skills: Iterable[SkillHeader]) -> tuple[Resource, ...]:
    """Return the resources of skills: ``SKILL.md`` of each, and a template for its other files."""
    resources: list[Resource] = []
    for skill in skills:
        base = f"{SCHEME}://{toolset_id}/{skill.name}"
        own, others = (local_names([f"{word}.{skill.name}"]) for word in ("skill", "skill-files"))
        file = Resource(
            id=next(iter(own.values())),
            uri=f"{base}/{SKILL}",
            name=skill.name,
            description=skill.description,
            mime_type="text/markdown",
            file=skill_path(skill.name),
        )
        template = Resource(
            id=next(iter(others.values())),
            uri_template=f"{base}/{{+path}}",
            name=f"files of {skill.name}",
            file=skill_path(skill.name, "${args.path}"),
        )
        resources += [file, template]
    return tuple(resources)
